"""The numbers of a DOCX's numbered paragraphs and headings, such as "4.2" or "(b)", which Word counts as it shows them.

Not counted are restarts after chosen levels (``lvlRestart``) and lists that are linked to a style of lists.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_LEVELS: Final = 9
_LONGEST: Final = 40
"""Most characters of a number as it is shown; its text is the file's own."""
_MOST: Final = 9_999
_NONE: Final = -1
"""Count of a level that has no number yet; a list may begin with 0."""
_STYLES_ABOVE: Final = 10
"""Most styles that a style is based on, one on the other."""
_PLACE: Final = re.compile(r"%([1-9])")
_ROMAN: Final = (
    *((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"), (10, "x")),
    *((9, "ix"), (5, "v"), (4, "iv"), (1, "i")),
)


class _Level(NamedTuple):
    format: str = "none"
    text: str = ""
    start: int = 1
    style: str = ""
    legal: bool = False
    """Whether the numbers of levels above are shown in digits too."""


class _Numbered(NamedTuple):
    """What a paragraph or style states: the list, and the level in it from 0."""

    list: str | None
    level: str | None


class Numbering:
    """Counts the numbered paragraphs of one document, which are to be given in their order."""

    def __init__(self, file: Any) -> None:  # noqa: ANN401 - a document of python-docx
        self._levels: dict[str, dict[int, _Level]] = {}
        """Of each list, as its definition states them or the list itself."""
        self._lists: dict[str, str] = {}
        """The definition of each list; several lists of one definition are counted on."""
        self._starts: dict[str, dict[int, int]] = defaultdict(dict)
        """Where a list begins anew, by its levels, until it has."""
        self._counts: dict[str, list[int]] = defaultdict(lambda: [_NONE] * _LEVELS)
        for part in related_parts(file, "/numbering"):
            self._read(part)
        self._styles = dict(_styles(file)) if self._lists else {}

    def _read(self, part: Any) -> None:  # noqa: ANN401 - an element of lxml
        defined = {_of(one, "abstractNumId"): dict(_levels(one)) for one in part.iter(_w("abstractNum"))}
        for one in part.iter(_w("num")):
            identity = _of(one, "numId")
            self._lists[identity] = _value(one, "abstractNumId") or ""
            self._levels[identity] = defined.get(self._lists[identity], {})
            for override in one.iterchildren(_w("lvlOverride")):
                self._levels[identity] = {**self._levels[identity], **dict(_levels(override))}
                if (start := _value(override, "startOverride")) is not None:
                    self._starts[identity][_whole(_of(override, "ilvl"))] = _whole(start, 1)

    def of(self, paragraph: Any) -> str:  # noqa: ANN401 - an element of python-docx
        """Return the number that is shown before a paragraph; empty if it has none, or a bullet."""
        if not self._lists:
            return ""
        own = _numbered(paragraph.pPr)
        style = paragraph.style or ""
        inherited = self._styles.get(style, _Numbered(None, None))
        identity = own.list or inherited.list
        levels = self._levels.get(identity or "", {})
        by_style = next((number for number, level in levels.items() if level.style and level.style == style), 0)
        stated = own.level or (inherited.level if own.list is None else None)
        number = by_style if stated is None else _whole(stated)
        if identity is None or number not in levels:
            return ""
        return self._next(identity, number, levels)

    def _next(self, identity: str, number: int, levels: dict[int, _Level]) -> str:
        counts = self._counts[self._lists[identity]]
        anew = self._starts[identity].pop(number, None)
        begun = counts[number] != _NONE and anew is None
        counts[number] = counts[number] + 1 if begun else levels[number].start if anew is None else anew
        counts[number + 1 :] = [_NONE] * (_LEVELS - number - 1)
        level = levels[number]
        if level.format in {"bullet", "none"}:
            return ""

        def shown(place: re.Match[str]) -> str:
            at = int(place[1]) - 1
            above = levels.get(at, _Level())
            form = "decimal" if level.legal and above.format != "decimalZero" else above.format
            return _written(above.start if counts[at] == _NONE else counts[at], form)

        return _PLACE.sub(shown, level.text[:_LONGEST])[:_LONGEST].strip()


def _levels(stated: Any) -> Iterator[tuple[int, _Level]]:  # noqa: ANN401 - an element of lxml
    for level in stated.iterchildren(_w("lvl")):
        if (number := _whole(_of(level, "ilvl"))) < _LEVELS:
            yield (
                number,
                _Level(
                    _value(level, "numFmt") or "decimal",
                    _value(level, "lvlText") or "",
                    _whole(_value(level, "start"), 1),
                    _value(level, "pStyle") or "",
                    level.find(_w("isLgl")) is not None,
                ),
            )


def related_parts(file: Any, *kinds: str) -> Iterator[Any]:  # noqa: ANN401 - a document of python-docx
    """Yield the XML of the parts that a document has by relationships whose types end with these."""
    from docx.oxml import parse_xml

    for relation in file.part.rels.values():
        if relation.reltype.endswith(kinds) and not relation.is_external:
            yield parse_xml(relation.target_part.blob)


def _styles(file: Any) -> Iterator[tuple[str, _Numbered]]:  # noqa: ANN401 - a document of python-docx
    """Yield the list of each style that states one, or whose base does."""
    stated = {
        _of(style, "styleId"): (_numbered(style.find(_w("pPr"))), _value(style, "basedOn"))
        for style in file.styles.element.iter(_w("style"))
    }
    for name in stated:
        above: str | None = name
        for _ in range(_STYLES_ABOVE):
            numbered, base = stated.get(above or "", (_Numbered(None, None), None))
            if numbered.list is not None:
                yield name, numbered
            if numbered.list is not None or base is None:
                break
            above = base


def _numbered(properties: Any) -> _Numbered:  # noqa: ANN401 - an element of lxml, or None
    stated = None if properties is None else properties.find(_w("numPr"))
    return _Numbered(None, None) if stated is None else _Numbered(_value(stated, "numId"), _value(stated, "ilvl"))


def _w(name: str) -> str:
    from docx.oxml.ns import qn

    return qn(f"w:{name}")


def _value(element: Any, name: str) -> str | None:  # noqa: ANN401 - an element of lxml
    child = element.find(_w(name))
    return None if child is None else child.get(_w("val"))


def _of(element: Any, name: str) -> str:  # noqa: ANN401 - an element of lxml
    return str(element.get(_w(name), ""))


def _whole(text: str | None, otherwise: int = 0) -> int:
    return min(int(text), _MOST) if text and text.isascii() and text.isdecimal() and len(text) < _LONGEST else otherwise


def _written(number: int, form: str) -> str:
    match form:
        case "lowerLetter" | "upperLetter" if number:
            text = chr(ord("a") + (number - 1) % 26) * min((number - 1) // 26 + 1, _LONGEST)
        case "lowerRoman" | "upperRoman":
            text, left = "", number
            for value, sign in _ROMAN:
                text, left = text + sign * (left // value), left % value
        case "decimalZero":
            text = f"{number:02}"
        case "none" | "bullet":
            text = ""
        case _:
            text = str(number)
    return text.upper() if form.startswith("upper") else text
