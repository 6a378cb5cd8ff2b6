"""Draws small line charts with logarithmic axes as one SVG: growth with the number of records."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

COLUMNS = 4
WIDTH, HEIGHT = 250, 190
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 16, 30, 30
_HEAD = 58
COLOURS = ("#0b6e99", "#c2571a", "#5b5b5b")
_INK, _FAINT = "#222222", "#d9d9d9"


@dataclass(frozen=True)
class Chart:
    """One chart."""

    title: str
    lines: Mapping[str, Sequence[tuple[float, float]]]
    """(x, y) by the name of the line; both above 0."""
    bands: Mapping[str, Sequence[tuple[float, float]]]
    """A second, dashed line by the same names; empty for none."""


def as_svg(title: str, note: str, charts: Sequence[Chart]) -> str:
    """Return charts side by side under one title and one legend."""
    names = list(dict.fromkeys(name for chart in charts for name in chart.lines))
    colours = dict(zip(names, COLOURS, strict=False))
    rows = math.ceil(len(charts) / COLUMNS)
    width, height = COLUMNS * WIDTH, _HEAD + rows * HEIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
        f'<g font-family="Helvetica, Arial, sans-serif" font-size="11" fill="{_INK}">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<text x="12" y="22" font-size="15" font-weight="bold">{escape(title)}</text>',
        f'<text x="12" y="42">{escape(note)}</text>',
    ]
    for number, name in enumerate(names):
        x = width - 110 * (len(names) - number)
        parts += [
            f'<line x1="{x}" y1="18" x2="{x + 22}" y2="18" stroke="{colours[name]}" stroke-width="2.5"/>',
            f'<text x="{x + 28}" y="22">{escape(name)}</text>',
        ]
    for number, chart in enumerate(charts):
        x, y = number % COLUMNS * WIDTH, _HEAD + number // COLUMNS * HEIGHT
        parts += [f'<g transform="translate({x} {y})">', *_chart(chart, colours), "</g>"]
    return "\n".join([*parts, "</g>", "</svg>"]) + "\n"


def _chart(chart: Chart, colours: Mapping[str, str]) -> list[str]:
    points = [point for group in (chart.lines, chart.bands) for line in group.values() for point in line]
    across = _Axis([x for x, _ in points], _LEFT, WIDTH - _RIGHT, whole=False)
    upward = _Axis([y for _, y in points], HEIGHT - _BOTTOM, _TOP, whole=True)
    parts = [f'<text x="{_LEFT}" y="20" font-weight="bold">{escape(chart.title)}</text>']
    for value in upward.ticks():
        y = upward.place(value)
        parts += [
            f'<line x1="{_LEFT}" y1="{y}" x2="{WIDTH - _RIGHT}" y2="{y}" stroke="{_FAINT}"/>',
            f'<text x="{_LEFT - 5}" y="{y + 4}" text-anchor="end">{_short(value)}</text>',
        ]
    for value in sorted({x for x, _ in points}):
        x = across.place(value)
        parts += [
            f'<line x1="{x}" y1="{HEIGHT - _BOTTOM}" x2="{x}" y2="{HEIGHT - _BOTTOM + 4}" stroke="{_INK}"/>',
            f'<text x="{x}" y="{HEIGHT - _BOTTOM + 17}" text-anchor="middle">{_short(value)}</text>',
        ]
    for group, dash in (
        (chart.bands, ' stroke-dasharray="3 3" stroke-width="1.2"'),
        (chart.lines, ' stroke-width="2.2"'),
    ):
        for name, line in group.items():
            places = [(across.place(x), upward.place(y)) for x, y in sorted(line)]
            drawn = " ".join(f"{x},{y}" for x, y in places)
            parts.append(f'<polyline points="{drawn}" fill="none" stroke="{colours[name]}"{dash}/>')
            if group is chart.lines:
                parts += [f'<circle cx="{x}" cy="{y}" r="2.8" fill="{colours[name]}"/>' for x, y in places]
    return parts


class _Axis:
    """A logarithmic axis from one pixel to another; a whole one begins and ends at a power of ten."""

    def __init__(self, values: Sequence[float], first: float, last: float, *, whole: bool) -> None:
        low, high = math.log10(min(values)), math.log10(max(values))
        if whole:
            low, high = math.floor(low + 1e-9), math.ceil(high - 1e-9)
        if high <= low:
            low, high = low - 0.5, low + 0.5
        self._low, self._high, self._first, self._last = low, high, first, last

    def place(self, value: float) -> float:
        share = (math.log10(value) - self._low) / (self._high - self._low)
        return round(self._first + share * (self._last - self._first), 1)

    def ticks(self) -> list[float]:
        return [10.0**power for power in range(math.ceil(self._low), math.floor(self._high) + 1)]


def _short(value: float) -> str:
    """Write 1000 as 1k."""
    for divisor, unit in ((1e6, "M"), (1e3, "k")):
        if value >= divisor:
            return f"{value / divisor:g}{unit}"
    return f"{value:g}"
