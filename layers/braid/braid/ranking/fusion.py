"""Fusion of the strands' ranked hits into one list of candidates, and the strands' weights that adapt to the hits.

Deterministic, ties by id. A question's own weights are made by ``strand_weights`` of
:mod:`braid.retrieval.stages.fuse_rerank`, from ``FusionParameters`` of :mod:`braid.models.query`; the weight of a found
graph under propagation by :mod:`braid.ranking.mention_weights`.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from braid.models import Candidate, Fusion, FusionParameters, GraphHit, Hit, Path, Source, Weights
from braid.ranking.scoring import clamp

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from braid.models import Intent

RANK_CONSTANT = 60
MAX_PATHS = 3
FEW_HITS, MANY_HITS = 5, 10
"""Of text and graph, the one with fewer hits than the first loses weight to the one with more than the second."""
DEFAULT_PARAMETERS: Final = FusionParameters()
MIN_FULL_LIST = 10
"""Fewest hits of a list that may have been cut off; a shorter one holds all there are."""
MAX_STRAND_SHARE = 0.7
"""Largest share that the spread of its scores gives either text strand, before the base share is applied."""


def reciprocal_rank_fusion(
    runs: Sequence[tuple[float, Mapping[str, int]]], rank_constant: int = RANK_CONSTANT
) -> dict[str, float]:
    """Return ``Σ weight / (rank_constant + rank)`` for each id.

    Parameters
    ----------
    runs
        Pairs of a run's weight and its ranks by id, from 1.
    rank_constant
        60 in Cormack, Clarke and Büttcher (SIGIR 2009).
    """
    scores: defaultdict[str, float] = defaultdict(float)
    for weight, ranks in runs:
        for identity, rank in ranks.items():
            scores[identity] += weight / (rank_constant + rank)
    return dict(scores)


def fuse(
    *,
    vector: Sequence[Hit],
    lexical: Sequence[Hit],
    graph: Sequence[GraphHit],
    weights: Weights,
    method: Fusion = Fusion.WEIGHTED,
    rank_constant: int = RANK_CONSTANT,
    propagated: Sequence[GraphHit] = (),
    propagation_weight: float = 1.0,
    cut_off: bool = True,
) -> list[Candidate]:
    """Combine the strands' hits into candidates, best first, ties by id.

    ``weighted`` adds each strand's score times its weight, see :func:`sum_of_texts`. ``rrf`` adds weighted reciprocal
    ranks, divided by their maximum, so that both methods have the same scale. A graph score is the best of all walks
    and name matches that reached the record. At a propagation weight of 1, ``propagate`` ranks first what propagation
    from the text hits and the names reached, then all other records in the order of the weighted sum; at a lower
    weight, the records with a text score are ranked together with what propagation reached.

    Parameters
    ----------
    propagated
        The hits of ``graph`` that come from propagation.
    propagation_weight
        Share of propagation in the fused score, in [0, 1]; vectors and words have the rest, relative to the best.
    cut_off
        Whether the vector and lexical lists may hold only the best hits: a record that is missing from one then gets
        its score of :func:`least_scores`. Otherwise, as inside a graph constraint, the lists are complete: it gets 0.
    """
    found: defaultdict[str, list[GraphHit]] = defaultdict(list)
    for walked in graph:
        found[walked.id].append(walked)
    strands = {Source.VECTOR: best_scores(vector), Source.LEXICAL: best_scores(lexical)}
    strands[Source.GRAPH] = best_scores(graph)
    combined = combine(
        strands,
        best_scores(propagated),
        weights=weights,
        method=method,
        rank_constant=rank_constant,
        propagation_weight=propagation_weight,
        cut_off=cut_off,
    )
    # The order in which sources are added is that of a candidate's ``sources``.
    ranks: defaultdict[str, dict[Source, int]] = defaultdict(dict)
    for source, hits in ((Source.VECTOR, vector), (Source.LEXICAL, lexical)):
        for hit in hits:
            ranks[hit.id][source] = hit.rank
    # ``graph`` ranks name matches and hits of walks together; here each of the two is ranked by itself.
    for source in (Source.KNOWLEDGE, Source.GRAPH):
        # A graph hit whose path has no edges is a seed from the text search: the graph did not find it.
        own = (hit for hit in graph if hit.source is source and (hit.path.types or source is Source.KNOWLEDGE))
        for identity, rank in _ranks(best_scores(own)).items():
            ranks[identity][source] = rank
    part_starts = {hit.id: hit.part_start for hit in vector}
    vectors, words, walks = strands[Source.VECTOR], strands[Source.LEXICAL], strands[Source.GRAPH]
    nothing: tuple[tuple[str, ...], tuple[Path, ...]] = ((), ())
    candidates: list[Candidate] = []
    for identity in in_order(combined):
        reasons, paths = _explained(found[identity]) if identity in found else nothing
        ranks_of_one = ranks[identity]
        candidates.append(
            Candidate(
                id=identity,
                combined_score=combined[identity],
                vector_score=vectors.get(identity),
                part_start=part_starts.get(identity, 0),
                lexical_score=words.get(identity),
                graph_score=walks.get(identity),
                ranks=ranks_of_one,
                sources=tuple(ranks_of_one),
                reasons=reasons,
                paths=paths,
            )
        )
    return candidates


def append_scaled_tail(first: Mapping[str, float], rest: Mapping[str, float]) -> dict[str, float]:
    """Return the scores of ``first``, then the others of ``rest`` scaled to at most the lowest of ``first``."""
    least = min(first.values(), default=1.0)
    return {identity: score * least for identity, score in rest.items()} | dict(first)


def best_scores(hits: Iterable[Hit | GraphHit]) -> dict[str, float]:
    """Return each id's best score."""
    best: dict[str, float] = {}
    for hit in hits:
        identity, score = hit.id, hit.score
        if identity not in best or score >= best[identity]:
            best[identity] = score
    return best


