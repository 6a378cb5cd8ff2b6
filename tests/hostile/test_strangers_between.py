"""Random histories: what is answered from trusted records is the same, whatever strangers write in between.

Not compared are scores and what they decide, such as the texts of a context: words are weighed by all texts of a
tenant.
"""

from __future__ import annotations

import os
import re
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from braid.errors import BraidError
from braid.models import Query, Record, Relationship
from braid.models.records import RelationshipKey
from braid.ports.ingestion import MissingEnds, WriteRequest
from braid.retrieval.context.building import build_context
from braid.retrieval.context.episodes import record_decision, search_episodes
from braid.retrieval.tenant_search import TenantQuestions
from braid.settings import Settings

from tests.stages import NOW, DemoStages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    Operation = Callable[[DemoStages], None]

TENANT = "acme"
HISTORIES = int(os.environ.get("HISTORIES", "8"))
"""Of which each takes half a second; a fault of trust may show in one of a hundred."""
ENTITIES = {
    f"ent{number}": (kind, name)
    for number, (kind, name) in enumerate(
        [("Person", "Anna Berg"), ("Ship", "Keelson"), ("Service", "Harbour Gate"), ("Person", "Bruno Stein")]
    )
}
NAMES = [name for _, name in ENTITIES.values()]
FOUND = ["Erik Holm", "Gdynia Yard", "Mara Lund", "Oslo Surveyors", "Egon Frisk", "Tilda Moss"]
"""Names that no entity is given for: they are found in texts."""
TEXTS = ["doc0", "doc1", "doc2", "book#1", "book#2"]
OWN = [*ENTITIES, *TEXTS]
STRANGE = [f"stranger{number}" for number in range(5)]
TYPES = ["OWNS", "MAINTAINS", "DEPENDS_ON", "CAUSES"]
QUESTIONS = [
    "Who owns Keelson?",
    "How many ships depend on Harbour Gate?",
    "Which persons do not own Keelson?",
    "Why did Harbour Gate fail, what causes it?",
    "Ana Berg and Keelsn",
    "Erik Holm",
    "Great Port",
]
FURTHER: list[dict[str, Any]] = [
    {"facets": ("team", "floor")},
    {"filters": {"metadata": ["floor>=2"]}},
    {"filters": {"entity_types": ("Ship", "Guild")}},
    {"graph_constraint": {"entity": "Keelson"}},
    {"graph_constraint": {"entity": "Erik Holm"}},
    {"as_of": (NOW - timedelta(days=20)).isoformat()},
]


def said(random: Random) -> str:
    one, other, third = random.sample([*NAMES, *FOUND], 3)
    return f"{one} repaired the pump of {other}. {one} was tired. {third} wrote to {one}, who works with {other}."


def written(*items: Record | Relationship, missing: MissingEnds = MissingEnds.REFUSE) -> Operation:
    def write(store: DemoStages) -> None:
        request = WriteRequest(
            tenant_id=TENANT,
            records=tuple(item for item in items if isinstance(item, Record)),
            relationships=tuple(item for item in items if isinstance(item, Relationship)),
            missing=missing,
        )
        assert not store.write(request).errors

    return write


def deleted(identity: str) -> Operation:
    def delete(store: DemoStages) -> None:
        store.delete(TENANT, [identity])

    return delete


def decided(identity: str, text: str, *, trusted: bool = True) -> Operation:
    def decide(store: DemoStages) -> None:
        record_decision(text, tenant_id=TENANT, store=store, record_id=identity, timestamp=NOW, trusted=trusted)

    return decide


def dice(seed: int) -> Random:
    """Return a random choice that is the same each time."""
    return Random(seed)  # noqa: S311 - nothing is kept secret by it


def own(random: Random, identity: str) -> Record:
    kind, name = ENTITIES.get(identity, (None, None))
    return Record(
        id=identity,
        tenant_id=TENANT,
        kind="entity" if name else "chunk",
        entity_type=kind,
        name=name,
        content=f"{name} is a thing of the harbour" if name else said(random),
        metadata={"team": random.choice(["blue", "red"]), "floor": random.randrange(5)},
        timestamp=NOW - timedelta(days=random.randrange(100)),
    )


def superseding(random: Random, new: str, old: str) -> Record | Relationship:
    """Return a record that supersedes another, or the edge that says so."""
    at = NOW - timedelta(days=random.randrange(60))
    if random.randrange(2):
        return own(random, new).model_copy(update={"supersedes": (old,), "timestamp": at})
    return Relationship(tenant_id=TENANT, source=new, type="SUPERSEDES", target=old, valid_at=at)


def own_history(random: Random) -> list[Operation]:
    """Return operations of which none is refused: writes in any order, rewrites, edges, deletes and decisions."""
    history = [written(own(random, identity)) for identity in random.sample(OWN, len(OWN))]
    stored = dict.fromkeys(OWN)
    for step in range(20):
        identity = random.choice(list(stored))
        match random.randrange(8):
            case 0 | 1:
                history.append(written(own(random, identity)))
            case 2 if identity in TEXTS:
                del stored[identity]
                history.append(deleted(identity))
            case 3:
                history.append(decided(f"decision{step}", said(random)))
            case 4 if len(stored.keys() & set(TEXTS)) > 1:
                old, new = sorted(random.sample([each for each in stored if each in TEXTS], 2))  # closes no cycle
                history.append(written(superseding(random, new, old)))
            case _:
                source, target = random.sample(list(ENTITIES), 2)
                evidence = random.choice([None, *(each for each in stored if each in TEXTS)])
                edge = {"source": source, "type": random.choice(TYPES), "target": target, "evidence": evidence}
                history.append(written(Relationship(tenant_id=TENANT, **edge)))
    return history


