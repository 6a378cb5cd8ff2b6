"""Converts datasets of the package ir_datasets to BEIR folders, each once."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from braid.errors import DatasetError

if TYPE_CHECKING:
    from collections.abc import Iterable

_SUGGESTED = 5


def judged_folder(named: Path, kept: Path) -> Path:
    """Return the folder of a dataset, given by a path or by an id of ir_datasets.

    Raises DatasetError if it is neither, or the dataset has no documents, questions or judgements.

    Parameters
    ----------
    named
        A path, or if that does not exist an id such as ``beir/scifact/test``.
    kept
        Folder for converted datasets.
    """
    if named.exists():
        return named
    try:
        import ir_datasets
    except ModuleNotFoundError as error:
        message = f"{named}: no such folder; ids of ir_datasets need that package: pip install ir-datasets"
        raise DatasetError(message) from error
    identity = str(named)
    try:
        dataset = ir_datasets.load(identity)
    except KeyError as error:
        raise DatasetError(f"{named}: no such folder, and no dataset of ir_datasets") from error
    lacking = [part for part in ("docs", "queries", "qrels") if not dataset.has(part)]
    if lacking:
        parts = [one for one in ir_datasets.registry if one.startswith(f"{identity}/")][:_SUGGESTED]
        more = f"; it has parts: {', '.join(parts)}" if parts else ""
        raise DatasetError(f"{identity}: the dataset of ir_datasets has no {' and no '.join(lacking)}{more}")
    folder = kept / identity.replace("/", "-")
    if not folder.exists():
        kept.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=kept) as temporary:
            whole = Path(temporary) / folder.name
            _write(dataset, whole)
            whole.rename(folder)
    return folder


def _write(dataset: Any, folder: Path) -> None:  # noqa: ANN401 - of a package without types
    (folder / "qrels").mkdir(parents=True)
    _lines(folder / "corpus.jsonl", (_document(one) for one in dataset.docs_iter()))
    queries = ({"_id": one.query_id, "text": one.default_text()} for one in dataset.queries_iter())
    _lines(folder / "queries.jsonl", queries)
    with (folder / "qrels" / "test.tsv").open("w", encoding="utf-8") as judgements:
        judgements.write("query-id\tcorpus-id\tscore\n")
        judgements.writelines(f"{one.query_id}\t{one.doc_id}\t{one.relevance}\n" for one in dataset.qrels_iter())


def _document(document: Any) -> dict[str, str]:  # noqa: ANN401
    """Return a document as a line of a corpus; one without a field ``text`` has ir_datasets' default text."""
    text = getattr(document, "text", None)
    title = getattr(document, "title", None) or ""
    return {"_id": document.doc_id, "title": title, "text": document.default_text() if text is None else text}


def _lines(path: Path, rows: Iterable[dict[str, str]]) -> None:
    with path.open("w", encoding="utf-8") as lines:
        lines.writelines(json.dumps(row) + "\n" for row in rows)
