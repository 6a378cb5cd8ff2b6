"""The explorer in a browser: asking, and what is shown of an answer."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest
from braid.errors import TransientStoreError
from braid.models import Record, Vertex
from playwright.sync_api import expect

from tests.served import token

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Route

    from tests.browser.conftest import Visit
    from tests.stages import DemoStages

    Visits = Callable[..., Visit]

ROOT_CAUSE = "What was the root cause of the Lisbon label stoppage?"
KEPT = "How long does Fairlead keep messages?"
HOSTILE = '<img src="x" onerror="document.title=1"><b>zanzibar</b>'


def controls(visit: Visit) -> dict[str, list[str]]:
    return parse_qs(urlsplit(visit.page.url).fragment)


def test_a_question_is_asked_and_answered_with_citations(visit: Visits) -> None:
    tab = visit().open()
    page = tab.page
    page.get_by_label("Ask a question").fill(ROOT_CAUSE)
    page.keyboard.press("Enter")
    expect(page.locator("#results > li")).to_have_count(5)
    expect(page.locator("#said")).to_contain_text("5 results")
    expect(page.locator("#summary")).to_contain_text("question of causes")
    expect(page.locator("#summary")).to_contain_text("“Lisbon label stoppage”")
    expect(page.locator("#results .cite").first).to_contain_text(re.compile(r"document: .+"))
    expect(page.locator("#plan")).to_contain_text("causal")
    for stage in ("plan", "embed", "search text", "find names", "walk the graph", "fuse and read"):
        expect(page.locator("#time")).to_contain_text(stage)
    assert page.title().startswith(ROOT_CAUSE)
    tab.seen("light")


def test_the_address_holds_question_and_controls_and_never_the_token(visit: Visits) -> None:
    tab = visit().ask(ROOT_CAUSE, fusion="rrf", k="10")
    assert controls(tab) == {"q": [ROOT_CAUSE], "fusion": ["rrf"], "k": ["10"], "tenant": ["saltmarrow"]}
    titles = tab.titles()
    link = tab.page.url
    tab.page.reload()
    tab.page.locator("#results > li").first.wait_for()
    assert (tab.page.url, tab.titles()) == (link, titles)
    assert tab.page.locator("#fusion").input_value() == "rrf"
    other = visit()
    other.page.goto(link)
    expect(other.page.get_by_role("alert")).to_contain_text("A token is needed")


def test_another_reranker_can_be_asked_for_and_one_that_is_not_there_is_said_to_be_missing(visit: Visits) -> None:
    tab = visit().ask(ROOT_CAUSE, reranker="none")
    before = tab.titles()
    expect(tab.page.locator("#notices")).not_to_contain_text("The reranker did not answer")
    tab.page.locator("#reranker").select_option("voyage")
    expect(tab.page.locator("#notices")).to_contain_text(
        "The reranker did not answer, or is not set up here: the fused order stands."
    )
    assert controls(tab)["reranker"] == ["voyage"]
    assert tab.titles() == before


def test_what_each_strand_found_is_shown_with_where_it_came(visit: Visits) -> None:
    page = visit().ask(ROOT_CAUSE).page
    for strand in ("vectors", "words", "names", "graph"):
        expect(page.locator("#strands h3").filter(has_text=strand)).to_have_count(1)
    row = page.locator("#order tbody tr").first
    assert row.locator("td").last.inner_text()
    assert row.locator("td").nth(5).inner_text() == "1"
    expect(page.locator("#order")).to_contain_text("First in a strand, and not among the results")


def test_an_answer_of_before_is_said_to_be_from_the_cache(visit: Visits) -> None:
    question = "What does Wharfinger do?"
    visit().ask(question)
    again = visit().ask(question)
    expect(again.page.locator("#said")).to_contain_text("from the cache")
    expect(again.page.locator("#time")).to_contain_text("read from the cache")


def test_a_changed_control_asks_again_and_shows_what_moved(visit: Visits) -> None:
    tab = visit().ask(ROOT_CAUSE)
    before = tab.titles()
    tab.page.get_by_text("How it is answered").click()
    tab.page.get_by_label("Strategy").select_option("semantic")
    strategy = tab.page.locator("#plan dd").first
    expect(strategy).to_have_text("semantic")
    assert controls(tab)["strategy"] == ["semantic"]
    assert tab.titles() != before
    assert tab.page.locator("#results .moved").count() > 0
    tab.page.go_back()
    expect(strategy).to_have_text("hybrid")
    assert tab.titles() == before


def test_the_balance_moves_the_weights_and_can_be_given_back(visit: Visits) -> None:
    tab = visit().ask(ROOT_CAUSE)
    planned = tab.page.locator("#weights dl").inner_text()
    tab.page.get_by_text("How it is answered").click()
    tab.page.locator("#balance").fill("0.1")
    expect(tab.page.locator("#balance-said")).to_have_text("90 % text, 10 % graph")
    expect(tab.page.locator("#weights dl")).not_to_have_text(planned, use_inner_text=True)
    tab.page.get_by_role("button", name="Back to the plan").click()
    expect(tab.page.locator("#balance-said")).to_have_text("planned")
    expect(tab.page.locator("#weights dl")).to_have_text(planned, use_inner_text=True)


def test_as_of_an_earlier_day_another_answer_holds(visit: Visits) -> None:
    today = visit().ask(KEPT).titles()
    tab = visit().ask(KEPT, as_of="2024-01-10")
    expect(tab.page.locator("#said")).to_contain_text("as of 2024-01-10")
    assert tab.titles() != today


def test_a_degraded_answer_says_in_words_what_it_lacks(visit: Visits, stages: DemoStages) -> None:
    def lost() -> None:
        raise TransientStoreError("the search index did not answer in time")

    tab = visit()
    stages.faults["vector_search"] = lost
    tab.ask("What was the root cause of the Lisbon label stoppage, with one store lost?")
    expect(tab.page.locator("#notices .degraded")).to_contain_text("The search index did not answer")
    expect(tab.page.locator("#said")).to_contain_text("degraded")
    tab.seen("degraded")


def test_a_question_about_something_else_is_answered_with_a_word_of_warning(visit: Visits) -> None:
    tab = visit().ask("How do I bake sourdough bread?")
    expect(tab.page.locator("#notices")).to_contain_text("Probably not answered")
    tab.seen("far")
    tab.ask("What was the root cause of the Lisbon label stoppage?")
    expect(tab.page.locator("#notices")).to_contain_text("Likely answered")


def test_no_store_at_all_is_said_with_a_way_to_try_again(visit: Visits, stages: DemoStages) -> None:
    def lost() -> None:
        raise TransientStoreError("no answer in time")

    tab = visit()
    stages.faults |= {"vector_search": lost, "graph_expand": lost}
    tab.open(q="Does anything answer?")
    expect(tab.page.get_by_role("alert")).to_contain_text("Cannot be answered right now")
    tab.seen("refused")
    stages.healthy()
    tab.page.get_by_role("button", name="Try again").click()
    tab.page.locator("#results > li").first.wait_for()
    expect(tab.page.get_by_role("alert")).to_have_count(0)


def test_a_server_that_has_gone_is_said_to_have_gone(visit: Visits) -> None:
    tab = visit().open()
    tab.page.context.set_offline(True)
    tab.page.get_by_label("Ask a question").fill("Anyone there?")
    tab.page.keyboard.press("Enter")
    expect(tab.page.get_by_role("alert")).to_contain_text("The server does not answer")


def test_a_wrong_question_names_its_field(visit: Visits) -> None:
    tab = visit().open(q="Who?", within="x" * 600)
    expect(tab.page.get_by_role("alert")).to_contain_text("The question is not right yet")
    expect(tab.page.get_by_role("alert")).to_contain_text("graph_constraint")


def test_a_strategy_that_begins_at_an_entity_asks_for_one_in_the_words_of_the_page(visit: Visits) -> None:
    tab = visit().open(q="Who?", strategy="graph_first")
    expect(tab.page.get_by_role("alert")).to_contain_text("Name one under “Only what this reaches”")
    tab.page.get_by_label("Only what this reaches").fill("Beacon")
    tab.page.keyboard.press("Enter")
    expect(tab.page.locator("#plan")).to_contain_text("graph first")


def test_nothing_found_is_said_with_a_way_on(visit: Visits) -> None:
    tab = visit().ask("Who?", within="nobody-of-this-name")
    expect(tab.page.locator("#results")).to_contain_text("an entity that the graph does not know")


def test_without_a_token_the_page_says_where_one_comes_from_and_takes_it(visit: Visits) -> None:
    tab = visit().open(with_token=False)
    expect(tab.page.locator("#welcome")).to_contain_text("braid serve")
    tab.page.get_by_label("Token").fill(token("saltmarrow"))
    tab.page.get_by_role("button", name="Use").click()
    tab.page.get_by_label("Ask a question").fill(ROOT_CAUSE)
    tab.page.keyboard.press("Enter")
    expect(tab.page.locator("#results > li")).to_have_count(5)
    assert "token" not in tab.page.url


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"token": "made.up"}, "This token is not accepted"),
        ({"token": token("pellworth"), "tenant": "saltmarrow"}, "This is not yours to ask"),
    ],
    ids=["made up", "another tenant's"],
)
def test_a_token_that_does_not_fit_is_said_not_to(visit: Visits, parts: dict[str, str], said: str) -> None:
    tab = visit().open(with_token=False, q="Who?", **parts)
    expect(tab.page.get_by_role("alert")).to_contain_text(said)
    expect(tab.page.get_by_label("Token")).to_be_visible()


@pytest.mark.parametrize(
    ("tenant", "offered"), [("saltmarrow", ROOT_CAUSE), ("pellworth", "citrus frost"), ("harbour", "?")]
)
def test_questions_are_offered_and_the_first_can_be_asked(visit: Visits, tenant: str, offered: str) -> None:
    tab = visit().open(tenant=tenant)
    examples = tab.page.locator(".examples button")
    expect(examples.filter(has_text=offered).first).to_be_visible()
    tab.seen(f"welcome-{tenant}")
    examples.first.click()
    tab.page.locator("#results > li").first.wait_for()


def test_a_tenant_without_data_is_told_what_brings_some(visit: Visits) -> None:
    tab = visit().open(tenant="empty", q="Who?")
    expect(tab.page.locator("#results")).to_contain_text("braid ingest")
    tab.open(tenant="empty")
    expect(tab.page.locator("#welcome")).to_contain_text("braid ingest")


def test_a_bar_is_as_long_as_its_score_says(visit: Visits) -> None:
    tab = visit().ask(ROOT_CAUSE)
    result = tab.page.locator("#results > li").nth(1)
    result.get_by_text("Why it is here").click()
    shown = "(box) => box.firstChild.getBoundingClientRect().width / box.getBoundingClientRect().width"
    lengths = [track.evaluate(shown) for track in result.locator(".bars .track").all()]
    scores = [float(figure) for figure in result.locator(".bars .figure").all_inner_texts()]
    assert lengths == pytest.approx(scores, abs=0.01)
    assert min(scores) < 0.6


def test_the_words_of_the_question_are_marked_and_those_that_every_question_has_are_not(visit: Visits) -> None:
    tab = visit().ask("What do the texts of the storm say?")
    marked = {word.lower() for word in tab.page.locator("#results mark").all_inner_texts()}
    assert {"text", "texts"} & marked
    assert not {"the", "what", "of", "do"} & marked


def test_the_sentence_that_answers_is_set_apart_and_conditions_narrow_what_is_shown(
    visit: Visits, stages: DemoStages
) -> None:
    before, answer = "Ropes are coiled at dusk \U0001f9f5. " * 30, "The zeppelin 🜂 lands at pier nine."
    for floor in (1, 2):
        content = f"{before}{answer} {before}" if floor == 1 else "A zeppelin is none of ours."
        named = {"id": f"zeppelin-{floor}", "name": f"Pier notes {floor}", "content": content}
        stages.index.upsert([Record(tenant_id="saltmarrow", metadata={"floor": floor}, **named)])
    stages.cache.advance("saltmarrow")
    tab = visit().ask("Where does the zeppelin land?", where="floor<2; floor")
    assert tab.titles() == ["Pier notes 1"]
    expect(tab.page.locator(".excerpt .said")).to_have_text(answer)
    tab.page.get_by_text("Why it is here").click()
    expect(tab.page.locator(".whole .said")).to_have_text(answer)
    tab.seen("said")
    tab.page.get_by_label("Only where").fill("hangar=1")
    tab.page.keyboard.press("Enter")
    expect(tab.page.locator("#notices")).to_contain_text("No record has the field “hangar” in its metadata.")
    assert controls(tab)["where"] == ["hangar=1"]


def test_names_are_numbered_as_the_names_that_were_found(visit: Visits) -> None:
    names = visit().ask(ROOT_CAUSE).page.locator(".strand.knowledge")
    expect(names.locator("li").first).to_contain_text("Lisbon label stoppage")
    assert names.locator("li .rank").all_inner_texts()[0] == "1"


def test_a_link_is_copied_without_the_token(visit: Visits) -> None:
    tab = visit(permissions=["clipboard-read", "clipboard-write"]).ask(KEPT, as_of="2024-01-10")
    tab.page.get_by_role("button", name="Copy a link").click()
    expect(tab.page.locator("#said")).to_contain_text("no token")
    copied = tab.page.evaluate("navigator.clipboard.readText()")
    assert parse_qs(urlsplit(copied).fragment) == {"q": [KEPT], "as_of": ["2024-01-10"], "tenant": ["saltmarrow"]}


def test_while_an_answer_is_on_its_way_the_page_says_so(visit: Visits) -> None:
    tab = visit().open()
    tab.page.clock.install()
    held: list[Route] = []
    tab.page.route("**/search", lambda route: route.continue_() if held else held.append(route))
    tab.page.get_by_label("Ask a question").fill(KEPT)
    with tab.page.expect_request("**/search"):
        tab.page.keyboard.press("Enter")
    expect(tab.page.locator("body[data-asking] #said")).to_have_text("Asking …")
    tab.page.clock.fast_forward(5000)
    expect(tab.page.locator("#said")).to_contain_text("Still asking")
    # A tenant with heavy questions is refused for a moment: the page asks again.
    held[0].fulfill(status=429, headers={"Retry-After": "1"}, json={"status": 429})
    expect(tab.page.locator("#said")).to_contain_text("results")
    expect(tab.page.locator("body[data-asking]")).to_have_count(0)


def test_a_long_text_scrolls_in_a_box_of_its_own(visit: Visits, stages: DemoStages) -> None:
    content = "yonder quay " * 3000
    stages.index.upsert([Record(id="long", tenant_id="saltmarrow", name="quay " * 90, content=content)])
    stages.cache.advance("saltmarrow")
    tab = visit(width=390).ask("yonder quay", fusion="weighted")
    result = tab.page.locator("#results > li").filter(has_text="yonder").first
    result.get_by_text("Why it is here").click()
    height = "(box) => box.getBoundingClientRect().height"
    assert result.evaluate(height) < 1200
    assert result.get_by_role("region", name="The whole text").evaluate("(box) => box.scrollHeight > box.clientHeight")


def test_a_text_that_several_documents_have_is_shown_once_with_links_to_the_others(
    visit: Visits, stages: DemoStages
) -> None:
    text = "Walnut shells are burnt in the third oven, which is cleaned on Fridays. " * 4
    stages.index.upsert(
        [Record(id=f"{one}.md#chunk-0", tenant_id="bakery", content=text) for one in ("oven", "oven (copy)")]
    )
    tab = visit().ask("Where are walnut shells burnt?", tenant="bakery")
    assert len(tab.titles()) == 1
    link = tab.page.locator("#results .cite a")
    assert tab.page.locator("#results .cite").last.inner_text().startswith("the same text")
    tab.seen("copies")
    link.click()
    tab.page.get_by_text("which is cleaned on Fridays").first.wait_for()


def test_text_that_is_written_from_right_to_left_is_shown_so_and_leaves_the_rest_in_its_place(
    visit: Visits, stages: DemoStages
) -> None:
    port, text = "ميناء حيفا", "توقفت الرافعات (10:40) في ميناء حيفا."
    stages.index.upsert([Record(id="port", tenant_id="saltmarrow", name=port, content=text, entity_type="Event")])
    vertex = Vertex(id="port", tenant_id="saltmarrow", name=port, entity_type="Event", has_record=True)
    stages.graph.upsert([vertex], [])
    stages.cache.advance("saltmarrow")
    tab = visit().ask(f"لماذا توقفت الرافعات في {port}؟")
    written = "(box) => getComputedStyle(box).direction"
    result = tab.page.locator("#results > li").filter(has_text=text).first
    assert result.locator(".excerpt").evaluate(written) == "rtl"
    assert tab.page.get_by_label("Ask a question").evaluate(written) == "rtl"
    assert tab.page.locator("#summary").evaluate(written) == "ltr"
    expect(tab.page.locator("#summary")).to_contain_text(f"“\u2068{port}\u2069”")


def test_markup_in_a_record_is_shown_and_never_run(visit: Visits, stages: DemoStages) -> None:
    record = Record(
        id=f"hostile-{HOSTILE}",
        tenant_id="saltmarrow",
        name=HOSTILE,
        content=f"zanzibar {HOSTILE}",
        entity_type="Event",
    )
    stages.index.upsert([record])
    stages.cache.advance("saltmarrow")
    tab = visit().ask("zanzibar", fusion="weighted", k="20")
    assert HOSTILE in tab.titles()
    assert tab.page.locator("#answer img, #results b").count() == 0
    assert tab.page.title() == "zanzibar – Braid"
    result = tab.page.locator("#results > li").filter(has_text=HOSTILE)
    result.get_by_text("Why it is here").click()
    result.get_by_role("button", name="Its relations").click()
    expect(tab.page.locator("#entity h3")).to_have_text(HOSTILE)