def strange(random: Random, there: Iterable[str]) -> Operation:
    """Return a write, rewrite or delete of what is not trusted; what it may not do is refused.

    ``there`` are the stored records of strangers, which are the evidence of edges between any.
    """
    identity, name = random.choice(STRANGE), random.choice([*NAMES, *FOUND, "Wreck Guild", "Ana Berg", "Keelsn"])
    match random.randrange(5):
        case 0 | 1:
            record = Record(
                id=identity,
                tenant_id=TENANT,
                kind=random.choice(["entity", "chunk"]),
                entity_type=random.choice(["Ship", "Guild"]),
                name=name,
                aliases=tuple(random.sample(["Great Port", "keelsn", "Erik Holm", "Bruno"], 2)),
                content=said(random),
                metadata={"team": 7, "floor": "x", "new": True},
                supersedes=random.sample(OWN, random.randrange(2)),
                trusted=False,
            )
            return written(record)
        case 2:
            return deleted(identity)
        case 3:
            return decided(f"decision of {identity}", said(random), trusted=False)
        case _:
            mail = sorted(there)
            # An edge between two of the own ones without evidence is as its writer says, and may replace one.
            source, target = random.sample([*OWN, *STRANGE, "stub"] if mail else [*STRANGE, "stub"], 2)
            kind = random.choice([*TYPES, "MENTIONS", "HAUNTS", "SUPERSEDES"])
            named = {"source": source, "type": kind, "target": target}
            supersedes = [RelationshipKey(source=random.choice(OWN), type=random.choice(TYPES), target="ent1")]
            edge = Relationship(
                tenant_id=TENANT,
                **named,
                evidence=random.choice(mail) if mail else None,
                trusted=bool(mail) and random.random() < 0.5,
                supersedes=supersedes if random.random() < 0.2 else (),
            )
            return written(edge, missing=MissingEnds.STUB)


def played(store: DemoStages, history: Iterable[Operation], random: Random | None = None) -> DemoStages:
    """Play a history, with operations of strangers in between where ``random`` is given."""
    for operation in history:
        for _ in range(random.randrange(4) if random else 0):
            assert random
            records = store.index.get_many(TENANT, STRANGE)
            try:
                strange(random, [record.id for record in records])(store)
            except (BraidError, AssertionError):
                continue
        operation(store)
    return store


def answers(store: DemoStages, random: Random) -> dict[str, Any]:
    """Return what is answered from trusted records alone, in every way, without what scores decide."""
    found: dict[str, Any] = {}
    asked = TenantQuestions(store, TENANT)
    for record in store.index.get_many(TENANT, OWN):
        found[f"validity {record.id}"] = record.valid_at, record.invalid_at
    for text in QUESTIONS:
        for further in ({}, random.choice(FURTHER)):
            filters = {**further.get("filters", {}), "trusted_only": True}
            query = {"text": text, "tenant_id": TENANT, "top_k": 40, "explain": True, **further, "filters": filters}
            answer = store.answer(Query.model_validate(query)).model_dump(mode="json")
            # Of the ends by which the number of edges is estimated, those of strangers are not left out.
            answer["plan"]["reasons"] = [re.sub(r" at [\d.]+ edges.*", "", each) for each in answer["plan"]["reasons"]]
            found[f"{text} {further}"] = [
                *(answer[name] for name in ("plan", "facets", "set_not_answered", "superseded", "unknown_entity")),
                sorted(map(str, answer["related_entities"])),
                sorted(
                    (result["id"], str(result.get("facts")), sorted(map(str, result["paths"])))
                    for result in answer["results"]
                ),
                sorted(candidate["id"] for candidate in answer["considered"]),
            ]
        shown = build_context(text, [], tenant_id=TENANT, memory=store).messages
        found[f"context {text}"] = [one["metadata"]["id"] for one in shown if "stranger" in str(one)]
        episodes = search_episodes(store.index, text, tenant_id=TENANT, as_of=NOW, trusted_only=True, limit=50)
        found[f"episodes {text}"] = sorted(each.id for each in episodes)
    for name in (*NAMES, *FOUND, "Wreck Guild", "Great Port", "Keelsn", "stub"):
        walk = {"start": {"names": [name]}, "steps": [{"direction": "both"}], "trusted_only": True, "returns": "paths"}
        for how, ask in (
            ("related", lambda name=name: asked.related(name, depth=2, trusted_only=True)),
            ("walked", lambda walk=walk: asked.graph_query(walk)),
        ):
            try:
                found[f"{how} {name}"] = sorted((hit.id, *hit.path.ids, *hit.path.types) for hit in ask().hits)
            except BraidError as error:
                found[f"{how} {name}"] = str(error)
    return found


@pytest.mark.parametrize("seed", range(3, 3 + HISTORIES))
def test_strangers_change_no_answer_from_what_is_trusted(tmp_path: Path, seed: int) -> None:
    alone, among = (DemoStages(Settings(home=tmp_path / name).uncached()) for name in ("alone", "among"))
    played(alone, own_history(dice(seed)))
    played(among, own_history(dice(seed)), dice(seed))
    expected, found = answers(alone, dice(seed)), answers(among, dice(seed))
    assert {asked: answer for asked, answer in found.items() if answer != expected[asked]} == {}
    alone.close()
    among.close()
