"""Text that a document's reader would not see is in no text of its records, and looking for it takes linear time."""

from __future__ import annotations

import io
import sys
import time

import pytest
from braid.ingestion.documents.document import Source, Unreadable
from braid.ingestion.documents.reader_selection import read
from braid.ingestion.documents.readers.html import text_of

ORDER = "Obey"


def texts(name: str, content: bytes | str) -> str:
    found = read(Source(name, content if isinstance(content, bytes) else content.encode()))
    return "\n".join([found.title, *(part for one in found.sections for part in (*one.heading, one.text))])


@pytest.mark.parametrize(
    "hiding",
    [
        "Open <!-- Obey --> always",
        "Open <span style='color:red; display:none'>Obey</span> always",
        "Open <span hidden>one <b>Obey</b> <span>Obey</span></span> always",
        "<div hidden>\n\nObey\n\n## Obey\n\n    Obey\n\n</div>\n\nalways",
        "<!--\n\nObey\n\n<div hidden>\n\n-->\n\nalways",
        "# Gates <!-- Obey -->\n\nalways",
        "| a | b |\n|---|---|\n| <i aria-hidden=TRUE>Obey</i> | always |",
        "always\n\n<div title='>' hidden>\n\nObey",
        "Open <b hidden>Obey\n\nalways",
    ],
)
def test_what_html_in_markdown_does_not_show_is_left_out(hiding: str) -> None:
    found = texts("a.md", hiding)
    assert ORDER not in found
    assert "always" in found


@pytest.mark.parametrize(
    "shown",
    [
        "Write `<div hidden>` before Obey",
        "Write ``<!--`` before Obey",
        "```\n<div hidden>\n```\n\nObey",
        "    <div hidden>\n\nObey",
        "A comment begins with <!-- here.\n\nObey",
        "An <input hidden> and Obey",
        "Map<object> and a <b>hidden</b> Obey",
        "<div title='hidden'>Obey</div>",
    ],
)
def test_what_markdown_shows_is_kept(shown: str) -> None:
    assert ORDER in texts("a.md", shown)


def test_hidden_html_is_left_out_without_the_extra_for_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "selectolax.lexbor", None)
    assert text_of("<p>Open</p><div hidden>Obey</div>").split() == ["Open"]


def test_hidden_text_of_word_is_left_out() -> None:
    import docx

    file, out = docx.Document(), io.BytesIO()
    paragraph = file.add_paragraph("Open ")
    paragraph.add_run("Obey ").font.hidden = True
    paragraph.add_run("always")
    cell = file.add_table(1, 1).cell(0, 0).paragraphs[0]
    cell.add_run("Obey").font.hidden = True
    cell.add_run("Shut")
    file.save(out)
    found = texts("a.docx", out.getvalue())
    assert ORDER not in found
    assert "Open always" in found
    assert "Shut" in found


def test_hidden_slides_are_left_out() -> None:
    import pptx

    file, out = pptx.Presentation(), io.BytesIO()
    for text in ("Open", "Obey", "Shut"):
        slide = file.slides.add_slide(file.slide_layouts[5])
        slide.shapes.title.text = text
        if text == ORDER:
            slide._element.set("show", "0")
    file.save(out)
    found = read(Source("a.pptx", out.getvalue()))
    assert [(section.text, section.page) for section in found.sections] == [("Open", 1), ("Shut", 3)]


@pytest.mark.parametrize("state", ["hidden", "veryHidden"])
def test_hidden_sheets_are_left_out(state: str) -> None:
    import openpyxl

    book, out = openpyxl.Workbook(), io.BytesIO()
    for name, text in (("Gates", "Open"), ("Other", "Obey")):
        sheet = book.create_sheet(name)
        sheet.append(["what", "when"])
        sheet.append([text, "always"])
    book["Other"].sheet_state = state
    book.save(out)
    found = texts("a.xlsx", out.getvalue())
    assert ORDER not in found
    assert "Open" in found


@pytest.mark.parametrize(
    "piece",
    ["<b hidden>", "<b hidden></b>", "<!-- ", "<a \"'", "<a '", "<a \"'<a '\"", "`<", "``a", "<a b=", "\n \n", "<a\t"],
)
def test_hidden_text_is_looked_for_in_linear_time(piece: str) -> None:
    began = time.perf_counter()
    texts("a.md", "a " + piece * (300_000 // len(piece)) + "\n\nEnd")
    assert time.perf_counter() - began < 5  # seconds; the slowest takes less than one here


def test_many_texts_deep_inside_of_others_are_read_in_linear_time() -> None:
    began = time.perf_counter()
    texts("a.html", "<p>" + "<b>" * 1_900 + "a<br>" * 40_000)
    assert time.perf_counter() - began < 5  # seconds; 34 when each looked for its block


@pytest.mark.parametrize("piece", ['<div title="</div>">', "<div><!--</div>-->"])
def test_an_end_in_a_value_or_a_comment_does_not_end_an_element(piece: str) -> None:
    with pytest.raises(Unreadable, match="nests its elements"):
        read(Source("a.html", (piece * 3_000 + "x").encode()))


@pytest.mark.parametrize("first", [0xE0000, 0xE0100])
def test_words_of_characters_that_nobody_sees_are_left_out(first: int) -> None:
    unseen = "".join(chr(first + ord(letter)) for letter in ORDER)
    for name in ("a.md", "a.txt", "a.html", "a.json"):
        content = f'{{"text": "Open{unseen} always"}}' if name.endswith("json") else f"<p>Open{unseen} always"
        assert sum(letter in unseen for letter in texts(name, content)) <= 1


def test_flags_and_variations_of_characters_are_kept() -> None:
    shown = "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f \u2764\ufe0f \u845b\U000e0100"
    assert shown in read(Source("a.md", f"Open {shown} always".encode())).sections[0].text
