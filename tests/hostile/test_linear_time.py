"""Reading what anybody may send takes time in proportion to its length, whatever it is made of.

Every step before and during validation, and every reading of a question, is measured with texts made to be slow: one
of a length and one four times as long. Linear is about 4, quadratic is 16. What takes a few milliseconds at its
greatest length is bounded in any case.
"""

from __future__ import annotations

import base64
import json
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from braid.api import authorisation
from braid.api.json_bodies import check_body
from braid.api.problems import Problem
from braid.api.signed_tokens import InvalidToken, verify
from braid.engines.rerankers import hosted_calls
from braid.errors import InvalidRequest
from braid.ingestion.bulk.batch_phases import phases_of
from braid.ingestion.documents import reader_selection
from braid.ingestion.documents.chunking import Chunker
from braid.ingestion.documents.document import Document, Section, Source, Unreadable
from braid.ingestion.documents.readers import tables
from braid.ingestion.item_parsing import read_lines
from braid.models import Filters, Intent, Name, QueryText, Record, RecordId, TenantId, Timestamp
from braid.ports import keys
from braid.ports.knowledge_graph import GraphStats
from braid.ports.name_finder import SourceText
from braid.retrieval.context import message_selection
from braid.retrieval.stages import excerpts, results_and_citations
from braid.understanding import intent, multi_hop, name_keys, question_phrases, tokens
from braid.understanding.name_finding import RuleNameFinder, title_names
from pydantic import TypeAdapter, ValidationError

if TYPE_CHECKING:
    from collections.abc import Callable

    Read = Callable[[str], object]

TIMES = 4
MOST = 9.0
"""Of the longer text's time by the shorter's."""
BOUNDED_S = 0.006
RUNS = 6

GRAPH = GraphStats(by_relationship_type={"DEPENDS_ON": 5, "USED_BY": 3}, by_entity_type={"CodeEntity": 1})
MADE_OF = {
    "spaces": " ",
    "tabs": "what\t",
    "brackets": "(",
    "closed brackets": "()",
    "closing brackets": ")",
    "quotes": '"',
    "typographic quotes": "“",
    "single quotes": " '",
    "backslashes": "\\",
    "escaped quotes": '\\"',
    "arrays": "[",
    "arrays in an open string": '[\\"',
    "empty arrays": "[],",
    "objects": '{"a":',
    "empty strings": '"",',
    "one letter": "a",
    "capitals": "Ab ",
    "digits": "9",
    "dots": "a.",
    "hyphens": "a-",
    "signs": "a+#",
    "possessives": "'s",
    "marks": "\u0301\u0316",
    "one mark": "\u0301",
    "ideographs": "漢",
    "ligatures": "\ufb03",
    "right to left": "\u202e",
    "what": "what ",
    "what did": "which did ",
    "what ly": "what lyly ",
    "how": "how ",
    "made": "made ",
    "steps": "steps to ",
    "happen": "happen a b ",
    "dates": "2024-01-01T00:00:00 ",
    "years": "1900 s",
    "chunks": "#chunk-1",
    "pages": "page 1",
    "Markdown": "*_`[](",
    "nested emphasis": "**_",
    "links": "[a](b",
    "Lucene": 'a:[* TO b] OR +-&&||!(){}^"~*?:/ ',
    "wildcards": "a* NEAR/2 ",
    "a bomb for regular expressions": "(a+)+",
    "an ARN": "arn:aws:sts::1:assumed-role/",
    "commas": "[a, ",
    "escapes": "\\u0041",
    "images": "![",
    "rows": "a,b\n",
    "a row of a table": "|a",
    "rows of columns and values": "A: x; B: y\n",
    "imperatives": "Call Bob. ",
    "articles": "Der Umzug\n",
    "blocks that look closed": "<div/>",
    "elements that others close": "<i></b>x",
    "hidden elements": "a <b hidden",
    "comments": "a <!-- ",
}
ENDS = ("!", '"', "s between")


def body_of(text: str) -> None:
    event = {"headers": {"content-type": "application/json"}, "body": text}
    with suppress(Problem):
        check_body(event, limit_bytes=2_000_000)


def in_a_body(text: str) -> None:
    body_of(f'{{"text": "{text}')


def as_a_body(text: str) -> None:
    body_of(json.dumps({"text": text}))


def as_base64(text: str) -> None:
    body = base64.b64encode(text.encode()).decode()
    event = {"headers": {"content-type": "application/json"}, "body": body, "isBase64Encoded": True}
    with suppress(Problem):
        check_body(event, limit_bytes=2_000_000)


def valid(kind: Any) -> Read:
    adapter: TypeAdapter[Any] = TypeAdapter(kind)

    def read(text: str) -> None:
        with suppress(ValueError):
            adapter.validate_python(text)

    return read


def token(text: str) -> None:
    with suppress(InvalidToken):
        verify(text, purpose="p", key=b"k", now=0)


def cursor(text: str) -> None:
    for cursor in (text, base64.urlsafe_b64encode(text.encode()).decode()):
        with suppress(InvalidRequest):
            keys.decode("saltmarrow", cursor)


def caller(text: str) -> None:
    arn = {"requestContext": {"authorizer": {"iam": {"userArn": f"arn:aws:sts::1:assumed-role/{text}"}}}}
    claim = {"requestContext": {"authorizer": {"jwt": {"claims": {"sub": "a", "tenant_id": f"[{text}]"}}}}}
    for event in (arn, claim):
        with suppress(Problem):
            authorisation.authorise(authorisation.identify(event, tenant_claim="tenant_id"), text, None)


