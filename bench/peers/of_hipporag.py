"""HippoRAG 2 over the dataset's given graph, without the language model that extracts its graph and filters facts."""

from __future__ import annotations

import importlib.machinery
import json
import os
import sys
import tempfile
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asked import TOP, Given, measure

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

# Encoders and a server of models that it imports, of several GB, and that nothing here uses.
for name, used in (("gritlm", "GritLM"), ("vllm", "LLM"), ("vllm", "SamplingParams")):
    module = sys.modules.setdefault(name, types.ModuleType(name))
    module.__spec__ = importlib.machinery.ModuleSpec(name, None)
    setattr(module, used, None)
os.environ.setdefault("OPENAI_API_KEY", "none")  # its client is made, and never asked

from hipporag import HippoRAG  # noqa: E402


class Prepared:
    """Looks vectors up, or has them made."""

    def __init__(self, given: Given) -> None:
        self.given, self.embedding_dim = given, given.vectors.shape[1]

    def batch_encode(self, texts: Any, **_: Any) -> Any:  # noqa: ANN401 - one text or several
        """Return vectors of length 1."""
        return self.given.encode([texts] if isinstance(texts, str) else list(texts))


def build(given: Given) -> Mapping[str, Callable[[int], Sequence[str]]]:
    """Index the passages with the facts that the dataset states of each."""
    folder = tempfile.mkdtemp(prefix="braid-peers-")
    module = sys.modules["hipporag.HippoRAG"]
    vars(module)["_get_embedding_model_class"] = lambda **_: lambda **__: Prepared(given)
    hippo = HippoRAG(save_dir=folder, llm_model_name="none", embedding_model_name="prepared")
    hippo.global_config.retrieval_top_k = TOP
    hippo.rerank_filter = (
        lambda _query, items, indices, len_after_rerank=None: (  # all facts, in their order
            indices[:len_after_rerank],
            items[:len_after_rerank],
            {"confidence": None},
        )
    )
    from hipporag.utils.misc_utils import compute_mdhash_id

    said: dict[str, list[list[str]]] = {}
    for source, kind, target, where in given.facts:
        said.setdefault(where, []).append([source, kind, target])
    docs = [
        {
            "idx": compute_mdhash_id(text, prefix="chunk-"),
            "passage": text,
            "extracted_entities": given.mentions.get(identity, []),
            "extracted_triples": said.get(identity, []),
        }
        for identity, text in zip(given.ids, given.texts, strict=True)
    ]
    Path(hippo.openie_results_path).write_text(json.dumps({"docs": docs}), encoding="utf-8")
    hippo.index(given.texts)
    by_text = dict(zip(given.texts, given.ids, strict=True))

    def ask(number: int) -> list[str]:
        (found,) = hippo.retrieve([given.questions[number]], num_to_retrieve=TOP)
        return [by_text[text] for text in found.docs]

    return {"its PageRank over the given graph": ask}


if __name__ == "__main__":
    measure("hipporag", build)
