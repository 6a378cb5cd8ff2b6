"""Writes the demo folder's binary files (PDF, DOCX, XLSX): ``python -m braid_cli.demo.wrenfield_files``.

Their content is in this module, where it can be read and compared.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).resolve().parent / "wrenfield"
WRITTEN: Final = datetime(2024, 4, 11, 15, 0, tzinfo=UTC)
INSPECTION: Final = (
    (
        "Inspection of Wrenfield Lock, 15 March 2024",
        "Inspector: Maud Halloran. Present: Orla Fenwick, duty engineer.",
        "",
        "The lock was pumped dry at nine. Gates 1 to 3 open and shut as they",
        "should. Their actuators hold 140 bar for an hour, and lose two.",
    ),
    (
        "Gate 4",
        "",
        "The piston seal of the Tolland actuator has swollen and torn over a",
        "third of its round. What is left is soft and comes off on the finger.",
        "The rod is bent by four millimetres: somebody has used the windlass.",
        "",
        "The seal bears the stamp SB-17. It was fitted in January, eight weeks",
        "before it failed. Seals of this kind last for ten years.",
    ),
    (
        "What is to be done",
        "",
        "Every seal with the stamp SB-17 is to come out before Easter, wherever",
        "it was fitted. The oil is not at fault: a seal of 2019 lay in the same",
        "oil for a week and did not change.",
    ),
)
PARTS: Final = (
    ("part", "stamp", "supplier", "fitted in", "fitted on", "price in pounds"),
    ("Piston seal 80 mm", "SB-09", "Ostrey & Daughter", "Wrenfield Lock gate 1", "2019-05-02", 38),
    ("Piston seal 80 mm", "SB-17", "Marrick Seals", "Wrenfield Lock gate 4", "2024-01-18", 21),
    ("Piston seal 80 mm", "SB-17", "Marrick Seals", "Dunmere Lock gate 2", "2024-01-23", 21),
    ("Actuator rod 45 mm", "AR-03", "Tolland Hydraulics", "Wrenfield Lock gate 4", "2011-09-14", 940),
    ("Paddle gear", "PG-22", "Ostrey & Daughter", "Dunmere Lock gate 1", "2022-11-30", 415),
)
MINUTES: Final = (
    (0, "Minutes of the trustees, 11 April 2024"),
    (1, "Why the gate failed"),
    (
        2,
        (
            "Marrick Seals have written that they changed the compound of their seals in December and told nobody. "
            "The new one does not bear vegetable oil, which is all that the trust has used since the fish died at "
            "Dunmere in 2016."
        ),
    ),
    (1, "What was decided"),
    (2, "All seals are bought from Ostrey & Daughter again, at the higher price. Tobias Quill cancels the contract."),
    (2, "The windlasses are locked away. Only the duty engineer has the key."),
    (1, "Money"),
    (2, "The closure cost 11,300 pounds in tolls. Marrick Seals offer 4,000; the trustees ask for all of it."),
)

_PAGE: Final = "/MediaBox [0 0 595 842] /Resources << /Font << /F1 3 0 R >> >>"


def main() -> None:
    """Write the files."""
    (FOLDER / "inspection.pdf").write_bytes(pdf(INSPECTION))
    _docx(FOLDER / "minutes.docx")
    _xlsx(FOLDER / "parts.xlsx")


def pdf(pages: tuple[tuple[str, ...], ...]) -> bytes:
    """Return a PDF of pages of lines."""
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, page in enumerate(pages):
        lines = "".join(f"({line}) Tj T*\n" for line in page)
        text = f"BT /F1 12 Tf 16 TL 72 760 Td\n{lines}ET"
        objects += [
            f"<< /Type /Page /Parent 2 0 R {_PAGE} /Contents {5 + 2 * number} 0 R >>",
            f"<< /Length {len(text)} >>\nstream\n{text}\nendstream",
        ]
    objects.append("<< /Title (Inspection of Wrenfield Lock) /Author (Maud Halloran) /ModDate (D:20240315170000Z) >>")
    out, offsets = "%PDF-1.4\n", list[int]()
    for number, content in enumerate(objects, start=1):
        offsets.append(len(out))
        out += f"{number} 0 obj\n{content}\nendobj\n"
    table = "".join(f"{offset:010d} 00000 n \n" for offset in offsets)
    end = (
        f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R /Info {len(objects)} 0 R >>\nstartxref\n{len(out)}\n%%EOF\n"
    )
    return f"{out}xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}{end}".encode("latin-1")


def _docx(path: Path) -> None:
    import docx

    file = docx.Document()
    for level, text in MINUTES:
        if level == 2:  # noqa: PLR2004 - below the title and the headings
            file.add_paragraph(text)
        else:
            file.add_heading(text, level)
    stated = file.core_properties
    stated.title, stated.author, stated.modified, stated.created = MINUTES[0][1], "Tobias Quill", WRITTEN, WRITTEN
    file.save(str(path))


def _xlsx(path: Path) -> None:
    import openpyxl

    book = openpyxl.Workbook()
    sheet = book.worksheets[0]
    sheet.title = "Parts fitted"
    for row in PARTS:
        sheet.append(row)
    book.properties.title, book.properties.creator = "Parts fitted in locks", "Orla Fenwick"
    book.save(path)


if __name__ == "__main__":
    main()
