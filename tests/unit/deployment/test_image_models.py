"""What an image's build runs to make its models."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest
from braid.settings.configuration_files import load_profiles

from make.image_models import INSTALL_PYTORCH, commands

ROOT = Path(__file__).resolve().parents[3]


def made(*profiles: str, options: str = "", reranker: str = "") -> list[tuple[str, ...]]:
    asked = argparse.Namespace(out="/weights", options=options, reranker=reranker, source="a/b", revision="c0ffee")
    return commands(load_profiles(ROOT / "shared"), list(profiles), asked)


def test_the_default_profile_is_made_without_pytorch() -> None:
    (command,) = made("minilm", "")
    assert command == ("braid", "models", "export", "all-minilm-l6-v2", "--out", "/weights/all-minilm-l6-v2")


def test_a_profile_of_published_checkpoints_is_made_with_pytorch_which_is_told_to_read_them() -> None:
    first, *rest = made("instructor", options="--precision int8")
    assert first == INSTALL_PYTORCH
    assert [command[3] for command in rest] == [
        "instructor-large-entity",
        "instructor-temporal-event",
        "codebert-code",
        "instructor-document",
    ]
    for command in rest:
        assert {"--allow-checkpoint", "sentence-transformers", "int8"} <= set(command)


def test_while_an_index_moves_the_models_of_both_profiles_are_made_each_once() -> None:
    ids = [command[3] for command in made("minilm", "instructor")[1:]]
    assert len(ids) == len(set(ids)) == 5
    assert made("minilm", "minilm") == made("minilm", "")


def test_a_cross_encoder_is_made_of_the_stated_commit() -> None:
    first, command = made(reranker="ms-marco")
    assert first == INSTALL_PYTORCH
    assert command[3:] == (
        *("a/b", "--out", "/weights/ms-marco", "--via", "sentence-transformers"),
        *("--kind", "cross-encoder", "--revision", "c0ffee", "--id", "ms-marco"),
    )


@pytest.mark.parametrize("path", ["make/image_models.py", "make/tools/uv.txt", "pyproject.toml", "shared", "braid_cli"])
def test_what_an_image_is_made_of_reaches_its_build(path: str) -> None:
    listed = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    assert f"!{path}" in listed
    assert path in (ROOT / "functions" / "Dockerfile").read_text(encoding="utf-8")


def test_every_configured_model_is_pinned_and_says_how_large_it_is() -> None:
    for model in load_profiles(ROOT / "shared").models:
        assert model.revision
        assert model.weights_mb
