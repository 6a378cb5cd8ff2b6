"""The library's examples in the documentation run as they stand, with the real model."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from braid import Braid
from braid.app import Application
from braid.settings import Settings

from tests.e2e.conftest import ROOT
from tests.served import served, token

if TYPE_CHECKING:
    from pathlib import Path

NOTE = "The ledger is kept by the Harbour team."


def examples(document: str) -> list[str]:
    """Return the Python of a document, block by block."""
    return re.findall(r"(?ms)^```python\n(.*?)^```", (ROOT / document).read_text(encoding="utf-8"))


@pytest.fixture(autouse=True)
def _notes(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BRAID_MODELS", str(home / "models"))
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "harbour.md").write_text(NOTE, encoding="utf-8")
    (tmp_path / "notes" / "depot.md").write_text("Labels are printed at the depot.", encoding="utf-8")


def test_the_five_lines_of_the_readme_answer_from_a_folder(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = examples("README.md")
    assert len([line for line in example.splitlines() if line]) == 5
    names: dict[str, Any] = {}
    exec(example, names)  # noqa: S102 - of our own documentation
    names["b"].close()
    assert NOTE in capsys.readouterr().out.splitlines()[0]


def test_the_calls_of_the_librarys_page_work_in_their_order(tmp_path: Path) -> None:
    example, *_of_the_frameworks = examples("docs/library.md")
    with Braid(tmp_path / "store") as b:
        names: dict[str, Any] = {"b": b}
        exec(example, names)  # noqa: S102 - of our own documentation
        assert [result.id for result in names["results"]] == ["note-1"]
        assert b.stats().records == 0


def test_the_example_of_the_http_interface_asks_a_server(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (example,) = examples("docs/api.md")
    application = Application(Settings(home=tmp_path / "store", models_dir=home / "models"))
    with served(application) as url:
        Braid.deployed(url, token("acme")).add({"id": "a", "title": "Ledger", "text": NOTE})
        exec(example, {"url": url, "token": token("acme")})  # noqa: S102 - of our own documentation
    application.close()
    assert capsys.readouterr().out == "Ledger\n"
