"""LightRAG: by vectors, and mixed with the dataset's given graph, as no language model extracts one here."""

from __future__ import annotations

import asyncio
import tempfile
from typing import TYPE_CHECKING, Any

from asked import TOP, Given, measure
from lightrag import LightRAG, QueryParam
from lightrag.utils import EmbeddingFunc, Tokenizer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


class Characters:
    """Four characters count as a token; LightRAG's own tokenizer is fetched from the network."""

    def encode(self, content: str) -> list[int]:
        """Return a number for each four characters."""
        return [int.from_bytes(content[at : at + 4].encode("utf-32-le"), "little") for at in range(0, len(content), 4)]

    def decode(self, tokens: list[int]) -> str:
        """Return the text again."""
        return "".join(
            token.to_bytes(16, "little").rstrip(b"\0").decode("utf-32-le", errors="ignore") for token in tokens
        )


async def _no_model(*_: Any, **__: Any) -> str:  # noqa: ANN401 - LightRAG's own arguments
    raise RuntimeError("no language model is asked here")


def build(given: Given) -> Mapping[str, Callable[[int], Sequence[str]]]:
    """Insert passages and graph, and ask for what would be given to the model."""
    loop = asyncio.new_event_loop()

    async def embed(texts: list[str], **_: Any) -> Any:  # noqa: ANN401 - an array
        return given.encode(texts)

    library = LightRAG(
        working_dir=tempfile.mkdtemp(prefix="braid-peers-"),
        embedding_func=EmbeddingFunc(embedding_dim=given.vectors.shape[1], max_token_size=8192, func=embed),
        llm_model_func=_no_model,
        tokenizer=Tokenizer("characters", Characters()),
    )
    loop.run_until_complete(library.initialize_storages())
    by_text = dict(zip((text.strip() for text in given.texts), given.ids, strict=True))
    named = {name: identity for identity in given.ids for name in given.mentions.get(identity, [])}
    entities = [
        {"entity_name": name, "entity_type": "Concept", "description": name, "source_id": where}
        for name, where in named.items()
    ]
    facts = [
        {"src_id": source, "tgt_id": target, "description": kind, "keywords": kind, "weight": 1.0, "source_id": where}
        for source, kind, target, where in given.facts
    ]
    chunks = [
        {"content": text, "source_id": identity, "chunk_order_index": 0}
        for identity, text in zip(given.ids, given.texts, strict=True)
    ]
    loop.run_until_complete(library.ainsert_custom_kg({"chunks": chunks, "entities": entities, "relationships": facts}))

    def way(mode: str) -> Callable[[int], Sequence[str]]:
        def ask(number: int) -> list[str]:
            text = given.questions[number]
            param = QueryParam(
                mode=mode,
                only_need_context=True,
                enable_rerank=False,
                chunk_top_k=TOP,
                ll_keywords=[text],
                hl_keywords=[text],
            )
            found = loop.run_until_complete(library.aquery_data(text, param))
            chunks = found.get("data", {}).get("chunks", [])
            return [by_text.get(chunk["content"].strip(), "") for chunk in chunks]

        return ask

    ways = {"vectors (naive)": way("naive")}
    if facts:
        ways["mixed with the graph (mix)"] = way("mix")
    return ways


if __name__ == "__main__":
    measure("lightrag-hku", build)
