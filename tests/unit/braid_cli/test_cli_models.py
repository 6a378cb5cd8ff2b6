"""``braid models list`` and ``braid models export``, as typed."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest
from braid.engines.onnx.model_files import ModelKind, Precision, open_model
from braid.errors import BraidError, ConfigurationError, ModelMissing
from braid.models.enums_and_scalars import printable
from braid.settings import load_settings
from typer.testing import CliRunner

from braid_cli.commands.models import app
from braid_cli.model_export import via_sentence_transformers
from tests.tiny_models import write_bert, write_modules, write_roberta

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("BRAID_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("BRAID_MODELS", str(tmp_path / "home" / "models"))
    monkeypatch.setenv("COLUMNS", "160")
    load_settings.cache_clear()
    yield tmp_path / "home"
    load_settings.cache_clear()


def braid_models(*arguments: str) -> str:
    """Run a command and return what it prints; an error of Braid's goes through to the caller, as it does to main."""
    done = CliRunner().invoke(app, list(arguments))
    if isinstance(done.exception, BraidError):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


def listed() -> dict[str, dict[str, object]]:
    return {row["id"]: row for row in json.loads(braid_models("list", "--json"))["models"]}


def test_the_list_has_every_configured_model_and_says_that_none_is_made() -> None:
    rows = listed()
    assert rows["codebert-code"]["base"] == "microsoft/codebert-base"
    assert rows["all-minilm-l6-v2"]["profiles"] == ["minilm"]
    assert not any(row["ready"] for row in rows.values())
    assert "not made" in braid_models("list")


def test_a_made_model_is_listed_as_ready_and_a_tampered_one_with_its_problem(tmp_path: Path, home: Path) -> None:
    write_bert(tmp_path / "My Tiny_BERT")
    assert "my-tiny-bert" in braid_models("export", str(tmp_path / "My Tiny_BERT"))
    assert listed()["my-tiny-bert"] == {
        "id": "my-tiny-bert",
        "kind": "encoder",
        "base": "My Tiny_BERT",
        "profiles": [],
        "dimension": 32,
        "max_tokens": 40,
        "ready": True,
        "problem": None,
        "precision": "fp32",
    }
    (home / "models" / "my-tiny-bert" / "tokenizer.json").write_text("{}", encoding="utf-8")
    row = listed()["my-tiny-bert"]
    assert not row["ready"]
    assert "tokenizer.json" in str(row["problem"])
    (home / "models" / "my-tiny-bert" / "manifest.json").write_text("{}", encoding="utf-8")
    assert "manifest.json" in str(listed()["my-tiny-bert"]["problem"])


def test_what_a_strangers_model_folder_holds_steers_no_terminal_and_is_no_markup(home: Path) -> None:
    folder = home / "models" / "a\x1b[31m[red]b"
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text("{}", encoding="utf-8")
    text = braid_models("list")
    assert "a�[31m[red]b" in text
    assert all(printable(line) == line for line in text.splitlines())


def test_a_cross_encoder_is_exported_where_it_is_told(tmp_path: Path) -> None:
    write_roberta(tmp_path / "source", labels=1)
    out = tmp_path / "elsewhere"
    braid_models(
        "export", str(tmp_path / "source"), "--id", "mine", "--out", str(out), "--kind", "cross-encoder",
        "--precision", "int8", "--max-tokens", "16", "--licence", "MIT",
    )  # fmt: skip
    manifest = open_model(out, ModelKind.CROSS_ENCODER).manifest
    assert (manifest.id, manifest.precision, manifest.max_tokens, manifest.licence) == (
        "mine",
        Precision.INT8,
        16,
        "MIT",
    )


def test_a_folder_that_is_named_as_a_model_of_the_hub_is_said_to_be_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_bert(tmp_path / "intfloat" / "e5")
    said = CliRunner().invoke(app, ["export", "intfloat/e5"]).stderr
    assert str(tmp_path / "intfloat" / "e5") in said.replace("\n", "")
    assert "folder" not in CliRunner().invoke(app, ["export"]).stderr


def test_an_existing_model_is_replaced_only_with_force(tmp_path: Path, home: Path) -> None:
    write_bert(tmp_path / "tiny")
    braid_models("export", str(tmp_path / "tiny"))
    with pytest.raises(ConfigurationError, match="--force"):
        braid_models("export", str(tmp_path / "tiny"))
    write_modules(tmp_path / "tiny", max_tokens=12)
    braid_models("export", str(tmp_path / "tiny"), "--force")
    assert open_model(home / "models" / "tiny").manifest.max_tokens == 12


def test_the_default_model_needs_no_source(home: Path) -> None:
    assert "384-d" in braid_models("export")
    assert listed()["all-minilm-l6-v2"]["ready"]
    assert open_model(home / "models" / "all-minilm-l6-v2").manifest.max_tokens == 256


@pytest.mark.parametrize("option", [("--max-tokens", "64"), ("--licence", "MIT"), ("--kind", "cross-encoder")])
def test_the_default_model_refuses_what_is_not_its_own(option: tuple[str, str], home: Path) -> None:
    with pytest.raises(ConfigurationError, match=option[0]):
        braid_models("export", *option)
    assert not home.exists()


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelMissing, match="absent: no such folder"):
        braid_models("export", str(tmp_path / "absent"), "--via", "direct")


def test_options_of_the_hub_are_refused_for_a_folder(tmp_path: Path) -> None:
    write_bert(tmp_path / "tiny")
    with pytest.raises(ConfigurationError, match="--revision"):
        braid_models("export", str(tmp_path / "tiny"), "--revision", "main")


def test_a_hub_id_without_the_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(ConfigurationError, match="the extra export"):
        braid_models("export", "codebert-code")
    assert not home.exists()


@pytest.mark.parametrize(
    ("options", "revision"),
    [((), "3b0952feddeffad0063f274080e3c23d75e7eb39"), (("--revision", "main"), "main")],
)
def test_a_configured_model_is_of_the_commit_that_is_configured_unless_another_is_named(
    monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], revision: str
) -> None:
    asked: dict[str, object] = {}

    def export(_source: str, _out: Path, **fields: object) -> None:
        asked.update(fields)
        raise ModelMissing("as far as this goes")

    monkeypatch.setattr(via_sentence_transformers, "export_via_sentence_transformers", export)
    with pytest.raises(ModelMissing):
        braid_models("export", "codebert-code", *options)
    assert asked["revision"] == revision


@pytest.mark.parametrize("command", ["list", "export"])
def test_help_has_examples(command: str) -> None:
    assert f"braid models {command}" in braid_models(command, "--help")


def test_a_damaged_model_is_listed_as_unusable_and_the_reason_stands_on_a_line_of_its_own(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    (home / "models" / "broken").mkdir(parents=True)
    (home / "models" / "broken" / "manifest.json").write_text("{", encoding="utf-8")
    lines = braid_models("list").splitlines()
    assert any("broken" in line and "unusable" in line for line in lines)
    assert lines[-1].startswith(f"{home}/models/broken/manifest.json: not JSON")
    assert lines[-1].endswith("`braid models export broken --force`")
