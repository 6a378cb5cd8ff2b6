"""Locust user of the HTTP API: questions of the demo archive, graph queries, look-ups and writes.

Started by :mod:`bench.load`, which passes the questions and tokens in the environment.
"""

from __future__ import annotations

import itertools
import json
import os
import uuid
from typing import Any

import gevent
from locust import FastHttpUser, constant, task

QUESTIONS: list[str] = json.loads(os.environ["BRAID_LOAD_QUESTIONS"])
TOKENS: list[str] = json.loads(os.environ["BRAID_LOAD_TOKENS"])
REFUSALS = (429, 503)
REFUSED = "refused"
KEPT = "POST /search, kept"
_users = itertools.count()


class Person(FastHttpUser):
    """Asks one thing after another, and waits a second where the server asks for it.

    By locust's own client in C: it shares the cores with the server, and the one on requests takes a fifth of them.
    """

    wait_time = constant(0)

    def on_start(self) -> None:
        """Take one of the tenants, and begin at a question of one's own."""
        number = next(_users)
        self.headers = {"Authorization": f"Bearer {TOKENS[number % len(TOKENS)]}"}
        first = number * 7 % len(QUESTIONS)
        self.questions = itertools.cycle(QUESTIONS[first:] + QUESTIONS[:first])

    @task(6)
    def search(self) -> None:
        """Ask a question."""
        self._ask("POST", "/search", json={"text": next(self.questions), "top_k": 10})

    @task(2)
    def semantic(self) -> None:
        """Search without the graph."""
        self._ask("POST", "/search/semantic", json={"text": next(self.questions)})

    @task(2)
    def related(self) -> None:
        """Walk from an entity that the demo's tenants both may lack."""
        self._ask("GET", "/entities/Beacon/related", params={"depth": 2}, expected=(200, 404))

    @task(1)
    def records(self) -> None:
        """List."""
        self._ask("GET", "/records", params={"limit": 20})

    @task(1)
    def build_context(self) -> None:
        """Build a context."""
        body = {"query": next(self.questions), "messages": [{"role": "user", "content": "Hello"}]}
        self._ask("POST", "/context", json=body)

    @task(2)
    def write(self) -> None:
        """Write one of a hundred notes anew."""
        note = {"id": f"load-{uuid.uuid4().int % 100}", "content": f"{next(self.questions)} {uuid.uuid4()}"}
        self._ask("POST", "/records", json={"records": [note]})

    def _ask(self, method: str, path: str, *, expected: tuple[int, ...] = (200,), **what: Any) -> None:  # noqa: ANN401 - a request's parts
        given: dict[str, Any] = {"name": f"{method} {path}", "headers": self.headers, "catch_response": True}
        with self.client.request(method, path, **given, **what) as answer:
            if answer.status_code in REFUSALS:
                answer.request_meta["name"] = REFUSED
                answer.success()
            elif answer.status_code in expected:
                if path == "/search" and answer.json()["cached"]:
                    answer.request_meta["name"] = KEPT
                answer.success()
            else:
                answer.failure(f"HTTP {answer.status_code}")
        if answer.status_code in REFUSALS:
            gevent.sleep(float(answer.headers.get("Retry-After", "1")))
