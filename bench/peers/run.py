"""Runs Braid and its peers over dataset folders, each in an environment of its own, and writes one table.

``python -m bench peers FOLDER …``. Results are stored in ``peers.json`` and not measured again, except with
``--again``; existing environments are reused. The environments are not part of the project's lock file.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from braid.ports.batches import batches
from platformdirs import user_cache_path

from braid_cli.datasets.dataset import read_dataset
from braid_cli.evaluation.metrics import percentile, score

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from braid_cli.datasets.dataset import Dataset

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CACHE = user_cache_path("braid") / "peers"
SECONDS = 1_200
"""Of one library on one dataset."""
CORES = "0,1"
PAGE = 500
METRICS = ("recall@2", "recall@5", "ndcg@10")


@dataclass(frozen=True)
class Peer:
    """A library that is compared."""

    script: str
    packages: tuple[str, ...] = ()
    without_dependencies: str = ""
    """A package that is installed alone, with ``packages`` as what it needs of its dependencies."""


PEERS = {
    "Braid": Peer("of_braid.py"),
    "txtai": Peer("of_txtai.py", ("txtai",)),
    "LlamaIndex": Peer("of_llamaindex.py", ("llama-index-core", "llama-index-retrievers-bm25")),
    "Haystack": Peer("of_haystack.py", ("haystack-ai",)),
    "graph-rag": Peer("of_graph_rag.py", ("langchain-graph-retriever", "langchain-core", "numpy")),
    "LightRAG": Peer("of_lightrag.py", ("lightrag-hku",)),
    "HippoRAG": Peer(
        "of_hipporag.py",
        ("torch", "python-igraph", "networkx", "pandas", "pyarrow", "pydantic", "tqdm", "openai", "transformers",
         "tenacity", "numpy", "scipy", "scikit-learn", "httpx", "filelock", "litellm", "boto3"),
        "hipporag",
    ),
}  # fmt: skip


def measure(
    folders: Iterable[Path], out: Path, names: Sequence[str], say: Callable[[str], None], *, again: bool = False
) -> dict[str, Any]:
    """Measure what is not measured yet; return all that stands in ``peers.json`` then.

    Parameters
    ----------
    folders
        Dataset folders with judged questions.
    out
        Folder of ``peers.json`` and ``peers.md``.
    names
        Which libraries, by the names of :data:`PEERS`.
    say
        Told what is done.
    again
        Measure also what stands there.
    """
    file = out / "peers.json"
    known: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    for folder in folders:
        dataset = read_dataset(folder, "peers", judged=True)
        given = _prepare(folder, dataset, say)
        for name in names:
            rows = known.setdefault(dataset.name, {})
            if name in rows and not again:
                continue
            say(f"{dataset.name}: {name}")
            rows[name] = _measured(name, given, dataset)
            file.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
            (out / "peers.md").write_text(as_markdown(known), encoding="utf-8")
    return known


def _prepare(folder: Path, dataset: Dataset, say: Callable[[str], None]) -> Path:
    """Write what every library is given; vectors of long passages are those of their first part."""
    from braid.app import application
    from braid.models import EmbeddingType

    from braid_cli.datasets.ingest import ingest
    from braid_cli.evaluation.run import TENANT, isolated_engines

    given = CACHE / f"{dataset.name}-{dataset.content_hash[:12]}"
    if (given / "given.json").exists():
        return given
    say(f"{dataset.name}: embedding")
    given.mkdir(parents=True, exist_ok=True)
    passages = _lines(folder / "corpus.jsonl")
    entities = _lines(folder / "entities.jsonl")
    passages += [
        {"_id": row["id"], "title": row["name"], "text": row["content"]} for row in entities if "content" in row
    ]
    texts = ["\n".join(filter(None, (row.get("title"), row["text"]))) for row in passages]
    named = {row["id"]: row["name"] for row in entities}
    mentions: dict[str, list[str]] = {}
    facts = []
    for edge in _lines(folder / "relationships.jsonl"):
        source, target = edge["source"], edge["target"]
        if source in named and target in named:
            facts.append((named[source], edge["type"], named[target], edge.get("evidence", "")))
        elif source in named:
            mentions.setdefault(target, []).append(named[source])
    library = application()
    with closing(isolated_engines(dataset, library)) as own:  # the store that `braid eval` keeps of this folder
        ingest(dataset, own, threads=os.cpu_count())
        encoder = library.encoder_for(library.model_for(EmbeddingType.GENERAL), threads=2)
        ids = [row["_id"] for row in passages]
        stored = {
            record.id: record.embeddings[0].vector
            for page in batches(ids, PAGE)
            for record in own.index.get_many(TENANT, page, with_vectors=True)
        }
        home = own.settings.home
    questions = [judged.query.text for judged in dataset.judged]
    for name, made in (("vectors", [stored[name] for name in ids]), ("questions", encoder.encode(questions))):
        np.save(given / f"{name}.npy", np.stack([np.frombuffer(vector, dtype=np.float32) for vector in made]))
    written = {
        "home": str(home),
        "ids": ids,
        "texts": texts,
        "questions": questions,
        "mentions": mentions,
        "facts": facts,
        "encoder": [sys.executable, "-m", "bench.peers.encode"],
    }
    (given / "given.json").write_text(json.dumps(written), encoding="utf-8")
    return given


def _lines(file: Path) -> list[dict[str, Any]]:
    if not file.exists():
        return []
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]


def _measured(name: str, given: Path, dataset: Dataset) -> dict[str, Any]:
    """Return one library's figures, or under ``error`` why there are none."""
    answers = given / f"{name}.json"
    answers.unlink(missing_ok=True)
    try:
        python, script = _environment(name), HERE / PEERS[name].script
        command = (
            [str(python), str(script)] if PEERS[name].packages else [str(python), "-m", f"bench.peers.{script.stem}"]
        )
        pinned = ["taskset", "--cpu-list", CORES, *command] if shutil.which("taskset") else command
        subprocess.run(  # noqa: S603 - our own script, in an environment that was made here
            [*pinned, str(given), str(answers)],
            env=os.environ | {"PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"},
            check=True,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        return {"error": f"took longer than {SECONDS // 60} minutes"}
    except subprocess.CalledProcessError as failed:
        said = str(failed.stderr or "").strip().splitlines() or [""]
        return {"error": said[-1][:300]}
    read: dict[str, Any] = json.loads(answers.read_text(encoding="utf-8"))
    qrels = {judged.id: judged.relevant for judged in dataset.judged}
    ways = {}
    for way, found in read.pop("ways").items():
        run = {
            judged.id: {identity: 1 / rank for rank, identity in reversed(list(enumerate(ids, start=1)))}
            for judged, ids in zip(dataset.judged, found["ids"], strict=True)
        }
        means = score(run, qrels).means
        times, spent = sorted(found["ms"]), sorted(found["cpu_ms"])
        ways[way] = {metric: round(means[metric], 4) for metric in METRICS} | {
            "p50_ms": percentile(times, 50),
            "p95_ms": percentile(times, 95),
            "cpu_p50_ms": percentile(spent, 50),
        }
    rounded = {field: round(value, 1) if isinstance(value, float) else value for field, value in read.items()}
    return {**rounded, "day": f"{datetime.now(UTC):%Y-%m-%d}", "ways": ways}


def _environment(name: str) -> Path:
    """Return the Python of a library's environment, which is made where there is none."""
    peer = PEERS[name]
    if not peer.packages:
        return Path(sys.executable)
    folder = CACHE / "environments" / name.lower()
    python = folder / "bin" / "python"
    if not (folder / "made").exists():
        uv = shutil.which("uv") or str(ROOT / ".uv" / "bin" / "uv")
        into = [uv, "pip", "install", "--quiet", "--python", str(python)]
        alone = [[*into, "--no-deps", peer.without_dependencies]] if peer.without_dependencies else []
        for command in ([uv, "venv", "--quiet", "--clear", str(folder)], *alone, [*into, *peer.packages]):
            subprocess.run(command, check=True, capture_output=True, text=True, timeout=SECONDS)  # noqa: S603 - uv, from the registry that it is configured for
        (folder / "made").touch()
    return python


def as_markdown(known: dict[str, Any]) -> str:
    """Return the tables, one a dataset."""
    parts = [NOTES]
    for dataset, rows in known.items():
        parts += [f"## {dataset}", ""]
        parts += ["| | recall@2 | recall@5 | nDCG@10 | p50 ms | p95 ms | processor p50 ms | memory MB | build s |"]
        parts += ["|---|---|---|---|---|---|---|---|---|"]
        for name, row in rows.items():
            if "error" in row:
                parts.append(f"| {name} | could not be measured: {row['error']} | | | | | | | |")
                continue
            for way, found in row["ways"].items():
                quality = " | ".join(f"{found[metric]:.3f}" for metric in METRICS)
                times = f"{found['p50_ms']:.1f} | {found['p95_ms']:.1f} | {found['cpu_p50_ms']:.1f}"
                parts.append(
                    f"| {name} {row['version']}, {way} | {quality} | {times} "
                    f"| {row['memory_mb']:.0f} | {row['built_s']:.0f} |"
                )
        loads = [f"{row['load']:.0f}" for row in rows.values() if "load" in row]
        parts += ["", f"The machine's load average after each: {', '.join(loads)}.", ""]
    return "\n".join(parts)


NOTES = """# Braid beside its peers

Written by `python -m bench peers FOLDER …` from [peers.json](peers.json). [How to read it](README.md#peers).
"""