def names_found(text: str) -> None:
    RuleNameFinder().find([SourceText("a", text[:100], text, "a")], {"what did": "=1", "ab ab": "=2", "a": "=3"})


def line(text: str) -> None:
    raw = text.replace("\n", " ").encode()
    phases_of(raw)
    read_lines([("line 1", raw), ("line 2", b'{"id": "a", "content": "' + raw + b'"}')], "saltmarrow")


def document(suffix: str) -> Read:
    def read(text: str) -> None:
        with suppress(Unreadable):
            reader_selection.read(Source(f"a{suffix}", text.encode()))

    return read


def chunked(text: str) -> None:
    chunker = Chunker(lambda part: len(part.split()), 256)
    chunker.chunks(Document(text[:600], "text", (Section(text, (text[:600],)),)))


def cited(text: str) -> None:
    results_and_citations._CHUNK.match(text)
    results_and_citations._PAGE.search(text)
    excerpts.excerpt(text)


def excerpted(text: str) -> None:
    finder = excerpts.Excerpts("Who ordered the write freeze?")
    whole = f"{text} freeze {text}"
    sentence = finder.sentence(Record(id="a", tenant_id="saltmarrow", content=whole))
    assert sentence
    excerpts.excerpt(whole, sentence, finder.within(whole, sentence))


def conditions(text: str) -> None:
    for short in (text, f"{text}=1", f"a={text}", f"a>{text}"):
        with suppress(ValidationError):
            Filters.model_validate({"metadata": [short]})


QUESTIONS: dict[str, Read] = {
    "its mode": intent.detect_mode,
    "its intent": intent.detect_intent,
    "its model": lambda text: intent.detect_embedding_type(text, Intent.LOOKUP),
    "its direction": lambda text: intent.walk_direction(text, Intent.CAUSAL),
    "its time": lambda text: intent.time_relation(text, None),
    "its ends": intent.wants_ends,
    "its steps": lambda text: multi_hop.parse_steps(text, GRAPH),
    "its phrases": question_phrases.phrases,
    "its names": name_keys.lookup_keys,
    "its excerpts": excerpts.Excerpts,
    "its conditions": conditions,
    "its words": tokens.lexical_words,
    "its episodes": message_selection.episode_words,
    "its validation": valid(QueryText),
    "its tokens": lambda text: hosted_calls.prepare(text, [text], window=512),
}
"""What is read of a question, which has 10,000 characters at most."""
NAMES: dict[str, Read] = {
    "a name": tokens.normalise,
    "its forms": name_keys.stored_forms,
    "names found in it": names_found,
    "names found in what it titles": title_names,
    "a citation": cited,
    "an id": valid(RecordId),
    "a tenant": valid(TenantId),
    "a moment": valid(Timestamp),
    "a valid name": valid(Name),
    "a token": token,
    "a cursor": cursor,
    "a caller": caller,
}
"""What is bounded by validation afterwards, or by what a header or a path may hold."""
TEXTS: dict[str, Read] = {
    "a body": body_of,
    "a string in a body": in_a_body,
    "a body with a text": as_a_body,
    "base64": as_base64,
    "a line": line,
    "an excerpt": excerpted,
    "a shared word": lambda text: message_selection.share_of_words(["a"], text),
    "names found in a text": names_found,
    "a document in chunks": chunked,
    **{f"a document {suffix}": document(suffix) for suffix in (".md", ".txt", ".py", ".js", ".html", ".json")},
    "columns of a table": lambda text: tables._distinct(text.split(",")),
}
"""What may have megabytes."""


def taken(read: Read, text: str) -> float:
    """Return the seconds of this thread that a reading takes."""
    begun = time.thread_time()
    read(text)
    return time.thread_time() - begun


def made(piece: str, length: int, end: str) -> str:
    return (piece * (length // len(piece) + 1))[:length] + end


def check(read: Read, piece: str, length: int) -> None:
    for end in ENDS:
        long = short = float("inf")
        for _ in range(RUNS):
            long = min(long, taken(read, made(piece, TIMES * length, end)))
            if long < BOUNDED_S:
                break
            short = min(short, taken(read, made(piece, length, end)))
            if long < MOST * short:
                break
        assert long < max(BOUNDED_S, MOST * short), (end, short, long)


@pytest.mark.parametrize("piece", MADE_OF.values(), ids=MADE_OF)
@pytest.mark.parametrize("read", QUESTIONS.values(), ids=QUESTIONS)
def test_a_question_is_read_in_linear_time(read: Read, piece: str) -> None:
    check(read, piece, 2_400)


@pytest.mark.parametrize("piece", MADE_OF.values(), ids=MADE_OF)
@pytest.mark.parametrize("read", NAMES.values(), ids=NAMES)
def test_a_value_is_read_in_linear_time(read: Read, piece: str) -> None:
    check(read, piece, 3_000)


@pytest.mark.parametrize("piece", MADE_OF.values(), ids=MADE_OF)
@pytest.mark.parametrize("read", TEXTS.values(), ids=TEXTS)
def test_a_long_text_is_read_in_linear_time(read: Read, piece: str) -> None:
    check(read, piece, 8_000)
