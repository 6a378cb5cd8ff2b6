"""What the retrievers of other frameworks say where the framework is not installed."""

from __future__ import annotations

import re
import sys
from importlib import import_module

import pytest
from braid.errors import needs_extra


@pytest.mark.parametrize(("module", "framework"), [("langchain", "langchain_core"), ("llamaindex", "llama_index")])
def test_a_retriever_whose_framework_is_missing_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, module: str, framework: str
) -> None:
    monkeypatch.setitem(sys.modules, framework, None)
    monkeypatch.delitem(sys.modules, f"braid.adapters.{module}", raising=False)
    with pytest.raises(ModuleNotFoundError, match=re.escape(needs_extra(module, f"braid.adapters.{module}"))):
        import_module(f"braid.adapters.{module}")
