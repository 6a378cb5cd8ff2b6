"""Where a result can be read: what the record states, then what its name, id and source description say."""

from __future__ import annotations

from typing import Any

import pytest
from braid.models import SourceRef, SourceType
from braid.retrieval.stages.results_and_citations import cite

from tests.fakes import record


@pytest.mark.parametrize(
    ("fields", "kind", "title", "page", "chunk_index"),
    [
        ({"id": "guide.pdf#chunk-7"}, "document", "guide.pdf", None, 7),
        ({"id": "docs/guide v2.pdf#chunk-0"}, "document", "docs/guide v2.pdf", None, 0),
        ({"id": "a#chunk-1#chunk-2"}, "document", "a#chunk-1", None, 2),
        ({"id": "guide.pdf#chunk-"}, "document", "guide.pdf#chunk-", None, None),
        ({"id": "guide.pdf#chunk-7b"}, "document", "guide.pdf#chunk-7b", None, None),
        ({"id": "qa-response-14"}, "qa", "qa-response-14", None, None),
        ({"id": "chat-fact-plant-room"}, "chat", "chat-fact-plant-room", None, None),
        ({"id": "my-qa-response-14"}, "document", "my-qa-response-14", None, None),
        ({"id": "7f", "name": "guide.pdf#chunk-7"}, "document", "guide.pdf", None, 7),
        ({"id": "7f", "name": "qa-response-14"}, "qa", "qa-response-14", None, None),
        ({"id": "7f", "name": "chat-fact-2"}, "chat", "chat-fact-2", None, None),
        ({"id": "a.pdf#chunk-7", "name": "b.pdf#chunk-8"}, "document", "b.pdf", None, 8),
        ({"id": "a.pdf#chunk-7", "name": "The guide"}, "document", "The guide", None, 7),
        ({"id": "a", "source": SourceRef(description="Handbook, Page 5 of 9")}, "document", "a", 5, None),
        ({"id": "a", "source": SourceRef(description="see page 12")}, "document", "a", 12, None),
        ({"id": "a", "source": SourceRef(description="homepage 5, pages 6")}, "document", "a", None, None),
    ],
)
def test_a_name_or_description_of_a_known_form_is_read(
    fields: dict[str, Any], kind: str, title: str, page: int | None, chunk_index: int | None
) -> None:
    citation = cite(record(fields.pop("id"), **fields))
    assert (citation.type, citation.title, citation.page, citation.chunk_index) == (kind, title, page, chunk_index)


def test_what_a_record_states_itself_wins() -> None:
    source = SourceRef(type=SourceType.CHAT, title="Stated", page=0, chunk_index=0, description="Page 5")
    citation = cite(record("guide.pdf#chunk-7", name="qa-response-1", source=source, confidence=0.0))
    assert (citation.type, citation.title, citation.page, citation.chunk_index) == ("chat", "Stated", 0, 0)
    assert citation.reliability == 0.0
    named = cite(record("a", name="guide.pdf#chunk-7", source=SourceRef(title="Stated", chunk_index=0)))
    assert (named.title, named.chunk_index) == ("Stated", 0)


@pytest.mark.parametrize(
    ("identity", "reliability"), [("qa-response-1", 0.95), ("chat-fact-1", 0.90), ("guide.pdf#chunk-1", 0.85)]
)
def test_a_record_without_confidence_is_as_reliable_as_its_type(identity: str, reliability: float) -> None:
    assert cite(record(identity)).reliability == reliability
    assert cite(record(identity, confidence=0.4)).reliability == 0.4


def test_the_excerpt_is_of_the_content_or_else_the_title() -> None:
    assert cite(record("a", content=" One\n\ttwo ")).excerpt == "One two"
    assert cite(record("a", content="", name="The guide")).excerpt == "The guide"