def combine(
    strands: Mapping[Source, Mapping[str, float]],
    propagated: Mapping[str, float],
    *,
    weights: Weights,
    method: Fusion,
    rank_constant: int,
    propagation_weight: float = 1.0,
    cut_off: bool = True,
) -> dict[str, float]:
    """Return the fused score, in [0, 1], of every id that a strand found.

    Parameters
    ----------
    strands
        Scores by id of the vector, the lexical and the graph strand.
    propagated
        Scores of the graph strand that come from propagation.
    propagation_weight, cut_off
        As of :func:`fuse`.
    """
    vectors, words, graph = strands[Source.VECTOR], strands[Source.LEXICAL], strands[Source.GRAPH]
    if method is Fusion.RRF:
        weighted = [(weights.vector, vectors), (weights.lexical, words), (weights.graph, graph)]
        ranked = reciprocal_rank_fusion([(weight, _ranks(scores)) for weight, scores in weighted], rank_constant)
        return _in_bounds({identity: score * (rank_constant + 1) for identity, score in ranked.items()})
    texts = sum_of_texts(vectors, words, weights.vector, weights.lexical, cut_off=cut_off)
    combined = _in_bounds(weighted_sum([(1.0, texts), (weights.graph, graph)]))
    if method is not Fusion.PROPAGATE:
        return combined
    if propagation_weight < 1.0:
        most = max(texts.values(), default=0.0) or 1.0
        relative = {identity: score / most for identity, score in texts.items()}
        first = weighted_sum([(propagation_weight, propagated), (1.0 - propagation_weight, relative)])
        propagated = {identity: clamp(score) for identity, score in first.items() if score > 0}
    return append_scaled_tail(propagated, combined)


def _in_bounds(scores: Mapping[str, float]) -> dict[str, float]:
    # Nearly all scores are in bounds, and a comparison is cheaper than a call.
    return {one: score if 0.0 <= score <= 1.0 else clamp(score) for one, score in scores.items()}


def adaptive_weights(
    vector_weight: float,
    graph_weight: float,
    *,
    intent: Intent,
    vector_hits: int,
    graph_hits: int,
    lexical_hits: int | None = None,
    lexical_share: float = DEFAULT_PARAMETERS.lexical_share,
    parameters: FusionParameters = DEFAULT_PARAMETERS,
) -> Weights:
    """Return the strands' fusion weights, shifted by the question's intent and by how many hits each strand has.

    The intent shifts weight between text and graph; the one with many hits gains some from the one with few. The text
    weight is split between vectors and words. The weight of a strand without hits goes to the others. Weights are at
    least 0, and normalised to a sum of 1; if all are 0, they are equal.

    Parameters
    ----------
    vector_weight, graph_weight
        Base weights of text and graph, in [0, 1].
    intent
        The question's intent.
    vector_hits, graph_hits, lexical_hits
        Number of hits by strand; ``lexical_hits`` None means that there is no lexical strand.
    lexical_share
        The lexical strand's share of the text weight, in [0, 1].
    parameters
        The sizes of the shifts.
    """
    shift, count_shift = parameters.intent_shift(intent), parameters.count_shift
    text, graph = vector_weight + shift, graph_weight - shift
    text_hits = max(vector_hits, lexical_hits or 0)
    if text_hits < FEW_HITS and graph_hits > MANY_HITS:
        text, graph = text - count_shift, graph + count_shift
    elif graph_hits < FEW_HITS and text_hits > MANY_HITS:
        text, graph = text + count_shift, graph - count_shift
    text, graph = max(0.0, text), max(0.0, graph)
    lexical = text * lexical_share if lexical_hits is not None else 0.0
    strands = {
        "vector": (text - lexical, vector_hits),
        "lexical": (lexical, lexical_hits or 0),
        "graph": (graph, graph_hits),
    }
    if strands["vector"][1] == 0 and strands["lexical"][1] > 0:
        strands["lexical"] = (text, strands["lexical"][1])
    elif strands["lexical"][1] == 0 and strands["vector"][1] > 0:
        strands["vector"] = (text, strands["vector"][1])
    live = {name: weight for name, (weight, hits) in strands.items() if hits > 0}
    total = sum(live.values())
    if total <= 0:
        live = dict.fromkeys(live or strands, 1.0)
        total = float(len(live))
    return Weights(**{name: live.get(name, 0.0) / total for name in strands})


