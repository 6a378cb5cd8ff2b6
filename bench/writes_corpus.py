"""The synthetic corpus as people would bring it: as a dataset folder, and as one file of lines."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from braid.models import Kind

from bench.synthetic import Synthetic

if TYPE_CHECKING:
    from pathlib import Path

LINES = "lines.jsonl"
FOLDER = "corpus"


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
