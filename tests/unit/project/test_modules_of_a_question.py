"""How many modules of the library a reader opens who follows one question in process."""

from __future__ import annotations

import inspect
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import braid
import pytest
from braid.models import Query, Strategy
from braid.retrieval import pipeline

from tests.stages import TENANTS, DemoStages, demo_stages

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

LIBRARY = Path(braid.__file__).parent
ENGINE = "engines/"
MAX_BESIDE_THE_ENGINE = 46
MAX_OF_THE_ENGINE = 18


@pytest.fixture(scope="module")
def stages(tmp_path_factory: pytest.TempPathFactory) -> DemoStages:
    """Return the embedded stages over the demo corpus, after a question of another tenant has imported all modules."""
    stages = demo_stages(tmp_path_factory.mktemp("home"))
    stages.answer(Query(text="Why was the harvest late?", tenant_id=TENANTS[1]))
    return stages


@pytest.fixture
def new_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have names linked in a thread that begins with the question: those that stand ready are not profiled."""
    with ThreadPoolExecutor(1) as threads:
        monkeypatch.setattr(pipeline, "_POOL", threads)
        yield


def modules_called_by(stages: DemoStages, query: Query) -> dict[str, list[str]]:
    """Answer a question and return the functions called in any thread, by module; imports are none."""
    called: dict[str, set[str]] = {}

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        # The bodies of modules and classes are no functions: their code is not optimised.
        if event == "call" and code.co_flags & inspect.CO_OPTIMIZED and code.co_filename.startswith(str(LIBRARY)):
            module = Path(code.co_filename).relative_to(LIBRARY).as_posix()
            called.setdefault(module, set()).add(code.co_name)

    before = sys.getprofile()
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        answer = stages.answer(query)
    finally:
        sys.setprofile(before)
        threading.setprofile(None)  # type: ignore[arg-type] - as the standard library documents it
    assert answer.results
    assert answer.plan.strategy is Strategy.HYBRID
    return {module: sorted(names) for module, names in sorted(called.items())}


@pytest.mark.usefixtures("new_threads")
@pytest.mark.parametrize(
    "text", ["Why did label printing fail at the Lisbon depot?", "Which services depend on Keelson?"]
)
def test_a_hybrid_question_passes_few_modules(stages: DemoStages, figures: list[str], text: str) -> None:
    called = modules_called_by(stages, Query(text=text, tenant_id=TENANTS[0]))
    engine = [module for module in called if module.startswith(ENGINE)]
    beside = [module for module in called if module not in engine]
    figures.append(f"modules of a question: {len(beside)} of the library, {len(engine)} of the embedded engine")
    listed = "\n".join(f"{module}: {', '.join(names)}" for module, names in called.items())
    assert len(beside) <= MAX_BESIDE_THE_ENGINE, listed
    assert len(engine) <= MAX_OF_THE_ENGINE, listed
