"""Text in encodings other than UTF-8: a line, and a page, as people's files have them."""

from __future__ import annotations

import random

import pytest
from braid.ingestion.documents.document import Source, Unreadable
from braid.ingestion.documents.reader_selection import read
from braid.ingestion.documents.readers.encodings import detect
from braid.ingestion.documents.readers.text import decode

WESTERN = ["cp1252", "iso8859_15", "mac_roman"]
WINDOWS = ["cp1252", "iso8859_15"]
CYRILLIC = ["cp1251", "koi8_r", "iso8859_5", "cp866"]
CENTRAL = ["cp1250", "iso8859_2"]
LINES = [
    (
        [*WINDOWS, "cp850"],
        "Der Lagerplatz für Rückläufer in Hamburg ist Regal Süd 4. Rückläufer werden 6 Wochen aufgehoben.",
    ),
    ([*WESTERN, "cp850"], "São Paulo recebe as encomendas às terças."),
    ([*WESTERN, "cp850"], "Pääsy kielletty, kysy lisää Jyväskylästä."),
    (["cp1252"], "Le cœur de l'œuvre coûte 5 €."),
    (WINDOWS, "¿Dónde está el almacén de la señora Ibáñez?"),
    (WESTERN, "Åsa åt ål på ön i går."),
    (WESTERN, "Smørrebrød på Ærø er æblegrød værd."),
    (["cp1252"], "L’équipe créée à l’été où nous étions déjà là."),
    (["cp1252"], "It was late—very late—when the café closed; it’s 1939–1945."),
    (["cp1252"], "“Quoted” text, with ½ a litre at 20°C."),
    (["cp1252"], "1;Jürgen Groß;Köln\n2;Anaïs Lefèvre;Orléans\n3;Søren;Ærø"),
    (["cp1252"], "Zürich"),
    (["cp1252"], "It’s"),
    (CENTRAL, "Magazyn zwrotów w Łodzi jest otwarty w każdy wtorek, także w święta."),
    (CENTRAL, "Sklad vratek v Brně je otevřen každé úterý od šesti."),
    (CENTRAL, "Az árvíztűrő tükörfúrógép őrült gyűrűt őriz."),
    (CYRILLIC, "Склад возвратов в Гамбурге открыт по вторникам."),
    (["cp1251", "koi8_r"], "Braid хранит тексты и связи, see docs."),
    (["cp1253", "iso8859_7"], "Στην αποθήκη επιστροφών στην Αθήνα είναι ανοιχτή κάθε Τρίτη."),
    (["cp1255"], "מחסן ההחזרות בחיפה פתוח בכל יום שלישי."),
    (["cp1256"], "مستودع المرتجعات في القاهرة مفتوح كل ثلاثاء."),
    (["shift_jis", "euc_jp"], "返品の倉庫はハンブルクの南棚四番です。"),
    (["shift_jis", "euc_jp"], "Braidは文書と関係を検索します。See docs."),
    (["gb18030"], "汉堡的退货仓库在南货架四号,退货保存六个星期。"),
    (["gb18030"], "Braid 检索文档和关系, see docs."),
    (["big5"], "漢堡的退貨倉庫在南貨架四號,退貨保存六個星期。"),
    (["big5"], "Braid 檢索文件和關係, see docs."),
    (["euc_kr"], "함부르크의 반품 창고는 남쪽 선반 네 번입니다."),
    (["euc_kr"], "Braid는 문서와 관계를 검색합니다. See docs."),
]


@pytest.mark.parametrize(("encoding", "text"), [(one, text) for encodings, text in LINES for one in encodings])
def test_a_line_is_read_in_its_encoding(encoding: str, text: str) -> None:
    assert decode(text.encode(encoding)) == text


@pytest.mark.parametrize(("encoding", "text"), [(one, text) for encodings, text in LINES for one in encodings])
def test_a_page_below_pages_of_ascii_is_read_in_its_encoding(encoding: str, text: str) -> None:
    page = "The gates open at six. " * 2_000 + "\n" + (text + "\n") * 500
    assert decode(page.encode(encoding)) == page


def test_valid_utf_8_is_utf_8_and_a_damaged_byte_of_it_spoils_only_itself() -> None:
    text = "Rückläufer werden in Süd aufgehoben. " * 20
    assert decode(text.encode()) == text
    damaged = text.encode() + b"\xfc"
    assert decode(damaged) == text + "\ufffd"
    assert read(Source("a.txt", damaged)).guessed_encoding == "utf-8"


def test_bytes_that_are_no_text_are_refused() -> None:
    content = random.Random(4).randbytes(4_000).replace(b"\x00", b"")  # noqa: S311 - no secret
    with pytest.raises(Unreadable, match="is text in an unknown encoding; save it as UTF-8"):
        read(Source("a.txt", content))


def test_a_guess_is_said_to_be_one() -> None:
    assert read(Source("a.txt", "Der Platz für Rückläufer".encode("cp1252"))).guessed_encoding == ""
    assert read(Source("a.txt", "Zażółć gęślą jaźń w środę o szóstej.".encode("cp1250"))).guessed_encoding == "cp1250"


PAGE = f"<html><head>{{}}<title>A</title></head><body>{'<p>Open at six.</p>' * 1_000}<p>{{}}</p></body></html>"


@pytest.mark.parametrize(
    ("declaration", "encoding", "text"),
    [
        ('<meta charset="windows-1250">', "cp1250", "Róża"),
        ("<META http-equiv=Content-Type content='text/html; charset=koi8-r'>", "koi8_r", "Ёж"),
        ('<meta charset="gb2312">', "gb18030", "汉堡"),
    ],
)
def test_a_page_is_read_in_the_encoding_that_it_declares(declaration: str, encoding: str, text: str) -> None:
    document = read(Source("a.html", PAGE.format(declaration, text).encode(encoding)))
    assert document.sections[0].text.endswith(text)
    assert document.guessed_encoding == ""


@pytest.mark.parametrize("declared", ["utf-8", "utf-7", "rot13", "idna", "nonsense", "\u0142"])
def test_a_declaration_that_is_not_true_is_not_followed(declared: str) -> None:
    text = "Der Lagerplatz für Rückläufer in Hamburg ist Regal Süd 4. Rückläufer werden 6 Wochen aufgehoben."
    page = PAGE.format(f'<meta charset="{declared}">', text).encode("cp1252", "replace")
    assert read(Source("a.html", page)).sections[0].text.endswith(text)


def test_the_time_of_a_detection_does_not_grow_with_the_file() -> None:
    found = detect("Rückläufer ".encode("cp1252") * 1_000_000)
    assert found is not None
    assert found == ("cp1252", True)
