"""Input and measuring loop of each library's process. Needs NumPy only, as it runs in each library's environment."""

from __future__ import annotations

import base64
import importlib.metadata
import json
import os
import subprocess
import sys
import threading
import time
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

TOP = 10
WARMING_UP = 5


class Given:
    """A dataset with its vectors: passages, questions, and the graph that the dataset states."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        read: dict[str, Any] = json.loads((folder / "given.json").read_text(encoding="utf-8"))
        self.home = Path(read["home"])
        """Braid's own store of the dataset."""
        self.ids: list[str] = read["ids"]
        self.texts: list[str] = read["texts"]
        """Title, line break, text."""
        self.questions: list[str] = read["questions"]
        self.mentions: dict[str, list[str]] = read["mentions"]
        """By passage, the names that it mentions."""
        self.facts: list[tuple[str, str, str, str]] = [tuple(fact) for fact in read["facts"]]
        """Source, type, target, and the passage that says so."""
        self._encoder: list[str] = read["encoder"]
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self.vectors = np.load(folder / "vectors.npy")
        self.question_vectors = np.load(folder / "questions.npy")

    @cached_property
    def _known(self) -> dict[str, np.ndarray[Any, Any]]:
        known = dict(zip(self.texts, self.vectors, strict=True))
        return known | dict(zip(self.questions, self.question_vectors, strict=True))

    def vector(self, text: str) -> np.ndarray[Any, Any]:
        """Return the vector of a passage or question."""
        return self._known[text]

    def encode(self, texts: Sequence[str]) -> np.ndarray[Any, Any]:
        """Return vectors of any texts; those that were not prepared are embedded by Braid's encoder, beside this."""
        with self._lock:
            if new := [text for text in dict.fromkeys(texts) if text not in self._known]:
                self._known.update(zip(new, self._embedded(new), strict=True))
        return np.stack([self._known[text] for text in texts])

    def _embedded(self, texts: list[str]) -> np.ndarray[Any, Any]:
        if self._process is None:
            self._process = subprocess.Popen(self._encoder, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603 - as prepared
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(texts).encode() + b"\n")
        self._process.stdin.flush()
        made = base64.b64decode(self._process.stdout.readline())
        return np.frombuffer(made, dtype=np.float32).reshape(len(texts), -1)

    def close(self) -> None:
        """End the encoder's process, if one was needed."""
        if self._process is not None:
            with self._process:
                self._process.kill()


def resident_mb(field: str) -> float:
    """Return a line of /proc/self/status in MB: VmRSS is what is held now, VmHWM the most that was."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) / 1024
    return 0.0


def measure(package: str, build: Callable[[Given], Mapping[str, Callable[[int], Sequence[str]]]]) -> None:
    """Build a library's index, ask every question in each of its ways, and write what it answered.

    Parameters
    ----------
    package
        Whose version is noted.
    build
        Makes the index, and returns by name how a question, given by its number, is answered with ids.
    """
    given = Given(Path(sys.argv[1]))
    began = time.perf_counter()
    ways = build(given)
    built_s = time.perf_counter() - began
    given.close()
    answered = {}
    for name, ask in ways.items():
        for number in range(WARMING_UP):
            ask(number)
        ids, times, processor = [], [], []
        for number in range(len(given.questions)):
            clock, spent = time.perf_counter(), time.process_time()
            found = ask(number)
            times.append((time.perf_counter() - clock) * 1000)
            processor.append((time.process_time() - spent) * 1000)
            ids.append([str(one) for one in found][:TOP])
        answered[name] = {"ids": ids, "ms": times, "cpu_ms": processor}
    result = {
        "version": importlib.metadata.version(package),
        "built_s": built_s,
        "memory_mb": resident_mb("VmRSS"),
        "load": os.getloadavg()[0],
        "ways": answered,
    }
    Path(sys.argv[2]).write_text(json.dumps(result), encoding="utf-8")
