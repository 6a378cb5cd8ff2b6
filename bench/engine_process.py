"""Process that runs one engine for :mod:`bench.engines`, so that its start-up time and memory can be measured.

``python -m bench.engine_process ingest SIZE`` writes a synthetic corpus and prints the seconds as JSON.
``python -m bench.engine_process answer FILE`` reads the questions of each kind from a file, one line of JSON for each
kind; then it reads kinds from standard input, one a line, and answers each with one line of JSON. Settings come from
``BRAID_*``.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from braid.app import Application
from braid.models import Timestamp
from braid.ports.batches import batches
from braid.ports.knowledge_graph import ExpandRequest, Expansion, PropagateRequest
from braid.ports.search_index import SearchRequest
from braid.ranking import pagerank_and_paths
from braid.settings import EngineKind, load_settings
from pydantic import TypeAdapter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from braid.models import Vertex
    from braid.ports.knowledge_graph import KnowledgeGraph
    from braid.ranking.neighbourhood_arrays import Neighbourhood

RECORDS_AT_ONCE = 512
"""As many as an ingest of the product writes at once."""
WARMING_UP = 50
"""Questions of each kind that are answered first and not counted: the servers compile what they run often."""
PAGERANK = "of it PageRank"
FORMS_OF, FORMS_AT_ONCE = 1_000, 100
"""Vertices that are written once more to learn what the forms of their names cost."""
FIRST_KINDS = ("both strands, filtered", "causal, 3 hops")
"""One question for each store; with them answered, an engine has started."""
_MOMENT: TypeAdapter[Any] = TypeAdapter(Timestamp)


def ingest(size: int, application: Application) -> dict[str, float]:
    """Write a corpus and return the seconds that each part took."""
    from bench.synthetic import TENANT, Synthetic

    corpus = Synthetic(size)
    vertices, relationships = corpus.vertices(), corpus.relationships()
    writing = 0.0
    for batch in batches(corpus.records(), RECORDS_AT_ONCE):
        began = time.perf_counter()
        application.index.upsert(batch)
        writing += time.perf_counter() - began
    began = time.perf_counter()
    if application.settings.engine is EngineKind.EMBEDDED:
        from braid.engines.embedded.search.index import EmbeddedSearchIndex

        # The vectors' graph is built when it is first asked: a part of writing all the same.
        EmbeddedSearchIndex(application.store, application.profiles.dimensions()).optimise(TENANT)
    writing += time.perf_counter() - began
    began = time.perf_counter()
    application.graph.upsert(vertices, [])
    vertices_s = time.perf_counter() - began
    began = time.perf_counter()
    application.graph.upsert([], relationships)
    relationships_s = time.perf_counter() - began
    return {
        "records_s": writing,
        "vertices_s": vertices_s,
        "relationships_s": relationships_s,
        "forms_over_names": _forms_over_names(vertices[:FORMS_OF], application),
    }


def _forms_over_names(vertices: Sequence[Vertex], application: Application) -> float:
    """Write some vertices with the forms of their names and without, a few at a time by turns, and remove them."""
    seconds = {"with": 0.0, "without": 0.0}
    try:
        for batch in batches(vertices, FORMS_AT_ONCE):
            for tenant in seconds:
                some = [vertex.model_copy(update={"tenant_id": tenant}) for vertex in batch]
                with ExitStack() as stack:
                    if tenant == "without":
                        for forms in ("neptune.element_layout.stored_forms", "embedded.graph.name_rows.other_forms"):
                            stack.enter_context(patch(f"braid.engines.{forms}", return_value=[]))
                    began = time.perf_counter()
                    application.graph.upsert(some, [])
                    seconds[tenant] += time.perf_counter() - began
    finally:
        for tenant in seconds:
            application.graph.delete(tenant, [vertex.id for vertex in vertices])
    return seconds["with"] / seconds["without"]


def question(
    line: dict[str, Any], application: Application, sizes: list[tuple[int, int]] | None = None
) -> Callable[[], list[list[str]]]:
    """Return what answers one question with the ids of each of its lists, best first.

    ``sizes`` is given the number of vertices and of edges of each neighbourhood that only is spread over.
    """
    index, graph = application.index, application.graph
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
        case {"propagate": body}:
            around = PropagateRequest.model_validate(body)
            return lambda: [[hit.id for hit in graph.propagate(around).hits]]
        case {"spread": body}:
            return _spread_of(graph, PropagateRequest.model_validate(body), sizes)
        case {"get_many": ids, "tenant_id": tenant_id}:
            return lambda: [[record.id for record in index.get_many(tenant_id, ids)]]
        case {"link": names, "tenant_id": tenant_id, "as_of": moment}:
            as_of = _MOMENT.validate_python(moment)
            return lambda: [[link.entity_id for link in graph.link(tenant_id, names, as_of=as_of)]]
        case _:
            raise ValueError(f"not a question: {', '.join(line)}")


def _spread_of(
    graph: KnowledgeGraph, request: PropagateRequest, sizes: list[tuple[int, int]] | None
) -> Callable[[], list[list[str]]]:
    """Gather a neighbourhood now, and return what spreads the seeds over it: that part of the work alone."""
    caught: list[Neighbourhood] = []

    def catch(_: PropagateRequest, around: Neighbourhood) -> Expansion:
        caught.append(around)
        return Expansion()

    # The engines look it up when they are asked.
    with patch("braid.ranking.pagerank_and_paths.personalised_pagerank", catch):
        graph.propagate(request)
    (around,) = caught
    if sizes is not None:
        sizes.append((len(around.ids), len(around.sources)))
    return lambda: [[hit.id for hit in pagerank_and_paths.personalised_pagerank(request, around).hits]]


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


def answer(file: Path, application: Application) -> None:
    """Answer one question of the first kinds, say so, and then every question of the kinds that are asked for."""
    asked = dict(map(json.loads, file.read_text(encoding="utf-8").splitlines()))
    for kind in FIRST_KINDS:
        question(asked[kind][0], application)()
    _say("ready")
    for line in sys.stdin:
        sizes: list[tuple[int, int]] = []
        answers = timed([question(body, application, sizes) for body in asked[line.strip()]])
        if sizes:
            answers["gathered"] = [sorted(column)[len(column) // 2] for column in zip(*sizes, strict=True)]
        _say(answers)


def _say(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def main(arguments: Sequence[str]) -> None:
    """Run one command."""
    application = Application(load_settings())
    command, argument = arguments
    try:
        if command == "ingest":
            _say(ingest(int(argument), application))
        else:
            answer(Path(argument), application)
    finally:
        for engine in (application.index, application.graph):
            close = getattr(engine, "close", None)
            if close is not None:
                close()


if __name__ == "__main__":
    main(sys.argv[1:])
