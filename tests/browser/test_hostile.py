"""The explorer shows ids, names, fields and files that are meant to trick a page, and nothing of them runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from braid.ingestion.writing import write
from braid.models import Record, Relationship, SourceRef, Vertex
from braid.ports.ingestion import WriteRequest
from playwright.sync_api import expect

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Dialog

    from tests.browser.conftest import Visit
    from tests.stages import DemoStages

    Visits = Callable[..., Visit]

TENANT = "tricks"
RUNS = "javascript:document.title='run'"
IDS = ("__proto__", "constructor", "toString", "a/../b?c#d&tenant=port", RUNS, "//evil.example/x")
FIELDS = ("__proto__", "constructor", "toString", "valueOf")
TYPES = ("constructor", "toString", "propertyIsEnumerable")


@pytest.fixture(scope="module", autouse=True)
def tricks(stages: DemoStages) -> None:
    """Store what is named as a script, as markup, and as what every object of the language has."""
    script = "</script><script>document.title='run'</script>"
    records = tuple(
        Record(
            id=identity,
            tenant_id=TENANT,
            name=f"{identity} \u202egnp.exe",
            content=f"The zanzibar ferry number {place} leaves {RUNS} [now]({RUNS}) {script}",
            source=SourceRef(title=RUNS),
            metadata=dict.fromkeys(FIELDS, RUNS),
        )
        for place, identity in enumerate(IDS)
    )
    vertices = [Vertex(id="run", tenant_id=TENANT, name=RUNS)]
    vertices += [Vertex(id=f"v:{kind}", tenant_id=TENANT, name=f"The {kind}", entity_type=kind) for kind in TYPES]
    edges = [Relationship(tenant_id=TENANT, source=f"v:{kind}", type=kind, target="run") for kind in TYPES]
    request = WriteRequest(tenant_id=TENANT, records=records, vertices=tuple(vertices), relationships=tuple(edges))
    assert write(request, stages).errors == ()


def assert_nothing_ran(tab: Visit) -> None:
    """Besides, the page's links lead nowhere but into the page; the fixture finds requests elsewhere."""
    assert tab.page.title() != "run"
    addresses = tab.page.eval_on_selector_all("a[href]", "links => links.map((one) => one.getAttribute('href'))")
    assert [one for one in addresses if not one.startswith("#")] == []
    assert tab.page.locator("main script, main img").count() == 0


def test_answers_are_shown_judged_and_narrowed_down(visit: Visits) -> None:
    tab = visit().ask("zanzibar ferry", tenant=TENANT, k="20")
    expect(tab.page.locator("#results > li")).to_have_count(len(IDS))
    for answers in tab.page.locator("#results .thumb[title*='This answers']").all():
        answers.click()
        expect(answers).to_have_attribute("aria-pressed", "true")
    tab.page.locator("#facets summary").click()
    tab.page.locator("#facet-fields button").first.click()
    tab.page.wait_for_load_state("networkidle")
    assert_nothing_ran(tab)


@pytest.mark.parametrize("identity", IDS)
@pytest.mark.parametrize("kind", ["entity", "document"])
def test_each_has_a_page(visit: Visits, kind: str, identity: str) -> None:
    tab = visit().open(tenant=TENANT, **{kind: identity})
    expect(tab.page.locator("#stored .facts").first).to_contain_text(identity)
    tab.page.wait_for_load_state("networkidle")
    assert_nothing_ran(tab)


@pytest.mark.parametrize("wanted", [True, False])
def test_a_token_of_a_link_is_used_elsewhere_than_on_ones_own_machine_only_if_it_is_wanted(
    visit: Visits, wanted: bool
) -> None:
    tab = visit()
    asked: list[str] = []

    def decide(dialog: Dialog) -> None:
        asked.append(dialog.message)
        dialog.accept() if wanted else dialog.dismiss()

    tab.page.on("dialog", decide)
    elsewhere = tab.address.replace("127.0.0.1", "braid.localhost")
    tab.other_addresses.append(elsewhere)
    tab.page.goto(tab.link(tenant=TENANT).replace(tab.address, elsewhere))
    whose = TENANT if wanted else "No token yet"
    expect(tab.page.locator("#whose")).to_have_text(whose)
    tab.page.wait_for_load_state("networkidle")
    assert "token" not in tab.page.url
    tab.page.reload()
    expect(tab.page.locator("#whose")).to_have_text(whose)
    assert len(asked) == 1
    assert f'"{TENANT}"' in asked[0]
    assert bool(tab.page.evaluate("sessionStorage.getItem('braid-token')")) == wanted