def adaptive_lexical_share(vector: Mapping[str, float], lexical: Mapping[str, float], base_share: float) -> float:
    """Return the lexical strand's share of the text weight for one question.

    It grows with the spread of the lexical scores, from :func:`least_scores` to the best, relative to the spread of the
    vector scores. A strand that discriminates little, such as vectors of short turns of a conversation, has nearly
    equal scores.

    Parameters
    ----------
    vector, lexical
        Scores by id of one question.
    base_share
        The share, in [0, 1], where both spreads are equal.
    """
    if not vector or not lexical:
        return base_share
    tails = least_scores(vector, lexical)
    by_vector, by_words = (max(scores.values()) - tail for scores, tail in zip((vector, lexical), tails, strict=True))
    both = by_vector + by_words
    words = min(MAX_STRAND_SHARE, max(1.0 - MAX_STRAND_SHARE, by_words / both if both > 0 else 0.5))
    return words * base_share / (words * base_share + (1.0 - words) * (1.0 - base_share))


def sum_of_texts(
    vector: Mapping[str, float],
    lexical: Mapping[str, float],
    vector_weight: float,
    lexical_weight: float,
    *,
    cut_off: bool = True,
) -> dict[str, float]:
    """Return the weighted sum of both text strands' scores for each id.

    Where the lists may be cut off, a record that is missing from one gets its score of :func:`least_scores`, else 0.
    """
    vector_least, lexical_least = least_scores(vector, lexical) if cut_off else (0.0, 0.0)
    vector_least, lexical_least = vector_weight * vector_least, lexical_weight * lexical_least
    return {
        identity: (vector_weight * vector[identity] if identity in vector else vector_least)
        + (lexical_weight * lexical[identity] if identity in lexical else lexical_least)
        for identity in {**vector, **lexical}
    }


def least_scores(vector: Mapping[str, float], lexical: Mapping[str, float]) -> tuple[float, float]:
    """Return for each list the highest score that a record can have which the list does not contain.

    That is the list's lowest score if the list was cut off, and 0 if it contains every hit: so do the shorter of both,
    and one of fewer than :data:`MIN_FULL_LIST` hits.
    """
    full = max(MIN_FULL_LIST, len(vector), len(lexical))
    vector_least, lexical_least = (min(scores.values()) if len(scores) >= full else 0.0 for scores in (vector, lexical))
    return vector_least, lexical_least


def weighted_sum(strands: Sequence[tuple[float, Mapping[str, float]]]) -> dict[str, float]:
    """Return ``Σ weight × score`` for each id, over the strands that found it."""
    combined: defaultdict[str, float] = defaultdict(float)
    for weight, scores in strands:
        for identity, score in scores.items():
            combined[identity] += weight * score
    return dict(combined)


def _ranks(scores: Mapping[str, float]) -> dict[str, int]:
    return {identity: rank for rank, identity in enumerate(in_order(scores), start=1)}


def in_order(scores: Mapping[str, float]) -> list[str]:
    """Return the ids, best first, ties by id."""
    return [identity for _, identity in sorted([(-score, identity) for identity, score in scores.items()])]


def _explained(hits: Sequence[GraphHit]) -> tuple[tuple[str, ...], tuple[Path, ...]]:
    """Return the distinct reasons of one record's hits, best first, and its best distinct paths.

    A path without edges, of a seed or of a record that the question names, is left out.
    """
    if len(hits) == 1:  # as most are
        (hit,) = hits
        return (hit.reason,) if hit.reason else (), (hit.path,) if hit.path.types else ()
    hits = sorted(hits, key=lambda hit: (-hit.score, len(hit.path.types), hit.path.ids))
    reasons = dict.fromkeys([hit.reason for hit in hits if hit.reason])
    walks = [hit.path for hit in hits if hit.path.types]
    return tuple(reasons), tuple(dict.fromkeys(walks))[:MAX_PATHS]
