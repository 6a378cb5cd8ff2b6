"""Every measurement makes the models that it needs, or says in one line why it cannot."""

from __future__ import annotations

import pytest
from braid.app import Application
from braid.errors import ModelMissing

from bench import __main__ as bench


def test_a_measurement_finds_the_models_made(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    monkeypatch.setattr(Application, "make_models", lambda _: done.append("made"))
    monkeypatch.setitem(bench.MEASUREMENTS, "load", done.extend)
    bench.main(["load", "25"])
    assert done == ["made", "25"]


def test_a_model_that_cannot_be_made_ends_a_measurement_with_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: Application) -> None:
        raise ModelMissing("no weights here")

    monkeypatch.setattr(Application, "make_models", missing)
    monkeypatch.setitem(bench.MEASUREMENTS, "load", lambda _: pytest.fail("measured without a model"))
    with pytest.raises(SystemExit, match=r"^bench: no weights here$"):
        bench.main(["load"])


def test_help_makes_no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Application, "make_models", lambda _: pytest.fail("made a model"))
    with pytest.raises(SystemExit) as ended:
        bench.main(["load", "--help"])
    assert ended.value.code == 0
