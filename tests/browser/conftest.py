"""A real browser in front of the server, which runs in this process over the demo corpus.

``CHROMIUM`` names the browser where it is not on the PATH. With ``SCREENSHOTS`` set to a folder, the tests leave there
what they saw.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from braid_cli.datasets.dataset import read_dataset
from braid_cli.datasets.ingest import ingest
from tests.served import served, token
from tests.stages import DEMO, DemoStages, demo_stages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
OWN = "harbour"
"""A tenant that is not the demo's, with the smaller of the demo's archives."""


def find_browser() -> str:
    """Return the path of a Chromium."""
    named = os.environ.get("CHROMIUM")
    found = shutil.which(named) if named else next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.exit(
            f"no browser: {named or ', '.join(NAMES)} is not there. Install Chromium (Debian: apt-get install "
            "chromium) or name one in the environment variable CHROMIUM.",
            returncode=1,
        )
    return found


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = find_browser()
    with sync_playwright() as playwright:
        # Chromium's sandbox does not start for root, as which containers run.
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"] if os.geteuid() == 0 else [])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def stages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoStages]:
    stages = demo_stages(tmp_path_factory.mktemp("browser"))
    ingest(read_dataset(DEMO / "pellworth", OWN), stages)
    yield stages
    stages.close()


@pytest.fixture(scope="session")
def address(stages: DemoStages) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POWERTOOLS_LOG_LEVEL", "CRITICAL")
        with served(stages) as address:
            yield address


@dataclass
class Visit:
    """One tab, and what it did besides what it shows."""

    page: Page
    address: str
    requests: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    other_addresses: list[str] = field(default_factory=list)
    """Of the same server, which the page may ask as well."""

    def link(self, *, tenant: str = "saltmarrow", with_token: bool = True, **parts: str) -> str:
        """Return an address of the page, with a token as ``braid serve`` prints it."""
        known = {"token": token(tenant)} if with_token else {}
        return f"{self.address}/explorer#{urlencode({'tenant': tenant, **known, **parts})}"

    def open(self, **parts: Any) -> Visit:
        """Open such an address."""
        self.page.goto(self.link(**parts))
        return self

    def ask(self, text: str, **parts: Any) -> Visit:
        """Open the address of a question, and wait for its answer."""
        self.open(q=text, **parts)
        self.page.locator("#results > li").first.wait_for()
        return self

    def titles(self) -> list[str]:
        return self.page.locator("#results h3 > span:nth-child(2)").all_inner_texts()

    def seen(self, name: str) -> None:
        """Leave a picture, where one is asked for."""
        folder = os.environ.get("SCREENSHOTS")
        if folder:
            self.page.screenshot(path=str(Path(folder) / f"{name}.png"), full_page=True)


@pytest.fixture
def visit(browser: Browser, address: str, stages: DemoStages) -> Iterator[Callable[..., Visit]]:
    """Open a tab: ``visit(width=320, color_scheme="dark")``. Afterwards nothing may have failed in it."""
    stages.healthy()
    visits: list[Visit] = []

    def make(*, width: int = 1280, **options: Any) -> Visit:
        options = {"viewport": {"width": width, "height": 900}, "reduced_motion": "reduce", **options}
        page = browser.new_context(**options).new_page()
        made = Visit(page, address)
        page.on("request", lambda request: made.requests.append(request.url))
        page.on("pageerror", lambda error: made.errors.append(str(error)))
        page.on("console", lambda message: _keep(made, message))
        visits.append(made)
        return made

    yield make
    for made in visits:
        made.page.context.close()
        assert made.errors == []
        assert [url for url in made.requests if not url.startswith((address, *made.other_addresses))] == []


def _keep(visit: Visit, message: Any) -> None:
    # That an answer was a refusal is a line of Chromium's own.
    if message.type in {"error", "warning"} and "Failed to load resource" not in message.text:
        visit.errors.append(message.text)
