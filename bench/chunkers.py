"""Compares chunkers, on questions whose answers are phrases of this project's documentation.

A chunk answers a question if it contains the phrase. The metrics are the share of questions with an answer among the
first results of the default configuration, and the number of tokens that a reader has to read for it.
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

from braid.app import Application
from braid.ingestion.documents import chunking
from braid.ingestion.documents.chunk_records import records_of
from braid.ingestion.documents.chunking import Chunk, Chunker, belong_together
from braid.ingestion.documents.document import Document, Section, Source
from braid.ingestion.documents.readers.markdown import read_markdown
from braid.ingestion.writing import write
from braid.models import EmbeddingType, Query, Relationship, Vertex
from braid.ports.ingestion import WriteRequest
from braid.retrieval import pipeline
from braid.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from braid.ports.encoder import Encoder

    Cut = Callable[[Document, str], list[Chunk]]

ROOT = Path(__file__).resolve().parent.parent
TEXTS = ("architecture", "costs", "datasets", "explorer", "ingest", "models", "reembedding", "runbook")
QUESTIONS = Path(__file__).with_name("chunkers.jsonl")
FIRST = 5


@dataclass(frozen=True)
class Measured:
    """One way to cut."""

    name: str
    chunks: int
    tokens: float
    """Mean of a chunk."""
    at_1: float
    at_5: float
    reciprocal_rank: float


def measure(names: list[str]) -> list[Measured]:
    """Measure the ways named, or all."""
    with tempfile.TemporaryDirectory() as home:
        shared = Path(".braid")
        settings = Settings(home=Path(home), models_dir=shared / "models" if (shared / "models").is_dir() else None)
        application = Application(settings)
        application.make_models()
        encoder = application.encoder_for(application.model_for(EmbeddingType.GENERAL), threads=2)
        ways = _ways(encoder)
        return [_measured(name, ways[name], application, encoder) for name in names or ways]


def _ways(encoder: Encoder) -> dict[str, Cut]:
    """Return every way to cut, by its name."""

    def count(text: str) -> int:
        return len(encoder.token_ends(text))

    def ours(together: Callable[[Section, Section], bool] = belong_together, window: int = encoder.max_tokens) -> Cut:
        def cut(document: Document, _text: str) -> list[Chunk]:
            with mock.patch.object(chunking, "belong_together", together):
                return Chunker(count, window).chunks(document)

        return cut

    def of_texts(split: Callable[[str], list[str]]) -> Cut:
        return lambda _document, text: [Chunk(part, number, 0) for number, part in enumerate(split(text))]

    window = encoder.max_tokens - 24
    return {
        "structure": ours(),
        "structure-each-section": ours(lambda _before, _section: False),
        "structure-all-neighbours": ours(lambda _before, _section: True),
        "structure-128": ours(window=128),
        "structure-192": ours(window=192),
        "structure-with-edges": ours(),
        "windows": of_texts(lambda text: list(_windows(text, encoder, window))),
        "semantic-text-splitter": of_texts(lambda text: _semantic(text, encoder, window)),
        "langchain-recursive": of_texts(lambda text: _langchain(text, encoder, window)),
    }


def _windows(text: str, encoder: Encoder, window: int) -> Iterator[str]:
    """Yield windows of so many tokens, each with the last 15 % of the one before."""
    ends = [0, *encoder.token_ends(text)]
    step = window * 85 // 100
    starts = list(range(0, len(ends) - 1, step))
    for start in starts:
        yield text[ends[start] : ends[min(start + window, len(ends) - 1)]]


def _semantic(text: str, encoder: Encoder, window: int) -> list[str]:
    from semantic_text_splitter import MarkdownSplitter

    return list(MarkdownSplitter.from_callback(lambda part: len(encoder.token_ends(part)), window).chunks(text))


def _langchain(text: str, encoder: Encoder, window: int) -> list[str]:
    from langchain_text_splitters import Language, RecursiveCharacterTextSplitter

    splitter = RecursiveCharacterTextSplitter.from_language(
        Language.MARKDOWN,
        chunk_size=window,
        chunk_overlap=window * 15 // 100,
        length_function=lambda part: len(encoder.token_ends(part)),
    )
    return list(splitter.split_text(text))


def _measured(name: str, cut: Cut, application: Application, encoder: Encoder) -> Measured:
    tokens = count = 0
    for stem in TEXTS:
        path = ROOT / "docs" / f"{stem}.md"
        document = read_markdown(Source(path.name, path.read_bytes()))
        chunks = cut(document, path.read_text(encoding="utf-8"))
        records = records_of(document, chunks, tenant_id=name, identity=stem, file=path.name)
        tokens += sum(len(encoder.token_ends(record.text())) for record in records)
        count += len(records)
        edges = [(stem, "HAS_PART", record.id) for record in records] if name.endswith("edges") else []
        write(
            WriteRequest(
                tenant_id=name,
                records=tuple(records),
                vertices=(Vertex(id=stem, tenant_id=name, entity_type="Document", name=document.title),),
                relationships=tuple(
                    Relationship(tenant_id=name, source=source, type=kind, target=target)
                    for source, kind, target in edges
                ),
            ),
            application,
            threads=2,
        )
    ranks = [_rank(question, name, application) for question in _questions()]
    return Measured(
        name=name,
        chunks=count,
        tokens=tokens / count,
        at_1=sum(rank == 1 for rank in ranks) / len(ranks),
        at_5=sum(0 < rank <= FIRST for rank in ranks) / len(ranks),
        reciprocal_rank=sum(1 / rank for rank in ranks if rank) / len(ranks),
    )


def _questions() -> list[dict[str, str]]:
    return [json.loads(line) for line in QUESTIONS.read_text(encoding="utf-8").splitlines()]


def _rank(question: dict[str, str], tenant: str, application: Application) -> int:
    """Return the rank of the first result that holds the answer; 0 if none of the first ten does."""
    answer = pipeline.answer(Query(text=question["text"], tenant_id=tenant, top_k=10), application)
    phrase = _plain(question["answer"])
    return next((result.rank for result in answer.results if phrase in _plain(result.content or "")), 0)


def _plain(text: str) -> str:
    return " ".join(text.replace("**", "").split())


def as_markdown(measured: list[Measured]) -> str:
    """Return a table."""
    rows = []
    for one in measured:
        found = f"{one.at_1:.2f} | {one.at_5:.2f} | {one.reciprocal_rank:.3f}"
        rows.append(f"| {one.name} | {one.chunks} | {one.tokens:.0f} | {found} |")
    return "\n".join(["| way | chunks | tokens | at 1 | at 5 | MRR |", "|---|---|---|---|---|---|", *rows, ""])


def missing() -> list[str]:
    """Return the answers that the documentation no longer has."""
    texts = [_plain((ROOT / "docs" / f"{stem}.md").read_text(encoding="utf-8")) for stem in TEXTS]
    return [one["answer"] for one in _questions() if not any(_plain(one["answer"]) in text for text in texts)]


if __name__ == "__main__":
    if gone := missing():
        sys.exit("\n".join(["no longer in the documentation:", *gone]))
    sys.stdout.write(as_markdown(measure(sys.argv[1:])))
