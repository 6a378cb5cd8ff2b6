"""The blocks of the documentation that need a framework, as they stand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from braid import Braid
from llama_index.core.llms.mock import MockLLM

from tests.documented import DOCUMENTS, blocks

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

TEXTS = {"backups.md": "We keep backups for ninety days.", "ledger.md": "The ledger is kept by the Harbour team."}


def test_every_block_that_needs_a_framework_does_what_the_document_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "handbook").mkdir()
    for name, text in TEXTS.items():
        (tmp_path / "handbook" / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    ran = []
    for block in (block for path in DOCUMENTS for block in blocks(path)):
        if block.reason in {"needs LangChain", "needs LlamaIndex"}:
            names = {"Braid": Braid, "llm": MockLLM()}
            exec(compile(block.text, block.place, "exec"), names)  # noqa: S102 - of our own documentation
            retriever = names["retriever"]
            (retriever.braid if block.reason == "needs LangChain" else retriever._braid).close()
            ran.append(block.reason)
    assert ran == ["needs LangChain", "needs LangChain", "needs LlamaIndex"]
    said = capsys.readouterr().out
    assert "We keep backups for ninety days. handbook/backups.md#chunk-0\n" in said
    assert "The ledger is kept by the Harbour team." in said
