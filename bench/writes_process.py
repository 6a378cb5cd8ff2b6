"""Process that runs one task of :mod:`bench.writes`, so that its memory can be measured.

``python -m bench.writes_process TASK HOME SOURCE ENCODER`` runs a task and prints its time and memory as a line of
JSON. ``TASK`` is a name of :data:`TASKS`, ``SOURCE`` a corpus such as those of :mod:`bench.writes_corpus`, and
``ENCODER`` is ``cheap`` or ``real``. Settings come from ``BRAID_*``.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
import time
import zlib
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from braid.app import Application
from braid.engines.embedded.object_store import EmbeddedObjectStore
from braid.ingestion.writing import MissingEnds
from braid.models.embedding_models import Profiles, space_of
from braid.ports.schema_registry import SchemaVersion
from braid.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from braid.models.embedding_models import ModelConfig
    from braid.ports.encoder import Encoder
    from braid.ports.object_store import ObjectStore

TENANT = "bench"
SECOND, SECOND_MODEL = "second", "second-model"
CHEAP, REAL = "cheap", "real"
_SAMPLE_S = 0.005
_OBJECT = "inbox/lines.jsonl"


@dataclass
class CheapEncoder:
    """Vectors that mean nothing, made of a text's checksum: what is measured is all but embedding."""

    model_id: str
    dimension: int
    space: str
    max_tokens: int = 256

    def token_ends(self, text: str) -> list[int]:
        """Return where each word ends."""
        return [word.end() for word in re.finditer(r"\S+", text)]

    def encode(self, texts: Sequence[str], *, instruction: str = "") -> list[bytes]:
        """Return one vector of length 1 a text."""
        import numpy as np

        vectors = []
        for text in texts:
            random = np.random.default_rng(zlib.crc32(f"{self.model_id} {instruction}{text}".encode()))
            vector = random.standard_normal(self.dimension, dtype=np.float32)
            vectors.append((vector / np.linalg.norm(vector)).tobytes())
        return vectors


@dataclass
class Timed:
    """An encoder that notes how long it was asked; by another id it stands for another model of the same cost."""

    inner: Encoder
    model_id: str
    space: str
    dimension: int
    max_tokens: int
    seconds: list[float] = field(default_factory=list)

    def token_ends(self, text: str) -> Sequence[int]:
        """Return where the encoder's tokens end."""
        return self.inner.token_ends(text)

    def encode(self, texts: Sequence[str], *, instruction: str = "") -> list[bytes]:
        """Return what the encoder makes of the texts."""
        began = time.perf_counter()
        vectors = self.inner.encode(texts, instruction=instruction)
        self.seconds.append(time.perf_counter() - began)
        return vectors


class BenchApplication(Application):
    """The product with a second profile, whose model costs what the first one's does, and perhaps a cheap encoder."""

    def __init__(self, encoder: str) -> None:
        super().__init__(load_settings())
        self._cheap = encoder == CHEAP
        self.memory = Memory()
        self.timed: dict[str, Timed] = {}

    @cached_property
    def profiles(self) -> Profiles:
        """The configured profiles, and the second one."""
        configured = super().profiles
        first = configured.profiles[self.settings.model_profile]
        model = configured.models[0].model_copy(update={"id": SECOND_MODEL})
        return Profiles(
            models=(*configured.models, model),
            profiles={**configured.profiles, SECOND: dict.fromkeys(first, SECOND_MODEL)},
        )

    @cached_property
    def objects(self) -> ObjectStore:
        """Files lie on the laptop, also where the stores are servers."""
        return EmbeddedObjectStore(self.store)

    def encoder_for(self, model: ModelConfig, *, threads: int | None = None) -> Encoder:
        """Return an encoder, always with as many threads as there are cores."""
        if model.id not in self.timed:
            space = space_of(model)
            inner: Encoder
            if self._cheap:
                inner = CheapEncoder(model.id, model.dimension, space)
            else:
                real = self.profiles.models[0] if model.id == SECOND_MODEL else model
                inner = super().encoder_for(real, threads=threads or os.cpu_count())
            self.timed[model.id] = Timed(inner, model.id, space, model.dimension, inner.max_tokens)
        return self.timed[model.id]

    def embedding_s(self) -> float:
        """Return the seconds that encoders were asked for so far."""
        return sum(sum(timed.seconds) for timed in self.timed.values())


