"""The explorer in a browser: what is stored, pages of documents and entities, uploads, tenants, what is kept."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from axe_playwright_python.sync_playwright import Axe
from braid.ingestion.writing import write
from braid.models import Record, Relationship, SourceRef, Vertex
from braid.ports.ingestion import WriteRequest
from playwright.sync_api import expect

from braid_cli.http_server.fair_shares import Shares
from tests.browser.test_asking import HOSTILE, KEPT, ROOT_CAUSE, controls
from tests.served import token

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.browser.conftest import Visit
    from tests.stages import DemoStages

    Visits = Callable[..., Visit]

PORT = "port"
"""A tenant of documents whose names, titles and metadata try to be markup."""
GATES = "harbour/gates.md"
EVERY_VIEW = {
    "home": {},
    "document": {"document": GATES},
    "entity": {"entity": "team:dock"},
    "text": {"entity": f"{GATES}#chunk-2"},
    "answer": {"q": "Who owns the heron gate?", "k": "10"},
    "beside": {"q": "Who owns the heron gate?", "compare": "semantic", "where": "team=dock"},
    "nothing": {"document": "nowhere"},
}

SCREENS = [(360, "light"), (1280, "dark")]
if "SCREENSHOTS" in os.environ:
    SCREENS += [(360, "dark"), (1280, "light")]


@pytest.fixture(scope="module", autouse=True)
def port(stages: DemoStages) -> None:
    """Store documents of a tenant of their own."""
    said = {"file": "gates.md", "format": "markdown", "team": "dock", HOSTILE: HOSTILE}
    records = [
        Record(
            id=f"{GATES}#chunk-{number}",
            tenant_id=PORT,
            content=f"Part {number}: the heron gate is opened by the Dock team. {HOSTILE} {'w' * 200}",
            source=SourceRef(title=f"Gates {HOSTILE}", chunk_index=number, page=number + 1),
            metadata={**said, "heading": f"Gates › Part {number}", "position": number},
        )
        for number in range(12)
    ]
    plain = Record(id="note", tenant_id=PORT, name="A note", content="The crane is idle.", metadata={"team": "crane"})
    vertices = [
        Vertex(id="team:dock", tenant_id=PORT, entity_type="Team", name="Dock team", aliases=("Dockers", HOSTILE)),
        Vertex(id="gate", tenant_id=PORT, entity_type="Gate", name="Heron gate"),
        Vertex(id="hostile", tenant_id=PORT, name=HOSTILE),
        Vertex(id="found:1", tenant_id=PORT, name="Herons", found=True),
    ]
    owns = {"tenant_id": PORT, "source": "team:dock", "evidence": f"{GATES}#chunk-2"}
    edges = [
        Relationship(**owns, type="OWNS", target="gate"),
        Relationship(**owns, type="PAINTS", target="hostile"),
        Relationship(tenant_id=PORT, source="found:1", type="MENTIONS", target=f"{GATES}#chunk-0"),
    ]
    request = WriteRequest(
        tenant_id=PORT, records=(*records, plain), vertices=tuple(vertices), relationships=tuple(edges)
    )
    assert write(request, stages).errors == ()


def visible(tab: Visit, view: str) -> None:
    """Wait until a view is there as a whole."""
    waited = {"home": "#documents li", "document": "#stored .chunks li", "entity": "#stored .mentions li"}
    waited |= {"text": "#stored h2", "beside": "#beside-lists ol li", "nothing": "[role=alert]"}
    tab.page.locator(waited.get(view, "#results > li")).first.wait_for()
    tab.page.wait_for_load_state("networkidle")


def test_the_first_page_says_what_is_stored_and_offers_questions_made_of_it(visit: Visits) -> None:
    tab = visit().open(tenant=PORT)
    visible(tab, "home")
    page = tab.page
    expect(page.locator("#counts")).to_contain_text("13")
    expect(page.locator("#documents li")).to_have_count(2)
    expect(page.locator("#names li").first).to_contain_text("Dock team")
    offered = page.locator("#begin button span").all_inner_texts()
    assert offered[0] == "Who owns Heron gate?"
    assert "What does Gates" in " ".join(offered)
    page.locator("#begin button").first.click()
    expect(page.locator("#results > li").first).to_contain_text("Dock team")


def test_the_first_page_is_there_for_a_tenant_that_may_have_one_request_at_once(
    visit: Visits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Shares, "places", lambda *_: 1)  # as many a heavy tenant has beside seven others
    tab = visit().open(tenant=PORT)
    visible(tab, "home")
    expect(tab.page.locator("#begin button").first).to_be_visible()


def test_many_documents_are_shown_page_by_page_and_a_name_is_found(visit: Visits) -> None:
    tab = visit().open()
    visible(tab, "home")
    shown = tab.page.locator("#documents li")
    expect(shown).to_have_count(12)
    tab.page.get_by_role("button", name="More documents").click()
    expect(shown).not_to_have_count(12)
    assert len(set(shown.all_inner_texts())) == shown.count()
    tab.page.get_by_label("Find a name").fill("nobody at all")
    tab.page.get_by_role("button", name="Open").click()
    expect(tab.page.locator("#find-said")).to_have_text("The graph has nothing of this name.")
    tab.page.get_by_label("Find a name").fill("INES duarte")
    tab.page.keyboard.press("Enter")
    expect(tab.page.locator("#stored-title")).to_have_text("Ines Duarte")


def test_a_document_has_a_page_with_its_chunks_in_order_and_the_names_in_it(visit: Visits) -> None:
    tab = visit().ask(KEPT)
    tab.page.locator("#results h3 a").first.click()
    tab.page.locator("#stored .chunk, #stored dl").first.wait_for()
    tab.open(tenant=PORT, document=GATES, chunk=f"{GATES}#chunk-10")
    visible(tab, "document")
    page = tab.page
    expect(page.locator(".chunks li")).to_have_count(12)
    said = page.locator(".chunks .content").all_inner_texts()
    assert [text.partition(":")[0] for text in said] == [f"Part {number}" for number in range(12)]
    expect(page.locator(".chunks .place").nth(3)).to_have_text("Gates › Part 3 · page 4")
    expect(page.locator(".chunks .chosen .content")).to_contain_text("Part 10")
    expect(page.locator("#stored .facts")).to_contain_text("gates.md")
    page.locator("#stored .names").get_by_role("link", name="Dock team").click()
    expect(page.locator("#stored-title")).to_have_text("Dock team")


def test_an_entity_has_a_page_with_its_facts_their_evidence_and_the_texts_that_mention_it(visit: Visits) -> None:
    tab = visit().open(tenant=PORT, entity="team:dock")
    visible(tab, "entity")
    page = tab.page
    expect(page.locator("#stored .kind")).to_have_text("Team · given")
    expect(page.locator("#stored .facts").first).to_contain_text("Dockers")
    fact = page.locator(".known li").filter(has_text="Heron gate")
    expect(fact).to_contain_text("owns → Heron gate")
    expect(page.locator(".mentions li")).to_have_count(12)
    expect(page.locator(".mentions mark").first).to_have_text("Dock team")
    fact.get_by_role("link").nth(1).click()
    expect(page.locator(".chunks .chosen .content")).to_contain_text("Part 2")
    page.go_back()
    expect(page.locator("#stored-title")).to_have_text("Dock team")
    tab.open(tenant=PORT, entity="found:1")
    expect(page.locator("#stored .kind")).to_contain_text("found in the texts")
    page.get_by_role("button", name="Ask about it").click()
    expect(page.get_by_label("Ask a question")).to_have_value("What is Herons?")


def test_results_facts_and_the_graph_lead_to_pages(visit: Visits) -> None:
    tab = visit().ask("Who owns the heron gate?", tenant=PORT)
    expect(tab.page.locator(".result .statements a").first).to_have_text("Dock team")
    tab.page.locator('[data-vertex="team:dock"]').first.click()
    tab.page.locator("#entity").get_by_role("link", name="Its page").click()
    expect(tab.page.locator("#stored-title")).to_have_text("Dock team")


@pytest.mark.parametrize(("width", "scheme"), SCREENS)
@pytest.mark.parametrize("view", EVERY_VIEW)
def test_every_view_fits_its_screen_and_shows_markup_as_text(visit: Visits, view: str, width: int, scheme: str) -> None:
    tab = visit(width=width, color_scheme=scheme).open(tenant=PORT, **EVERY_VIEW[view])
    visible(tab, view)
    assert tab.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert tab.page.locator("main img, main b").count() == 0
    assert tab.page.title() != "1"
    if view not in {"text", "nothing"}:
        expect(tab.page.locator("main")).to_contain_text(HOSTILE)
    tab.seen(f"{view}-{scheme}-{width}")


@pytest.mark.parametrize(
    ("view", "scheme"),
    [("home", "light"), ("home", "dark"), ("document", "dark"), ("entity", "light"), ("beside", "dark")],
)
def test_axe_finds_nothing_on_what_is_stored(visit: Visits, view: str, scheme: str) -> None:
    tab = visit(width=360, color_scheme=scheme).open(tenant=PORT, **EVERY_VIEW[view])
    visible(tab, view)
    found = Axe().run(tab.page)
    assert found.violations_count == 0, found.generate_report()


def test_documents_that_are_dropped_are_added_and_what_is_wrong_is_said_in_a_line_each(
    visit: Visits, tmp_path: Path
) -> None:
    files = {"tides.md": b"# Tides\n\nThe neap tide is low.\n", "bad.pdf": b"%PDF-1.7 bad", "empty.txt": b""}
    files["long.txt"] = b"x" * 1_600_000
    files |= {"tides.md.metadata.json": b'{"title": "Neap tides"}', "long.txt.metadata.json": b"{}"}
    files |= {"quay.txt": b"The quay.", "quay.txt.metadata.json": b"{", "none.pdf.metadata.json": b"{}"}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    tab = visit().open(tenant="tides")
    tab.page.locator("#upload").wait_for()
    tab.page.locator("#files").set_input_files([tmp_path / name for name in files])
    lines = tab.page.locator("#uploads li")
    expect(lines.filter(has_text="tides.md")).to_contain_text("added: 1 chunk", timeout=30_000)
    expect(lines.filter(has_text="bad.pdf")).to_contain_text("is broken", timeout=30_000)
    expect(lines.filter(has_text="empty.txt")).to_contain_text("is empty")
    expect(lines.filter(has_text="long.txt")).to_contain_text("is 1.6 MB, of at most 1.5 here")
    expect(lines.filter(has_text="quay.txt")).to_contain_text("quay.txt.metadata.json: is not a JSON object")
    expect(lines.filter(has_text="none.pdf")).to_contain_text("post its content as the metadata of the document")
    expect(lines).to_have_count(6)
    tab.page.locator("#documents").get_by_role("link", name="Neap tides").click()
    expect(tab.page.locator(".chunks .content")).to_have_text("Tides The neap tide is low.")


def test_whoever_may_only_ask_is_offered_no_upload(visit: Visits) -> None:
    tab = visit()
    reader = {"tenant_id": PORT, "role": "reader", "tenants": [{"tenant_id": PORT, "role": "reader"}]}
    tab.page.route("**/access", lambda route: route.fulfill(json={**reader, "max_body_bytes": 2_000_000}))
    tab.open(tenant=PORT)
    expect(tab.page.locator("#no-upload")).to_be_visible()
    expect(tab.page.locator("#upload")).to_be_hidden()


def test_a_token_of_several_tenants_switches_between_them(visit: Visits) -> None:
    tab = visit().open(with_token=False, tenant="saltmarrow", token=token("saltmarrow", PORT))
    visible(tab, "home")
    tab.page.get_by_label("Tenant").select_option(PORT)
    expect(tab.page.locator("#documents li")).to_have_count(2)
    assert controls(tab)["tenant"] == [PORT]
    tab.page.go_back()
    expect(tab.page.locator("#documents li")).to_have_count(12)
    expect(tab.page.get_by_label("Tenant")).to_have_value("saltmarrow")


def test_values_of_metadata_narrow_an_answer_down_and_are_let_go_again(visit: Visits) -> None:
    tab = visit().ask("What is said of the crane and the gate?", tenant=PORT, k="20")
    tab.page.get_by_text("Narrow it down by metadata").click()
    team = tab.page.locator("#facets .facet").filter(has_text="team")
    expect(team.get_by_role("button", name="dock")).to_contain_text("12")
    team.get_by_role("button", name="crane").click()
    expect(tab.page.locator("#results > li")).to_have_count(1)
    assert controls(tab)["where"] == ["team=crane"]
    pressed = tab.page.locator("#facets").get_by_role("button", name="crane")
    expect(pressed).to_have_attribute("aria-pressed", "true")
    pressed.click()
    expect(tab.page.locator("#results > li")).not_to_have_count(1)


def test_one_question_is_answered_in_two_ways_side_by_side(visit: Visits) -> None:
    tab = visit().ask(ROOT_CAUSE, compare="semantic")
    lists = tab.page.locator("#beside-lists section")
    expect(lists).to_have_count(2)
    expect(lists.nth(0)).to_contain_text("hybrid")
    expect(lists.nth(1)).to_contain_text("semantic")
    expect(lists.nth(0)).to_contain_text("only here")
    assert lists.nth(0).locator("li a").all_inner_texts() == tab.titles()


def test_a_question_is_saved_for_its_tenant_and_forgotten(visit: Visits) -> None:
    tab = visit().ask(KEPT, as_of="2024-01-10")
    tab.page.get_by_role("button", name="Save this question").click()
    tab.page.locator("#home").click()
    saved = tab.page.locator("#saved li")
    expect(saved).to_contain_text("as_of 2024-01-10")
    saved.get_by_role("link").click()
    expect(tab.page.locator("#said")).to_contain_text("as of 2024-01-10")
    tab.open(tenant=PORT)
    visible(tab, "home")
    expect(saved).to_have_count(0)
    tab.open()
    saved.get_by_role("button", name="Forget").click()
    expect(saved).to_have_count(0)


def test_judged_results_become_a_file_of_judged_questions(visit: Visits) -> None:
    tab = visit().ask(ROOT_CAUSE)
    results = tab.page.locator("#results > li")
    right = results.nth(0).get_by_role("button", name="This answers the question")
    right.click()
    expect(right).to_have_attribute("aria-pressed", "true")
    results.nth(1).get_by_role("button", name="This does not answer it").click()
    third = results.nth(2).get_by_role("button", name="This answers the question")
    third.click()
    third.click()
    expect(third).to_have_attribute("aria-pressed", "false")
    cited = [one.rpartition(" · ")[2] for one in results.locator(".cite code").all_inner_texts()]
    tab.page.locator("#home").click()
    with tab.page.expect_download() as downloading:
        tab.page.get_by_role("button", name="Download judged questions").click()
    assert downloading.value.suggested_filename == "judged-saltmarrow.jsonl"
    lines = Path(downloading.value.path()).read_text().splitlines()
    assert [json.loads(line) for line in lines] == [
        {"_id": "q1", "text": ROOT_CAUSE, "relevant": {cited[0]: 1, cited[1]: 0}}
    ]
