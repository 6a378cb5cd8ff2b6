"""Datasets of ir_datasets, read by their ids; the ones here are registered by the tests, as nothing is downloaded."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import ir_datasets
import pytest
from braid.errors import DatasetError
from ir_datasets.datasets.base import Dataset
from ir_datasets.formats import BaseDocs, BaseQrels, BaseQueries, GenericQuery, TrecQrel

from braid_cli.datasets.dataset import read_dataset
from braid_cli.datasets.ir_dataset import judged_folder

if TYPE_CHECKING:
    from collections.abc import Iterator


class Letter(NamedTuple):
    doc_id: str
    title: str
    text: str

    def default_text(self) -> str:
        return f"{self.title} {self.text}"


class Call(NamedTuple):
    doc_id: str
    words: str

    def default_text(self) -> str:
        return self.words


class Docs(BaseDocs):
    read = 0

    def docs_iter(self) -> Iterator[Any]:
        Docs.read += 1
        yield Letter("l1", "Pilots", "Pilots board at buoy nine.")
        yield Letter("l2", "Only a title", "")
        yield Call("c1", "The gate opens at six.")


class Queries(BaseQueries):
    def queries_iter(self) -> Iterator[Any]:
        yield GenericQuery("1", "Where do pilots board?")
        yield GenericQuery("2", "Nobody judged this")


class Qrels(BaseQrels):
    def qrels_iter(self) -> Iterator[Any]:
        yield TrecQrel("1", "l1", 2, "0")
        yield TrecQrel("1", "c1", 0, "0")


@pytest.fixture(scope="module", autouse=True)
def registered() -> Iterator[None]:
    docs, queries = Docs(), Queries()
    ir_datasets.registry.register("braid-harbour", Dataset(docs, queries))
    ir_datasets.registry.register("braid-harbour/test", Dataset(docs, queries, Qrels()))
    yield
    for name in ("braid-harbour", "braid-harbour/test"):
        del ir_datasets.registry._registered[name]


def test_a_dataset_is_written_once_as_a_folder_and_judged_by_it(tmp_path: Path) -> None:
    folder = judged_folder(Path("braid-harbour/test"), tmp_path / "kept")
    dataset = read_dataset(folder, "acme", judged=True)
    assert dataset.name == "braid-harbour-test"
    assert {one.id: (one.source.title, one.content) for one in dataset.records} == {
        "l1": ("Pilots", "Pilots board at buoy nine."),
        "l2": ("Only a title", ""),
        "c1": (None, "The gate opens at six."),
    }
    assert [(one.query.text, one.relevant) for one in dataset.judged] == [("Where do pilots board?", {"l1": 2})]
    read = Docs.read
    assert judged_folder(Path("braid-harbour/test"), tmp_path / "kept") == folder
    assert Docs.read == read
    assert list((tmp_path / "kept").iterdir()) == [folder]


def test_a_folder_is_itself_whatever_ids_there_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("braid-harbour").mkdir()
    assert judged_folder(Path("braid-harbour"), tmp_path / "kept") == Path("braid-harbour")


def test_what_cannot_be_evaluated_says_why_and_what_can(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DatasetError, match=r"has no qrels; it has parts: braid-harbour/test$"):
        judged_folder(Path("braid-harbour"), tmp_path)
    with pytest.raises(DatasetError, match=r"^my-data: no such folder, and no dataset of ir_datasets$"):
        judged_folder(Path("my-data"), tmp_path)
    monkeypatch.setitem(sys.modules, "ir_datasets", None)
    with pytest.raises(DatasetError, match=r"^my-data: no such folder; .* pip install ir-datasets$"):
        judged_folder(Path("my-data"), tmp_path)
