"""What questions would wait for is opened while a container starts, and loaded where it is kept ready."""

from __future__ import annotations

import gc
import random
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from braid import app
from braid.app import Application
from braid.errors import ModelMissing
from braid.lambda_runtime.warm_up import GARBAGE, load_beforehand, open_beforehand
from braid.models import RerankerKind
from braid.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parents[3]


class Watched(Application):
    """Notes what is loaded instead of loading it."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.loaded: list[str] = []

    def encoder_for(self, model: object, *, threads: int | None = None) -> object:  # type: ignore[override]
        self.loaded.append(model.id)  # type: ignore[attr-defined]
        return super().encoder_for(model, threads=threads)  # type: ignore[arg-type]

    def open_reranker(self) -> None:
        self.loaded.append(self.settings.reranker.value)
        super().open_reranker()


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    stages = Watched(Settings(home=tmp_path, reranker=RerankerKind.ONNX, reranker_model="none-is-here"))
    monkeypatch.setattr(app, "application", lambda: stages)
    yield stages
    stages.close()


def started(function: str) -> None:
    assert callable(runpy.run_path(str(ROOT / "functions" / function / "app.py"))["handler"])


@pytest.mark.parametrize(("function", "loaded"), [("embed", "minilm"), ("fuse_rerank", "onnx")])
def test_a_container_that_is_kept_ready_loads_its_model_before_the_first_question(
    watched: Watched, monkeypatch: pytest.MonkeyPatch, function: str, loaded: str
) -> None:
    monkeypatch.setenv("AWS_LAMBDA_INITIALIZATION_TYPE", "provisioned-concurrency")
    started(function)  # neither model is there, which the first question is told
    assert [name for name in watched.loaded if loaded in name]


def test_a_snapshot_is_taken_with_models_loaded_and_what_begins_from_it_connects_anew(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    restored: list[Callable[[], object]] = []
    runtime = SimpleNamespace(register_after_restore=restored.append)
    monkeypatch.setitem(sys.modules, "snapshot_restore_py", runtime)
    monkeypatch.setenv("AWS_LAMBDA_INITIALIZATION_TYPE", "snap-start")
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "answer")
    started("answer")
    assert watched.loaded == ["all-minilm-l6-v2", "onnx"]
    before, profiles = watched.index, watched.profiles
    (restore,) = restored
    drawn = []
    for _ in range(2):  # containers
        random.seed(1)  # as in the snapshot
        restore()
        drawn.append(random.getstate())
    assert drawn[0] != drawn[1]
    assert watched.index is not before
    assert watched.profiles is profiles


def test_what_is_no_snapshot_connects_once(watched: Watched) -> None:
    started("answer")
    assert watched.loaded == []
    assert watched.index is watched.index


@pytest.mark.parametrize("function", ["embed", "fuse_rerank"])
def test_one_that_a_question_starts_loads_only_what_that_needs(
    watched: Watched, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    monkeypatch.setenv("AWS_LAMBDA_INITIALIZATION_TYPE", "on-demand")
    started(function)
    assert not watched.loaded


@pytest.mark.parametrize(
    ("function", "opened"),
    [
        ("plan", {"migration", "graph", "cache"}),
        ("embed", {"migration", "cache"}),
        ("vector_search", {"index", "schemas"}),
        ("graph_expand", {"graph", "cache"}),
        ("fuse_rerank", {"index", "schemas", "queue"}),
        ("context", {"index", "cache"}),
        ("search_api", {"index", "graph", "cache"}),
    ],
)
def test_clients_are_opened_while_lambda_starts_a_container_and_nowhere_else(
    watched: Watched, monkeypatch: pytest.MonkeyPatch, function: str, opened: set[str]
) -> None:
    monkeypatch.delenv("AWS_LAMBDA_FUNCTION_NAME", raising=False)
    started(function)
    assert not opened & vars(watched).keys()
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", function)
    monkeypatch.setenv("POWERTOOLS_TRACE_DISABLED", "true")
    started(function)
    assert opened <= vars(watched).keys()
    assert not watched.loaded


def test_a_fault_of_ours_ends_the_start_and_a_missing_model_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_LAMBDA_INITIALIZATION_TYPE", "provisioned-concurrency")

    def missing() -> None:
        raise ModelMissing("no such folder")

    done: list[str] = []
    load_beforehand(missing, lambda: done.append("next"))
    assert done == ["next"]
    with pytest.raises(ZeroDivisionError):
        load_beforehand(lambda: 1 / 0)


def test_garbage_is_collected_less_often_in_lambda_and_only_there(monkeypatch: pytest.MonkeyPatch) -> None:
    before = gc.get_threshold()
    try:
        open_beforehand()
        assert gc.get_threshold() == before
        monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "answer")
        open_beforehand()
        assert gc.get_threshold() == GARBAGE
    finally:
        gc.set_threshold(*before)
