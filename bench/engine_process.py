"""One engine in a process of its own, so that its start and its memory are its own.

``python -m bench.engine_process ingest SIZE`` writes a synthetic corpus and prints the seconds as JSON.
``python -m bench.engine_process answer FILE`` reads one line of JSON a question kind from a file, then answers the
kinds named on its standard input, one a line, each with one line of JSON. Settings come from ``BRAID_*``.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from braid.engines.ports import ExpandRequest, SearchRequest
from braid.models import Timestamp
from braid.settings import EngineKind, load_settings
from braid.wiring import Wired
from pydantic import TypeAdapter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

RECORDS_AT_ONCE = 512
"""As many as an ingest of the product writes at once."""
WARMING_UP = 50
"""Questions of each kind that are answered first and not counted: the servers compile what they run often."""
FIRST_KINDS = ("both strands, filtered", "causal, 3 hops")
"""One question for each store; with them answered, an engine has started."""
_MOMENT: TypeAdapter[Any] = TypeAdapter(Timestamp)


def ingest(size: int, wired: Wired) -> dict[str, float]:
    """Write a corpus and return the seconds that each part took."""
    from bench.synthetic import TENANT, Synthetic

    corpus = Synthetic(size)
    vertices, relationships = corpus.vertices(), corpus.relationships()
    writing = 0.0
    for batch in _batches(corpus.records(), RECORDS_AT_ONCE):
        began = time.perf_counter()
        wired.index.upsert(batch)
        writing += time.perf_counter() - began
    began = time.perf_counter()
    if wired.settings.engine is EngineKind.EMBEDDED:
        from braid.engines.embedded.search import EmbeddedSearchIndex

        # The vectors' graph is built when it is first asked: a part of writing all the same.
        EmbeddedSearchIndex(wired.store).optimise(TENANT)
    writing += time.perf_counter() - began
    began = time.perf_counter()
    wired.graph.upsert(vertices, [])
    vertices_s = time.perf_counter() - began
    began = time.perf_counter()
    wired.graph.upsert([], relationships)
    return {"records_s": writing, "vertices_s": vertices_s, "relationships_s": time.perf_counter() - began}


def _batches(items: Iterator[Any], size: int) -> Iterator[list[Any]]:
    batch: list[Any] = []
    for item in items:
        batch.append(item)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def question(line: dict[str, Any], wired: Wired) -> Callable[[], list[list[str]]]:
    """Return what answers one question with the ids of each of its lists, best first."""
    index, graph = wired.index, wired.graph
    match line:
        case {"search": body}:
            search = SearchRequest.model_validate(body)

            def ask_index() -> list[list[str]]:
                found = index.search(search)
                return [[hit.id for hit in found.vector], [hit.id for hit in found.lexical]]

            return ask_index
        case {"expand": body}:
            walk = ExpandRequest.model_validate(body)
            return lambda: [[hit.id for hit in graph.expand(walk).hits]]
        case {"get_many": ids, "tenant_id": tenant_id}:
            return lambda: [[record.id for record in index.get_many(tenant_id, ids)]]
        case {"link": names, "tenant_id": tenant_id, "as_of": moment}:
            as_of = _MOMENT.validate_python(moment)
            return lambda: [[link.entity_id for link in graph.link(tenant_id, names, as_of=as_of)]]
        case _:
            message = f"not a question: {', '.join(line)}"
            raise ValueError(message)


def timed(asks: Sequence[Callable[[], list[list[str]]]]) -> dict[str, Any]:
    """Answer questions one after another and return each one's milliseconds and ids; the first are not counted."""
    milliseconds, ids = [], []
    for number, ask in enumerate(asks):
        began = time.perf_counter()
        found = ask()
        took = (time.perf_counter() - began) * 1_000
        if number >= WARMING_UP:
            milliseconds.append(round(took, 3))
            ids.append(found)
    return {"ms": milliseconds, "ids": ids}


def resident_mb(group: int) -> float:
    """Return the resident memory of a process group in MiB."""
    listed = subprocess.run(
        ["ps", "-A", "-o", "pgid=,rss="],  # noqa: S607 - the system's ps; its folder differs between systems
        capture_output=True,
        text=True,
        check=True,
    )
    rows = (line.split() for line in listed.stdout.splitlines())
    return round(sum(int(kibibytes) for found, kibibytes in rows if int(found) == group) / 1024, 1)


def answer(file: Path, wired: Wired) -> None:
    """Answer one question of the first kinds, say so, and then every question of the kinds that are asked for."""
    asked = dict(map(json.loads, file.read_text(encoding="utf-8").splitlines()))
    for kind in FIRST_KINDS:
        question(asked[kind][0], wired)()
    _say("ready")
    for line in sys.stdin:
        _say(timed([question(body, wired) for body in asked[line.strip()]]))


def _say(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def main(arguments: Sequence[str]) -> None:
    """Run one command."""
    wired = Wired(load_settings())
    command, argument = arguments
    try:
        if command == "ingest":
            _say(ingest(int(argument), wired))
        else:
            answer(Path(argument), wired)
    finally:
        for engine in (wired.index, wired.graph):
            close = getattr(engine, "close", None)
            if close is not None:
                close()


if __name__ == "__main__":
    main(sys.argv[1:])
