"""Make the models of one container image; ``functions/Dockerfile`` runs it in the image's first stage.

The default model is made from weights that a package brings, in seconds and without PyTorch. PyTorch, several GB with
CUDA, is installed only where a profile has other models, or a cross-encoder is asked for.

Usage: ``python image_models.py OUT [--options=…] [--reranker ID --source HUB_ID --revision COMMIT] [PROFILE …]``.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from braid.models.embedding_models import models_of
from braid.settings.configuration_files import load_profiles

from braid_cli.model_export.default_model import DEFAULT_MODEL

if TYPE_CHECKING:
    from braid.models.embedding_models import Profiles

WITH_PYTORCH = ("--via", "sentence-transformers")
INSTALL_PYTORCH = (
    "uv",
    "sync",
    "--locked",
    "--no-default-groups",
    "--extra",
    "export",
    "--group",
    "clone",
    "--no-cache",
)


def commands(profiles: Profiles, names: list[str], asked: argparse.Namespace) -> list[tuple[str, ...]]:
    """Return what is run, in order.

    Parameters
    ----------
    profiles
        What is configured.
    names
        Profiles whose encoders are made; an empty name is none.
    asked
        ``out``, ``options``, and of the cross-encoder ``reranker``, ``source`` and ``revision``.
    """
    export = ("braid", "models", "export")
    options = tuple(shlex.split(asked.options))
    found: list[tuple[str, ...]] = []
    for model in {model.id: model for name in names if name for model in models_of(profiles, name)}.values():
        how = () if model.id == DEFAULT_MODEL else WITH_PYTORCH
        checkpoint = ("--allow-checkpoint",) if model.checkpoint else ()
        found.append((*export, model.id, "--out", f"{asked.out}/{model.id}", *how, *checkpoint, *options))
    if asked.reranker:
        source = ("--kind", "cross-encoder", "--revision", asked.revision, "--id", asked.reranker)
        out = ("--out", f"{asked.out}/{asked.reranker}")
        found.append((*export, asked.source, *out, *WITH_PYTORCH, *source, *options))
    pytorch = any(WITH_PYTORCH[0] in command for command in found)
    return [INSTALL_PYTORCH, *found] if pytorch else found


def main(arguments: list[str]) -> None:
    """Run each command; the first that fails ends the build."""
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("--options", default="")
    parser.add_argument("--reranker", default="")
    parser.add_argument("--source", default="")
    parser.add_argument("--revision", default="")
    parser.add_argument("profiles", nargs="*")
    asked = parser.parse_args(arguments)
    for command in commands(load_profiles(Path("shared")), asked.profiles, asked):
        print(shlex.join(command), flush=True)
        subprocess.run(command, check=True)  # noqa: S603 - made above


if __name__ == "__main__":
    main(sys.argv[1:])
