"""``braid serve`` as typed: what it prints leads to the page, and to an answer."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from tests.e2e.conftest import ROOT, environment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def serving(home: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run the server on a free port until the block ends; its output is read through a pipe."""
    process = subprocess.Popen(  # noqa: S603 - this interpreter and our own module
        [sys.executable, "-m", "braid_cli.main", "serve", "--port", "0", *arguments],
        cwd=ROOT,
        env=environment(home),
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=20)


def fetch(url: str, token: str | None = None, body: Any = None) -> tuple[str, str]:
    """Return the type and the text of an answer."""
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, headers=headers)  # noqa: S310 - our own server
    with urllib.request.urlopen(request, timeout=30) as response:  # noqa: S310
        return response.headers["Content-Type"], response.read().decode()


def test_the_printed_link_opens_the_page_and_its_token_asks_for_the_tenant_that_is_stored(home: Path) -> None:
    with serving(home) as process:
        assert process.stdout
        assert process.stdout.readline().strip() == "saltmarrow"
        link = urlsplit(process.stdout.readline().split()[-1])
        origin = f"{link.scheme}://{link.netloc}"
        kind, page = fetch(f"{origin}{link.path}")
        assert kind.startswith("text/html")
        assert "Braid" in page
        carried = parse_qs(link.fragment)
        assert carried["tenant"] == ["saltmarrow"]
        question = {"text": "What does Wharfinger do?", "explain": True, "top_k": 1}
        _, answer = fetch(f"{origin}/search", carried["token"][0], question)
        assert json.loads(answer)["results"][0]["id"] == "service:wharfinger"


def test_from_an_empty_home_the_demo_is_there_to_be_asked(tmp_path: Path) -> None:
    with serving(tmp_path / "home", "--json") as process:
        assert process.stdout
        printed = json.loads(process.stdout.readline())
        assert list(printed["tokens"]) == ["saltmarrow", "pellworth"]
        question = {"text": "Why was there a citrus frost?", "top_k": 3}
        _, answer = fetch(f"{printed['url']}/search", printed["tokens"]["pellworth"], question)
        assert json.loads(answer)["results"]
