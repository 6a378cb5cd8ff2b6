"""Random orders of writes in which strangers and others name the same ids: no word of a stranger's becomes trusted."""

from __future__ import annotations

import json
import os
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from braid.errors import InvalidRequest
from braid.ingestion.item_parsing import Items
from braid.ingestion.repair import repair
from braid.models import Query
from braid.ports.ingestion import MissingEnds
from braid.retrieval.context.building import build_context
from braid.retrieval.context.episodes import record_decision
from braid.settings import Settings

from braid_cli.datasets.ingest_file import ingest_file
from tests.stages import NOW, DemoStages

if TYPE_CHECKING:
    from pathlib import Path

    Line = dict[str, dict[str, Any]]

TENANT = "acme"
ORDERS = int(os.environ.get("HISTORIES", "8"))
THINGS, OWN, MAILS = ["a", "b", "c"], ["own1", "own2"], ["mail1", "mail2"]
MARK = "STRANGE"
"""Stands in everything that a stranger says, and in nothing else."""
QUESTIONS = ["Who owns Name a?", "What does Name a own?", "Which concepts does Name a not own?", MARK]


def strange(random: Random) -> Line:
    """Return a line of which a stranger is the author: a record, an entity or an edge."""
    match random.randrange(4):
        case 0:
            name = random.choice([*THINGS, *MAILS])
            kind = "chunk" if name in MAILS else random.choice(["chunk", "entity"])
            named = {"name": f"Name {MARK}", "aliases": [MARK], "metadata": {MARK: MARK}, "entity_type": "Ship"}
            old = {"supersedes": [random.choice([*OWN, *THINGS])]} if random.randrange(4) == 0 else {}
            return {"record": {"id": name, "content": f"{MARK} Yard", "trusted": False, "kind": kind, **named, **old}}
        case 1:
            content = {"content": MARK} if random.randrange(3) == 0 else {}
            name = random.choice([*THINGS, f"{MARK}-entity"])
            named = {"name": f"Name {MARK}", "aliases": [MARK], "type": random.choice(["Ship", MARK])}
            return {"entity": {"id": name, **named, "trusted": False, **content}}
        case _:
            source = random.choice([*THINGS, *MAILS, f"{MARK}-entity", f"{MARK}-stub"])
            target = random.choice([*THINGS, *OWN, f"{MARK}-entity", f"{MARK}-stub"])
            known = {"evidence": random.choice(MAILS)} if random.randrange(2) else {"trusted": False}
            says = {"predicate": MARK} if random.randrange(2) else {}
            return {"relationship": {"source": source, "type": "OWNS", "target": target, **known, **says}}


def own(random: Random) -> Line:
    """Return a line that is trusted."""
    name = random.choice([*THINGS, *OWN])
    match random.randrange(3):
        case 0:
            kind = "chunk" if name in OWN else random.choice(["chunk", "entity"])
            called = {"name": f"Name {name}"} if random.randrange(2) else {}
            return {"record": {"id": name, "content": "Great Yard", "kind": kind, "entity_type": "Ship", **called}}
        case 1:
            name = random.choice(THINGS)
            return {"entity": {"id": name, "name": f"Name {name}", "type": "Ship", "aliases": [f"alias {name}"]}}
        case _:
            known = {"evidence": random.choice(OWN)} if random.randrange(2) else {}
            return {
                "relationship": {"source": random.choice([*THINGS, "stub"]), "type": "OWNS", "target": name} | known
            }


def step(random: Random, store: DemoStages, folder: Path) -> None:
    """Write some lines as one request or as a file, delete a record, or write a mail as a decision."""
    way = random.randrange(10)
    if way == 0:
        name = random.choice([*THINGS, *OWN, *MAILS])
        # What an edge says whose evidence is deleted before it is written, nobody has marked.
        store.delete(TENANT, [name] if name not in MAILS or store.index.written(TENANT, [name]) else [])
        return
    if way == 1:
        mail(store, random.choice(MAILS))
        return
    lines = [strange(random) if random.randrange(2) else own(random) for _ in range(random.randrange(1, 5))]
    missing = random.choice([MissingEnds.STUB, MissingEnds.STUB, MissingEnds.REFUSE])
    if way < 5:
        path = folder / "lines.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        ingest_file(path, TENANT, store, missing=missing)
        return
    items = Items(TENANT)
    for number, line in enumerate(lines):
        items.add(str(number), line)
    store.write(items.request(missing=missing, partial=random.randrange(2) == 0))


def mail(store: DemoStages, name: str) -> None:
    """Write a mail as a decision, or as a record where one of its id is stored."""
    try:
        record_decision(MARK, tenant_id=TENANT, store=store, record_id=name, trusted=False, timestamp=NOW)
    except InvalidRequest:
        items = Items(TENANT)
        items.add("mail", {"record": {"id": name, "content": f"{MARK} again", "trusted": False}})
        assert not store.write(items.request()).errors


def trusted_words(store: DemoStages) -> str:
    """Return what is trusted of the graph, and what the questions are answered from what is trusted."""
    graph = store.graph.scan(TENANT)
    said = [one.model_dump_json() for one in (*graph.vertices, *graph.relationships) if one.trusted]
    for text in QUESTIONS:
        query = Query(text=text, tenant_id=TENANT, filters={"trusted_only": True})
        said += [one.model_dump_json() for one in store.answer(query).results]
        said += [message["content"] for message in build_context(text, [], tenant_id=TENANT, memory=store).messages]
    return "\n".join(said)


def test_an_edge_makes_no_stranger_s_episode_trusted(tmp_path: Path) -> None:
    store = DemoStages(Settings(home=tmp_path))

    def write(*lines: Line) -> None:
        items = Items(TENANT)
        for number, line in enumerate(lines):
            items.add(str(number), line)
        assert not store.write(items.request(missing=MissingEnds.STUB)).errors

    write({"relationship": {"source": "a", "type": "OWNS", "target": "mail1"}})
    mail(store, "mail1")
    write({"relationship": {"source": "mail1", "type": "OWNS", "target": "b"}})
    vertices = {vertex.id: (vertex.trusted, vertex.has_record) for vertex in store.graph.scan(TENANT).vertices}
    assert vertices == {"a": (True, False), "b": (True, False), "mail1": (False, True)}
    assert repair(TENANT, store, dry_run=True).findings == ()
    store.close()


@pytest.mark.parametrize("seed", range(ORDERS))
def test_no_order_of_writes_makes_a_stranger_s_word_trusted(tmp_path: Path, seed: int) -> None:
    random = Random(seed)  # noqa: S311 - nothing is kept secret by it
    store = DemoStages(Settings(home=tmp_path, context_min_final=0.0))
    for _ in range(3):
        for _ in range(random.randrange(2, 12)):
            step(random, store, tmp_path)
        trusted_words(store)  # what is kept of these answers is not shown when the mails have been written
        for name in MAILS:
            mail(store, name)
        assert MARK not in trusted_words(store)
        repair(TENANT, store)
        assert MARK not in trusted_words(store)
    store.close()
