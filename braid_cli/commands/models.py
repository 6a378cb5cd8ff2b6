"""``braid models``: lists models, and exports model folders."""

from __future__ import annotations

import re
from contextlib import nullcontext
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from braid.engines.onnx.model_files import MANIFEST, ModelKind, Precision, open_model, read_manifest
from braid.errors import ConfigurationError, ModelError
from braid.models.enums_and_scalars import printable
from braid.settings import load_settings
from braid.settings.configuration_files import load_profiles
from rich.console import Console
from rich.table import Table
from rich.text import Text

from braid_cli.options import AsJson  # noqa: TC001 - typer reads annotations
from braid_cli.terminal import examples, print_json

if TYPE_CHECKING:
    from braid.models.embedding_models import ModelConfig, Profiles

app = typer.Typer(name="models", no_args_is_help=True, help="List models and make model folders.")


class Via(StrEnum):
    """Methods of exporting a model."""

    DIRECT = "direct"
    SENTENCE_TRANSFORMERS = "sentence-transformers"


class KindOption(StrEnum):
    """Kinds of model, as spelt on the command line."""

    ENCODER = "encoder"
    CROSS_ENCODER = "cross-encoder"


@app.command("list", epilog=examples("braid models list", "braid models list --json | jq '.models[] | select(.ready)'"))
def list_models(
    models_dir: Annotated[
        Path | None, typer.Option("--models-dir", help="Folder with a folder for each model.")
    ] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """List the configured models, whether they are made, and the profiles that use them."""
    settings = load_settings()
    folder = models_dir or settings.models_path()
    profiles = load_profiles(settings.shared_dir)
    rows = [_row(model, profiles, folder / model.id) for model in profiles.models]
    known = {model.id for model in profiles.models}
    others = sorted(path.parent for path in folder.glob(f"*/{MANIFEST}") if path.parent.name not in known)
    rows += [_other_row(path) for path in others]
    if as_json:
        print_json({"models_dir": str(folder), "profile": settings.model_profile, "models": rows})
        return
    table = Table(title=f"Models in {folder} (profile: {settings.model_profile})")
    for heading in ("id", "kind", "profiles", "dim", "tokens", "state"):
        table.add_column(heading, no_wrap=heading == "id")
    for row in rows:
        state = f"ready, {row['precision']}" if row["ready"] else "unusable" if row["problem"] else "not made"
        colour = "green" if row["ready"] else "red" if row["problem"] else "dim"
        table.add_row(
            Text(printable(str(row["id"]))),
            str(row["kind"]),
            ", ".join(row["profiles"]) if isinstance(row["profiles"], list) else "",
            str(row["dimension"]),
            str(row["max_tokens"]),
            Text(state, style=colour),
        )
    console = Console()
    console.print(table)
    for row in rows:
        if row["problem"]:
            console.print(Text(printable(str(row["problem"])), style="red"), soft_wrap=True)


def _row(model: ModelConfig, profiles: Profiles, folder: Path) -> dict[str, object]:
    used = sorted(name for name, chosen in profiles.profiles.items() if model.id in chosen.values())
    configured: dict[str, object] = {
        "id": model.id,
        "kind": ModelKind.ENCODER.value,
        "base": model.base,
        "profiles": used,
        "dimension": model.dimension,
        "max_tokens": model.max_tokens,
    }
    return configured | _state(folder)


def _other_row(folder: Path) -> dict[str, object]:
    state = _state(folder)
    try:
        manifest = read_manifest(folder)
    except ModelError:
        blank: dict[str, object] = {"kind": "", "base": "", "dimension": "", "max_tokens": ""}
        return {"id": folder.name, "profiles": []} | blank | state
    described: dict[str, object] = {
        "id": manifest.id,
        "kind": manifest.kind.value,
        "base": manifest.source,
        "profiles": [],
        "dimension": manifest.dimension,
        "max_tokens": manifest.max_tokens,
    }
    return described | state


def _state(folder: Path) -> dict[str, object]:
    if not folder.exists():
        return {"ready": False, "problem": None, "precision": None}
    try:
        manifest = open_model(folder).manifest
    except ModelError as error:
        return {"ready": False, "problem": str(error), "precision": None}
    return {"ready": True, "problem": None, "precision": manifest.precision.value}


@app.command(
    epilog=examples(
        "braid models export                                   [dim]the default model, from installed weights[/dim]",
        "braid models export ./my-bert --id my-bert            [dim]from safetensors, without PyTorch[/dim]",
        "braid models export codebert-code --allow-checkpoint  [dim]a configured model, from the hub[/dim]",
        "braid models export cross-encoder/ms-marco-MiniLM-L6-v2 --kind cross-encoder --precision int8",
    )
)
def export(
    source: Annotated[
        str | None,
        typer.Argument(help="Id of a configured model, a local folder, or a hub id. Default: the default model."),
    ] = None,
    *,
    model_id: Annotated[
        str | None,
        typer.Option("--id", help="Id of the model, which names its embedding space."),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Folder to write. Default: in the models folder.")] = None,
    via: Annotated[
        Via | None,
        typer.Option("--via", help="Method. direct: from a local folder, without PyTorch. Default: by SOURCE."),
    ] = None,
    kind: Annotated[KindOption, typer.Option("--kind", help="Kind of model.")] = KindOption.ENCODER,
    precision: Annotated[Precision, typer.Option("--precision", help="int8: smaller, less accurate.")] = Precision.FP32,
    max_tokens: Annotated[int | None, typer.Option("--max-tokens", min=8, help="Maximum of tokens of a text.")] = None,
    revision: Annotated[str | None, typer.Option("--revision", help="Branch, tag or commit on the hub.")] = None,
    licence: Annotated[str | None, typer.Option("--licence", help="The weights' licence, for the manifest.")] = None,
    allow_checkpoint: Annotated[
        bool, typer.Option("--allow-checkpoint", help="Read weights that are only a PyTorch checkpoint.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing folder.")] = False,
) -> None:
    """Make a model folder: ONNX graph, tokenizer and manifest."""
    from braid_cli.model_export.default_model import (
        DEFAULT_LICENCE,
        DEFAULT_MODEL,
        DEFAULT_ORIGIN,
        export_default,
        provided_weights,
    )

    settings = load_settings()
    configured = {model.id: model for model in load_profiles(settings.shared_dir).models}
    config = configured.get(source or DEFAULT_MODEL)
    identity = model_id or (config.id if config else _slug(source or ""))
    target = out or settings.models_path() / identity
    model_kind = ModelKind.CROSS_ENCODER if kind is KindOption.CROSS_ENCODER else ModelKind.ENCODER
    packaged = config is not None and config.id == DEFAULT_MODEL and revision is None
    from_hub = config is not None and not packaged and via is not Via.DIRECT and not Path(config.base).is_dir()
    pinned = config.revision if config is not None and from_hub else None
    if packaged and via is not Via.SENTENCE_TRANSFORMERS:
        if max_tokens or licence or allow_checkpoint or model_kind is not ModelKind.ENCODER:
            raise ConfigurationError("the default model takes no --max-tokens, --licence, --allow-checkpoint or --kind")
        with Console(stderr=True).status(f"Writing {target}"):
            export_default(target, model_id=identity, precision=precision, force=force)
    else:
        with provided_weights() if packaged else nullcontext() as weights:
            _export(
                str(weights or (config.base if config else source or "")),
                target,
                origin=DEFAULT_ORIGIN if packaged else None,
                via=via,
                model_id=identity,
                kind=model_kind,
                precision=precision,
                max_tokens=max_tokens or (config.max_tokens if config else None),
                revision=revision or pinned,
                licence=licence or (DEFAULT_LICENCE if packaged else "as stated by the source"),
                allow_checkpoint=allow_checkpoint,
                force=force,
            )
    manifest = open_model(target).manifest
    size = sum(file.size for file in manifest.files) / 1e6
    Console().print(
        f"[green]{manifest.id}[/green] ({manifest.kind.value}, {manifest.dimension}-d, {manifest.max_tokens} tokens, "
        f"{manifest.precision.value}, {size:.0f} MB) is in {target}"
    )


def _export(
    source: str,
    target: Path,
    *,
    via: Via | None,
    origin: str | None,
    revision: str | None,
    allow_checkpoint: bool,
    **how: Any,  # noqa: ANN401 - as of both methods
) -> None:
    """Export a model by one of the methods; ``how`` are the parameters that both have."""
    local = Path(source).expanduser()
    chosen = via or (Via.DIRECT if (local / "model.safetensors").is_file() else Via.SENTENCE_TRANSFORMERS)
    if origin is None and local.is_dir():  # a name of the hub may be that of a folder here, too
        Console(stderr=True, markup=False).print(f"The model is taken from the folder {local.resolve()}.")
    with Console(stderr=True).status(f"Writing {target} via {chosen.value}"):
        if chosen is Via.DIRECT:
            from braid_cli.model_export.from_safetensors import export_direct

            if revision or allow_checkpoint:
                raise ConfigurationError("--revision and --allow-checkpoint need --via sentence-transformers")
            export_direct(local, target, origin=origin, **how)
        else:
            from braid_cli.model_export.via_sentence_transformers import export_via_sentence_transformers

            folder = str(local) if local.is_dir() else source
            export_via_sentence_transformers(
                folder, target, origin=origin, revision=revision, allow_checkpoint=allow_checkpoint, **how
            )


def _slug(source: str) -> str:
    """Return the last part of a path or hub id as a model id."""
    return re.sub(r"[^a-z0-9]+", "-", Path(source).name.lower()).strip("-")
