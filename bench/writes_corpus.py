"""Corpora for the benchmarks of writing: a dataset folder, and a JSON Lines file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from braid.models import Kind

from bench.synthetic import Synthetic

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LINES = "lines.jsonl"
FOLDER = "corpus"


def write_sample(dataset: Path, count: int, to: Path) -> int:
    """Write the first records of a dataset folder, with the entities and relationships that have to do with them.

    Returns
    -------
    int
        Records, entities with a text among them.
    """
    folder = to / FOLDER
    folder.mkdir(parents=True)
    rows = {name: list(_rows(dataset / f"{name}.jsonl")) for name in ("corpus", "entities", "relationships")}
    rows["corpus"] = rows["corpus"][:count]
    kept = {row["_id"] for row in rows["corpus"]}
    kept |= {end for edge in rows["relationships"] for end in _ends(edge) if kept & _ends(edge)}
    known = {row["_id"] for row in rows["corpus"]} | {row["id"] for row in rows["entities"] if row["id"] in kept}
    rows["entities"] = [row for row in rows["entities"] if row["id"] in known]
    rows["relationships"] = [edge for edge in rows["relationships"] if _ends(edge) <= known]
    kinds = {"corpus": None, "entities": "entity", "relationships": "relationship"}
    with (to / LINES).open("w") as lines:
        for name, kind in kinds.items():
            with (folder / f"{name}.jsonl").open("w") as file:
                for row in rows[name]:
                    file.write(json.dumps(row) + "\n")
                    lines.write(json.dumps({kind: row} if kind else row) + "\n")
    return len(rows["corpus"]) + sum(bool(row.get("content")) for row in rows["entities"])


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    if path.exists():
        with path.open(encoding="utf-8") as lines:
            yield from map(json.loads, lines)


def _ends(edge: dict[str, Any]) -> set[str]:
    return {edge["source"], edge["target"]}


def write_corpus(size: int, to: Path) -> None:
    """Write as many records, two in ten of them entities, with four relationships a record; all of one tenant.

    Parameters
    ----------
    size
        Records.
    to
        Folder, made here, in which the dataset folder and the file of lines then lie.
    """
    corpus = Synthetic(size)
    folder = to / FOLDER
    folder.mkdir(parents=True)
    with (
        (folder / "corpus.jsonl").open("w") as records,
        (folder / "entities.jsonl").open("w") as entities,
        (folder / "relationships.jsonl").open("w") as relationships,
        (to / LINES).open("w") as lines,
    ):
        for record in corpus.records():
            given = record.model_dump(
                mode="json",
                include={"id", "kind", "name", "entity_type", "content", "timestamp", "valid_at", "invalid_at"},
                exclude_none=True,
            )
            if record.kind is Kind.ENTITY:
                entity = {("type" if name == "entity_type" else name): value for name, value in given.items()}
                entity.pop("kind")
                entities.write(json.dumps(entity) + "\n")
                lines.write(json.dumps({"entity": entity}) + "\n")
            else:
                names = {"id": "_id", "content": "text"}
                line = json.dumps({names.get(name, name): value for name, value in given.items()}) + "\n"
                records.write(line)
                lines.write(line)
        for edge in corpus.relationships():
            row = edge.model_dump(mode="json", exclude={"tenant_id"}, exclude_none=True, exclude_defaults=True)
            relationships.write(json.dumps(row) + "\n")
            lines.write(json.dumps({"relationship": row}) + "\n")