def test_entities_that_are_called_like_parts_of_paths_leave_the_first_page_whole(
    visit: Visits, stages: DemoStages
) -> None:
    dots = [
        Vertex(id=identity, tenant_id="dots", name=f"Dot {identity}", entity_type="Dot") for identity in (".", "..")
    ]
    edges = [Relationship(tenant_id="dots", source=".", type="BELOW", target="..")]
    assert write(WriteRequest(tenant_id="dots", vertices=tuple(dots), relationships=tuple(edges)), stages).errors == ()
    tab = visit().open(tenant="dots")
    tab.page.locator("#names li").first.wait_for()
    tab.page.wait_for_load_state("networkidle")
    expect(tab.page.locator("#names li")).to_have_count(2)
    expect(tab.page.locator("#store")).to_be_visible()
    expect(tab.page.get_by_role("alert")).to_have_count(0)


def test_entities_that_are_called_like_parts_of_paths_have_pages_with_their_relations(
    visit: Visits, stages: DemoStages
) -> None:
    vertices = [Vertex(id=identity, tenant_id="dots", name=f"Dot {identity}") for identity in (".", "..")]
    edges = [Relationship(tenant_id="dots", source=".", type="BELOW", target="..")]
    write(WriteRequest(tenant_id="dots", vertices=tuple(vertices), relationships=tuple(edges)), stages)
    for identity, other in ((".", ".."), ("..", ".")):
        tab = visit().open(tenant="dots", entity=identity)
        expect(tab.page.locator("#stored-title")).to_have_text(f"Dot {identity}")
        expect(tab.page.locator(".known li")).to_contain_text(f"Dot {other}")


def test_types_that_are_called_as_what_every_object_has_are_words(visit: Visits) -> None:
    tab = visit().open(tenant=TENANT)
    tab.page.locator("#names li").first.wait_for()
    tab.page.locator("#begin button").first.wait_for()
    assert "object" not in " ".join(tab.page.locator("#begin button").all_inner_texts())
    for kind in TYPES:
        tab.open(tenant=TENANT, entity=f"v:{kind}")
        expect(tab.page.locator("#stored-title")).to_have_text(f"The {kind}")
        expect(tab.page.locator(".known li")).to_have_text(f"{kind.lower()} → {RUNS}")
        tab.open(tenant=TENANT, entity="run")
        expect(tab.page.locator("#stored-title")).to_have_text(RUNS)
        expect(tab.page.locator(".known")).to_contain_text(f"The {kind}")
    assert_nothing_ran(tab)


def test_names_of_files_are_shown_and_refused_in_a_line_each(visit: Visits) -> None:
    tab = visit().open(tenant="uploads")
    tab.page.locator("#upload").wait_for()
    markup, refused = '"><img src=x onerror=document.title="run">.md', ("..", "\u0000.md", "a//b.md")
    names = (markup, "a\u202egpj.md", "%2e%2e%2fx.md", "__proto__", *refused)
    content = b"# Ferry\n\nThe ferry leaves. <script>document.title='run'</script>"
    tab.page.locator("#files").set_input_files(
        [{"name": name, "mimeType": "text/html", "buffer": content} for name in names]
    )
    expect(tab.page.locator("#uploads [data-state=done]")).to_have_count(len(names) - len(refused), timeout=30_000)
    expect(tab.page.locator("#uploads [data-state=refused]")).to_have_count(len(refused))
    assert markup in tab.page.locator("#uploads").inner_text()
    assert_nothing_ran(tab)