class Memory:
    """The most memory that this process held: all of it, and without the parts of files that are mapped into it."""

    def __init__(self) -> None:
        self._page = os.sysconf("SC_PAGE_SIZE") / 2**20
        self.own_mb = self.all_mb = 0.0
        self.before_mb: float | None = None
        """The most of its own that it held up to a moment that a task chose."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def so_far(self) -> None:
        """Note what was held up to now, unless that was noted already."""
        if self.before_mb is None:
            self.before_mb = self.own_mb

    def _watch(self) -> None:
        while True:
            _, resident, mapped, *_ = map(int, Path("/proc/self/statm").read_text(encoding="ascii").split())
            self.all_mb = max(self.all_mb, resident * self._page)
            self.own_mb = max(self.own_mb, (resident - mapped) * self._page)
            if self._stop.wait(_SAMPLE_S):
                return


def folder(application: BenchApplication, source: Path) -> int:
    """Do what ``braid ingest DIR`` does."""
    from braid_cli.datasets.ingest import ingest
    from braid_cli.datasets.streaming import open_dataset

    with open_dataset(source / "corpus", TENANT) as dataset:
        return ingest(dataset, application, threads=os.cpu_count()).written


def lines(application: BenchApplication, source: Path) -> int:
    """Do what ``braid ingest FILE`` does."""
    from braid_cli.datasets.ingest_file import ingest_file

    path = source / "lines.jsonl"
    done = ingest_file(path, TENANT, application, missing=MissingEnds.REFUSE, threads=os.cpu_count())
    assert not done.errors
    return done.written


def an_object(application: BenchApplication, _source: Path) -> int:
    """Write an object by the steps of the workflow, one after another; that it is put there first is not counted."""
    from braid.ingestion.bulk.import_queue import ImportQueue
    from braid.ports.ingestion import ImportAsked

    imports = ImportQueue(application)
    try:
        imports.start(TENANT, "bench", ImportAsked(key=_OBJECT))
        while (found := imports.find(TENANT, "bench")) is None or found.status == "running":
            time.sleep(0.02)
    finally:
        imports.close()
    assert found.report is not None, found.error
    assert not found.report.errors
    return found.report.written


def put(application: BenchApplication, source: Path) -> int:
    """Put the file of lines where objects are."""
    with (source / "lines.jsonl").open("rb") as content:
        application.objects.put(TENANT, _OBJECT, content)
    return 0


def compare(application: BenchApplication, _source: Path) -> int:
    """Do what ``braid repair --dry-run`` does."""
    from braid.ingestion.repair import repair

    report = repair(TENANT, application, dry_run=True)
    assert not report.counts, report.counts
    return report.records


def refresh(application: BenchApplication, _source: Path) -> int:
    """Do what ``braid reembed`` does after the tenant's schema has moved on by two versions."""
    from braid import reembedding

    current = application.schemas.current(TENANT)
    for version in (current + 1, current + 2):
        application.schemas.register(SchemaVersion(tenant_id=TENANT, version=version, created_at=datetime.now(UTC)))
    services = application.reembedding
    return reembedding.run_to_end(services, reembedding.plan(services)).written


def move(application: BenchApplication, _source: Path) -> int:
    """Do what ``braid reembed --model-profile`` does, and what ``--drop-previous`` does after it."""
    from braid import reembedding

    def watch(job: reembedding.ReembeddingJob) -> None:
        if job.phase is reembedding.Phase.VERIFY:  # what comes now asks both indexes, as whoever answers does
            application.memory.so_far()

    services = application.reembedding
    job = reembedding.run_to_end(services, reembedding.plan(services, profile=SECOND), on_progress=watch, tolerance=1.0)
    assert job.status == "finished", job.message
    return job.written


def forget(application: BenchApplication, _source: Path) -> int:
    """Do what ``braid delete tenant`` does."""
    from braid.ingestion.tenant_deletion import delete_tenant

    return delete_tenant(TENANT, application).records


def alone(application: BenchApplication, source: Path) -> int:
    """Embed the texts of the dataset folder and do nothing else, all at once: as well as the encoder can."""
    from braid_cli.datasets.streaming import DatasetFiles

    with DatasetFiles(source / "corpus", TENANT) as files:
        texts = [item.record.text() for item in files.record_items() if item.record is not None]
    (model,) = application.models()
    application.encoder_for(model).encode(texts)
    return len(texts)


TASKS: dict[str, Callable[[BenchApplication, Path], int]] = {
    "alone": alone,
    "folder": folder,
    "lines": lines,
    "put": put,
    "object": an_object,
    "compare": compare,
    "refresh": refresh,
    "move": move,
    "forget": forget,
}


def main(arguments: Sequence[str]) -> None:
    """Do one thing and say what it took."""
    task, home, source, encoder = arguments
    os.environ["BRAID_HOME"] = home
    application = BenchApplication(encoder)
    for model in application.models():
        application.encoder_for(model).encode(
            ["so that the model is loaded, and its memory counted from the beginning"]
        )
    for timed in application.timed.values():
        timed.seconds.clear()
    with application.memory as memory:
        began, worked = time.perf_counter(), time.process_time()
        records = TASKS[task](application, Path(source))
        took = {"s": time.perf_counter() - began, "processor_s": time.process_time() - worked}
    application.close()
    said = {
        "records": records,
        "embedding_s": application.embedding_s(),
        "own_mb": memory.own_mb,
        "all_mb": memory.all_mb,
    }
    said |= {} if memory.before_mb is None else {"before_mb": memory.before_mb}
    sys.stdout.write(json.dumps({**took, **said}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
