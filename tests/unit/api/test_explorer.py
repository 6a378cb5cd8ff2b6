"""The page at /explorer: what is served of it, with which headers, and what its files may not hold."""

from __future__ import annotations

import re
import urllib.request
from typing import TYPE_CHECKING

import pytest
from braid.api.health_and_explorer_routes import MEDIA_TYPES, page_files
from braid.models import Fusion, Intent, Ranking, RerankerKind, Strategy

from braid_cli.http_server.startup_links import SHOWN_AT_MOST, tenants_to_serve
from tests.front_door import FrontDoor
from tests.served import served
from tests.stages import TENANTS, DemoStages, demo_stages

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FILES = sorted(page_files())
MODULES = [name for name in FILES if name.endswith(".js")]
POLICY = {
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
}


@pytest.fixture(scope="module")
def stages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoStages]:
    stages = demo_stages(tmp_path_factory.mktemp("explorer"))
    yield stages
    stages.close()


@pytest.fixture(scope="module")
def door(stages: DemoStages) -> FrontDoor:
    return FrontDoor(stages)


@pytest.mark.parametrize("path", ["/explorer", *(f"/explorer/{name}" for name in FILES)])
def test_each_file_is_served_to_anyone_with_its_type_and_a_strict_policy(door: FrontDoor, path: str) -> None:
    answered = door.ask("GET", path, authorizer=None)
    assert answered.status == 200
    assert answered.headers["Content-Type"] == MEDIA_TYPES[path.rpartition(".")[2] if "." in path else "html"]
    assert answered.headers["X-Content-Type-Options"] == "nosniff"
    assert answered.headers["Referrer-Policy"] == "no-referrer"
    policy = answered.headers["Content-Security-Policy"]
    assert {part.strip() for part in policy.split(";")} >= POLICY
    assert "unsafe" not in policy


def test_a_browser_asks_each_time_and_is_sent_only_what_changed(door: FrontDoor) -> None:
    first = door.ask("GET", "/explorer/explorer.js", authorizer=None)
    assert first.headers["Cache-Control"] == "no-cache"
    again = door.ask("GET", "/explorer/explorer.js", authorizer=None, headers={"if-none-match": first.headers["ETag"]})
    assert (again.status, again.text) == (304, "")


def test_the_server_on_a_laptop_serves_it_alike(stages: DemoStages, door: FrontDoor) -> None:
    with served(stages) as address:
        for path in ("/explorer", "/explorer/explorer.css", "/explorer/explorer.js", "/explorer/braid.svg"):
            with urllib.request.urlopen(f"{address}{path}", timeout=10) as response:  # noqa: S310 - our own server
                expected = door.ask("GET", path, authorizer=None)
                assert response.read().decode() == expected.text
                assert {name.lower(): value for name, value in response.headers.items()}.items() >= {
                    name.lower(): value for name, value in expected.headers.items()
                }.items()


@pytest.mark.parametrize("name", FILES)
def test_a_file_names_no_other_host_and_is_short_enough_to_be_read(name: str) -> None:
    text = page_files()[name].replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?:|//[a-z0-9-]+\.[a-z]|@import|url\((?!#)", text.replace("url(#arrow)", ""))
    assert len(text.splitlines()) <= 300


def test_the_page_holds_no_script_style_or_handler_of_its_own() -> None:
    page = page_files()["index.html"]
    assert not re.search(r"<script(?![^>]* src=)|<style|\sstyle=|\son[a-z]+=|javascript:", page)


@pytest.mark.parametrize("name", MODULES)
def test_what_a_store_returns_can_only_become_text(name: str) -> None:
    ways = (
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|\beval\b|Function\("
    )
    assert not re.search(ways, page_files()[name])


@pytest.mark.parametrize("name", MODULES)
def test_a_module_imports_what_is_there_and_asks_for_parts_that_the_page_has(name: str) -> None:
    text, page = page_files()[name], page_files()["index.html"]
    for names, module in re.findall(r'import \{([^}]*)\} from "\./([^"]+)"', text):
        for imported in names.split(","):
            assert re.search(rf"export (const|(async )?function|class) {imported.strip()}\b", page_files()[module])
    for identity in re.findall(r'(?:byId|fill)\("([^"]+)"', text):
        assert f'id="{identity}"' in page


@pytest.mark.parametrize(
    ("control", "kinds"),
    [
        ("reranker", set(RerankerKind)),
        ("fusion", set(Fusion)),
        ("intent", set(Intent)),
        ("strategy", set(Strategy)),
        ("ranking", set(Ranking) - {Ranking.RELEVANCE}),  # what an empty choice is
    ],
)
def test_the_page_offers_every_choice_that_a_question_has(control: str, kinds: set[str]) -> None:
    _, _, rest = page_files()["index.html"].partition(f'<select id="{control}">')
    options = re.findall(r'<option(?: value="([^"]*)")?>([^<]*)', rest.partition("</select>")[0])
    assert {value or text for value, text in options[1:]} == kinds


def test_the_page_asks_for_all_modules_at_once_so_that_a_slow_network_is_waited_for_once() -> None:
    preloaded = re.findall(r'<link rel="modulepreload" href="\./explorer/([^"]+)">', page_files()["index.html"])
    assert sorted([*preloaded, "explorer.js"]) == MODULES


def test_every_file_is_asked_for_by_the_page_or_a_module() -> None:
    everything = "\n".join(page_files().values())
    for name in set(FILES) - {"index.html"}:
        assert f'"./explorer/{name}"' in everything or f'"./{name}"' in everything


def test_whoever_names_no_tenant_gets_those_that_are_stored_the_demos_first(stages: DemoStages) -> None:
    said: list[str] = []
    assert tenants_to_serve(stages, said.append) == list(TENANTS)
    assert said == []


def test_where_nothing_is_stored_the_demo_is_ingested_and_said_to_be(tmp_path: Path) -> None:
    from braid.settings import Settings

    empty = DemoStages(Settings(home=tmp_path / "home"))
    said: list[str] = []
    assert list(tenants_to_serve(empty, said.append)) == list(TENANTS)
    assert "ingesting the demo" in said[0]
    assert empty.store.tenants() == sorted(TENANTS)
    empty.close()


def test_of_many_tenants_some_are_printed_and_the_rest_can_be_named(
    stages: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stages.store, "tenants", lambda: [f"t{number:03}" for number in range(50)])
    said: list[str] = []
    assert len(tenants_to_serve(stages, said.append)) == SHOWN_AT_MOST
    assert "--tenant NAME" in said[0]
