"""The explorer in a browser: its graph, the keyboard, other screens, and whoever hears the page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.browser.test_asking import ROOT_CAUSE

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.browser.conftest import Visit

    Visits = Callable[..., Visit]

NAMED = "event:lisbon-label-stoppage"


def vertex(tab: Visit, identity: str) -> Any:
    return tab.page.locator(f'[data-vertex="{identity}"]')


def test_the_path_to_a_result_is_drawn_and_told(visit: Visits) -> None:
    tab = visit().ask(ROOT_CAUSE, k="10")
    assert tab.page.locator("#graph .edge").count() >= 2
    expect(vertex(tab, NAMED)).to_have_attribute(
        "aria-label", "Lisbon label stoppage, named in the question: show its relations"
    )
    expect(tab.page.locator("#graph .edge text").filter(has_text="causes").first).to_be_visible()
    expect(tab.page.locator("#results .path").filter(has_text="caused by").first).to_be_visible()


def test_a_cause_is_shown_as_one_where_the_surest_edge_says_only_what_came_before(visit: Visits) -> None:
    tab = visit().ask(ROOT_CAUSE)
    vertex(tab, "event:printers-refuse-jobs").click()
    groups = tab.page.locator("#entity .relations section")
    expect(groups.first.locator("h4")).to_have_text("caused by →")
    expect(groups.first.get_by_role("button")).to_have_text(["Castellan signing certificate lapsed"])
    expect(groups.filter(has_text="after →").get_by_role("button")).to_have_text(
        ["Castellan signing certificate lapsed"]
    )


def test_choosing_a_vertex_asks_for_its_relations_and_they_lead_on(visit: Visits) -> None:
    tab = visit().ask(ROOT_CAUSE, k="10")
    vertices = tab.page.locator("#graph .vertex").count()
    vertex(tab, NAMED).click()
    expect(tab.page.locator("#entity h3")).to_have_text("Lisbon label stoppage")
    expect(tab.page.locator("#entity")).to_contain_text("relations")
    expect(vertex(tab, NAMED)).to_have_attribute("aria-pressed", "true")
    assert tab.page.locator("#graph .vertex").count() > vertices
    onward = tab.page.locator("#entity .relations button").first
    name = onward.inner_text()
    onward.click()
    expect(tab.page.locator("#entity h3")).to_have_text(name)
    tab.page.get_by_role("button", name="Close", exact=True).click()
    expect(tab.page.locator("#entity")).to_be_hidden()


def test_a_question_can_be_kept_to_what_an_entity_reaches(visit: Visits) -> None:
    tab = visit().ask(ROOT_CAUSE)
    vertex(tab, NAMED).click()
    tab.page.get_by_role("button", name="Ask only among what this reaches").click()
    expect(tab.page.get_by_label("Only what this reaches")).to_have_value(NAMED)
    expect(tab.page.locator("#plan")).to_contain_text("graph first")


def test_a_slash_leads_to_the_question_from_anywhere_but_a_field(visit: Visits) -> None:
    tab = visit().ask(ROOT_CAUSE)
    tab.page.locator("body").press("/")
    expect(tab.page.get_by_label("Ask a question")).to_be_focused()
    tab.page.keyboard.type("a/b")
    expect(tab.page.get_by_label("Ask a question")).to_have_value("a/b")


def test_the_graph_is_used_from_the_keyboard_and_keeps_the_focus(visit: Visits) -> None:
    tab = visit().ask(ROOT_CAUSE)
    vertex(tab, NAMED).focus()
    tab.page.keyboard.press("Enter")
    expect(tab.page.locator("#entity h3")).to_have_text("Lisbon label stoppage")
    expect(vertex(tab, NAMED)).to_be_focused()


def test_everything_that_acts_is_reached_with_tab_and_is_seen_to_be(visit: Visits) -> None:
    tab = visit().ask(ROOT_CAUSE)
    reached: list[str] = []
    outlines: set[str] = set()
    for _ in range(200):
        tab.page.keyboard.press("Tab")
        found = tab.page.evaluate(
            """() => { const e = document.activeElement, s = getComputedStyle(e);
            const r = e.querySelector("rect");
            const called = e.id || e.dataset.vertex || e.textContent.trim().slice(0, 30) || e.ariaLabel;
            return e === document.body ? ["", ""] : [called,
                    r ? getComputedStyle(r).strokeWidth : s.outlineStyle + s.outlineWidth]; }"""
        )
        if not found[0]:
            break
        reached.append(found[0])
        outlines.add(found[1])
    for wanted in ("skip", "text", "Ask", "order", NAMED, "Why it is here: Lisbon label st"[:30]):
        assert any(wanted in one for one in reached), wanted
    assert outlines <= {"solid3px", "4px"}


@pytest.mark.parametrize(("width", "scheme"), [(320, "dark"), (768, "light"), (1440, "dark")])
def test_axe_finds_nothing_to_complain_of(visit: Visits, width: int, scheme: str) -> None:
    tab = visit(width=width, color_scheme=scheme).ask(ROOT_CAUSE, k="10", fusion="weighted")
    vertex(tab, NAMED).click()
    tab.page.locator("#entity h3").wait_for()
    tab.page.locator(".more > summary").first.click()
    tab.page.locator("#request > summary").click()
    found = Axe().run(tab.page)
    assert found.violations_count == 0, found.generate_report()
    tab.seen(f"{scheme}-{width}")


@pytest.mark.parametrize("parts", [{}, {"with_token": False}, {"q": "Who?", "strategy": "graph_first"}], ids=str)
def test_axe_finds_nothing_on_the_way_to_an_answer_either(visit: Visits, parts: dict[str, Any]) -> None:
    tab = visit().open(**parts)
    tab.page.wait_for_load_state("networkidle")
    found = Axe().run(tab.page)
    assert found.violations_count == 0, found.generate_report()


@pytest.mark.parametrize("width", [320, 600, 1000])
def test_a_narrow_screen_scrolls_one_way_only(visit: Visits, width: int) -> None:
    tab = visit(width=width).ask(ROOT_CAUSE, k="10", fusion="rrf")
    vertex(tab, NAMED).click()
    tab.page.locator("#entity h3").wait_for()
    hidden = "(name) => { const box = document.querySelector(name); return box.scrollWidth - box.clientWidth; }"
    assert tab.page.evaluate(hidden, "html") <= 0
    assert tab.page.evaluate(hidden, "#graph") <= 0


def test_whoever_wants_no_motion_gets_none(visit: Visits) -> None:
    moving = "getComputedStyle(document.querySelector('#answer')).transitionDuration"
    assert visit(reduced_motion="reduce").ask(ROOT_CAUSE).page.evaluate(moving) == "0s"
    assert visit(reduced_motion="no-preference").ask(ROOT_CAUSE).page.evaluate(moving) != "0s"
