"""What the retrievers of other frameworks refuse, and say where the framework is not installed."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from typing import Any

import pytest
from braid.adapters.shared_search import search
from braid.errors import InvalidRequest, needs_extra


@pytest.mark.parametrize(("module", "framework"), [("langchain", "langchain_core"), ("llamaindex", "llama_index")])
def test_a_retriever_whose_framework_is_missing_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, module: str, framework: str
) -> None:
    monkeypatch.setitem(sys.modules, framework, None)
    monkeypatch.delitem(sys.modules, f"braid.adapters.{module}", raising=False)
    with pytest.raises(ModuleNotFoundError, match=re.escape(needs_extra(module, f"braid.adapters.{module}"))):
        import_module(f"braid.adapters.{module}")


@pytest.mark.parametrize("filters", [["team=payments"], "team=payments", 7, None])
def test_filters_of_a_retriever_that_are_none_are_refused_by_their_name(filters: Any) -> None:
    braid: Any = None
    with pytest.raises(InvalidRequest, match=r"^filters: "):
        search(braid, "who pays?", top_k=3, filters=filters)
