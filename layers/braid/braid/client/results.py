"""Search results and facts of the client, with their display in terminals and notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape as escape_html
from typing import TYPE_CHECKING, Final, overload

from braid.models import Frozen, Label, Name, RecordId, Score, Source, in_words
from braid.models.enums_and_scalars import on_one_line
from braid.understanding.question_relations import sentence

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from braid.models import Answer, Citation, GraphHit, Result


STRANDS: Final = {
    Source.VECTOR: "vectors",
    Source.LEXICAL: "words",
    Source.KNOWLEDGE: "names",
    Source.GRAPH: "graph",
}
"""Display names of the strands."""


class Results(Sequence["Result"]):
    """The results of one question, best first.

    Attributes
    ----------
    answer
        The whole answer: plan, citations, related entities, degraded stages, timings.
    """

    def __init__(self, question: str, answer: Answer) -> None:
        self.question = question
        self.answer = answer

    @overload
    def __getitem__(self, place: int) -> Result: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Result]: ...
    def __getitem__(self, place: int | slice) -> Result | Sequence[Result]:
        return self.answer.results[place]

    def __len__(self) -> int:
        return len(self.answer.results)

    def __iter__(self) -> Iterator[Result]:
        return iter(self.answer.results)

    @property
    def confidence(self) -> float:
        """Chance that one of the first five results answers the question."""
        return self.answer.confidence

    @property
    def degraded(self) -> tuple[str, ...]:
        """Names of the stages that failed; the question was answered without them."""
        return self.answer.degraded

    @property
    def citations(self) -> tuple[Citation, ...]:
        """Citations of the results."""
        return self.answer.sources

    def _remarks(self) -> list[str]:
        """Return caveats: degraded stages, confidence, misspelt names, or that nothing was found."""
        remarks = [f"degraded: without {', '.join(self.degraded)}"] if self.degraded else []
        if self:
            remarks.append(f"{in_words(self.confidence)} ({self.confidence:.2f} of 1)")
        if self.answer.unknown_entity:
            remarks.append(f"nothing in the graph is called {self.answer.unknown_entity!r}")
        remarks += [f"“{phrase}” was read as {name}" for phrase, name in self.answer.misspelt.items()]
        return remarks or ([] if self else ["nothing found"])

    def __repr__(self) -> str:
        lines = [f"Results of {self.question!r}", *(f"  ({on_one_line(remark)})" for remark in self._remarks())]
        for result in self:
            lines += [f"{result.rank:>2}. {result}", *(f"    path {path}" for path in _walked(result))]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Return an HTML table for notebooks, with all text escaped; without colours, as the theme may be dark."""
        remarks = "".join(f"<div><i>{escape(remark)}</i></div>" for remark in self._remarks())
        rows = "".join(map(_row, self))
        return f'<div style="max-width:52em"><b>{escape(self.question)}</b>{remarks}<table>{rows}</table></div>'


def escape(text: str) -> str:
    """Return text as HTML, without characters that are not seen or reverse what is beside them."""
    return escape_html(on_one_line(text))


def _walked(result: Result) -> list[str]:
    """Return the first path to a result, unless it has no edges."""
    return [str(path) for path in result.paths[:1] if path.types]


def _row(result: Result) -> str:
    """Return a result as a row of an HTML table: rank, score as a number and a bar, text, path and source."""
    path = "".join(f"<div><small>{escape(walked)}</small></div>" for walked in _walked(result))
    bar = f'<div style="height:3px;background:currentColor;opacity:.5;width:{result.final:.0%}"></div>'
    return (
        f'<tr style="vertical-align:top"><td>{result.rank}</td><td style="min-width:3em">{result.final:.2f}{bar}</td>'
        f'<td style="text-align:left"><b>{escape(result.title)}</b><br>{marked(result.citation)}{path}'
        f'<div style="opacity:.7"><small>{escape(origin_line(result))}</small></div></td></tr>'
    )


def marked(citation: Citation) -> str:
    """Return a citation's excerpt as HTML, with the sentence closest to the question in bold."""
    first, last = citation.marked or (0, 0)
    before, sentence, after = map(
        escape, (citation.excerpt[:first], citation.excerpt[first:last], citation.excerpt[last:])
    )
    return f"{before}<b>{sentence}</b>{after}" if sentence else after


def origin_line(result: Result) -> str:
    """Return a result's source, its id, and the strands that found it."""
    page = "" if result.citation.page is None else f", page {result.citation.page}"
    found_by = " ".join(STRANDS[source] for source in result.sources)
    return " · ".join(dict.fromkeys((f"{result.citation.title}{page}", result.id, found_by)))


class Fact(Frozen):
    """A relationship as a sentence."""

    text: str
    source: Name
    type: Label
    target: Name
    source_id: RecordId
    target_id: RecordId
    score: Score
    evidence: RecordId | None = None
    """Id of the record that is its evidence."""

    def __str__(self) -> str:
        """Return the sentence."""
        return self.text

    def __repr__(self) -> str:
        return f"Fact({self.text!r}{f', evidence={self.evidence!r}' if self.evidence else ''})"


def facts_of(hits: Iterable[GraphHit]) -> list[Fact]:
    """Return the last edge of each hit's path as a sentence, without duplicates, in the order of the hits."""
    facts: dict[tuple[str, str, str], Fact] = {}
    for hit in hits:
        path = hit.path
        if not path.types:
            continue
        *_, (source_id, kind, target_id, _) = path.edges()
        *_, (source, _, target, _) = path.edges(path.names)
        fact = Fact(
            text=f"{sentence(source, kind, target)}.",
            source=source,
            type=kind,
            target=target,
            source_id=source_id,
            target_id=target_id,
            score=hit.score,
            evidence=path.evidence[-1] if path.evidence else None,
        )
        facts.setdefault((source_id, fact.type, target_id), fact)
    return list(facts.values())
