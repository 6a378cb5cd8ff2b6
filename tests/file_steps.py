"""The steps that write an object of many lines, one after the other, as the workflow calls them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from braid.ingestion.bulk import import_steps, manifest
from braid.ingestion.bulk.step_messages import Batch, Cursor, Finish, PageRequest, Phase, Split

from tests.contract.shapes import ACME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from braid.ports.ingestion import ImportJob, JobReport

    from tests.stages import DemoStages

KEY = "inbox/a.jsonl"


def put_lines(
    store: DemoStages, lines: Iterable[dict[str, Any]], spelt: Callable[[dict[str, Any]], str] = json.dumps
) -> None:
    store.objects.put(ACME, KEY, "".join(spelt(line) + "\n" for line in lines).encode())


def begun(store: DemoStages, name: str = "j", **fields: Any) -> ImportJob:
    return import_steps.split(Split(job=name, event={"tenant_id": ACME, "key": KEY, **fields}), store)


def batches(store: DemoStages, job: ImportJob, phase: Phase) -> Iterator[Batch]:
    cursor = Cursor()
    while True:
        out = import_steps.page(PageRequest(job=job, cursor=cursor), store)
        if out.items is None:
            return
        for place in manifest.items(job, out.items, store.objects):
            if out.phase is phase:
                yield Batch(job=job, phase=phase, batch=place)
        cursor = out.next


def all_phases(store: DemoStages, job: ImportJob) -> JobReport:
    for phase in Phase:
        for task in batches(store, job, phase):
            import_steps.batch(task, store)
    return finished(store, job)


def finished(store: DemoStages, job: ImportJob) -> JobReport:
    return import_steps.finish(Finish(job=job), store)
