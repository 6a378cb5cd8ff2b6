"""Records are embedded ahead of their write, each once, and no longer than they are needed."""

from __future__ import annotations

import threading
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from braid.errors import ModelError
from braid.ingestion import record_vectors
from braid.ingestion.record_vectors import EmbeddingAhead
from braid.ingestion.writing import WriteRequest, require_written, write
from braid.settings import Settings

from tests.contract.shapes import ACME, record
from tests.stages import DemoStages, WordEncoder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

RECORDS = [record(f"r{number}", f"text {number}") for number in range(40)]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DemoStages]:
    with closing(DemoStages(Settings(home=tmp_path))) as opened:
        yield opened


@pytest.fixture
def embedded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the texts that were embedded; a few at a time."""
    texts: list[str] = []
    encode = WordEncoder.encode

    def noted(encoder: WordEncoder, given: Sequence[str], **options: Any) -> list[bytes]:
        texts.extend(given)
        return encode(encoder, given, **options)

    monkeypatch.setattr(WordEncoder, "encode", noted)
    monkeypatch.setattr(record_vectors, "_AT_ONCE", 4)
    return texts


def test_writes_of_records_that_were_embedded_together_embed_none_again(store: DemoStages, embedded: list[str]) -> None:
    with EmbeddingAhead(store, None) as ahead:
        vectors = ahead.begin(RECORDS)
        reports = [
            require_written(write(WriteRequest(tenant_id=ACME, records=RECORDS[start:end]), store, ahead=vectors))
            for start, end in ((0, 10), (10, 40))
        ]
    assert [(report.written, report.embedded) for report in reports] == [(10, 10), (30, 30)]
    assert sorted(embedded) == sorted(one.text() for one in RECORDS)
    stored = store.index.get_many(ACME, [one.id for one in RECORDS], with_vectors=True)
    assert [[one.vector for one in found.embeddings] for found in stored] == [
        WordEncoder(store.models()[0]).encode([one.text()]) for one in RECORDS
    ]


def test_what_fails_ahead_fails_the_write_and_nothing_is_written(
    store: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> list[bytes]:
        raise ModelError("broken")

    monkeypatch.setattr(WordEncoder, "encode", broken)
    with EmbeddingAhead(store, None) as ahead, pytest.raises(ModelError, match="broken"):
        write(WriteRequest(tenant_id=ACME, records=RECORDS), store, ahead=ahead.begin(RECORDS))
    assert not store.index.written(ACME, [one.id for one in RECORDS])


def test_what_is_embedded_ahead_ends_soon_when_nobody_needs_it(
    store: DemoStages, embedded: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go, encode = threading.Event(), threading.Event(), WordEncoder.encode

    def held(encoder: WordEncoder, given: Sequence[str], **options: Any) -> list[bytes]:
        begun.set()
        assert go.wait(60)
        return encode(encoder, given, **options)

    monkeypatch.setattr(WordEncoder, "encode", held)
    threads = threading.active_count()
    with EmbeddingAhead(store, None) as ahead:
        ahead.begin(RECORDS[:20])
        ahead.begin(RECORDS[20:])
        assert begun.wait(60)
        threading.Timer(0.2, go.set).start()
    assert len(embedded) == 4
    assert threading.active_count() <= threads + 1
