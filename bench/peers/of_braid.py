"""Braid, with precomputed vectors, as all libraries get."""

from __future__ import annotations

from typing import TYPE_CHECKING

from braid.app import Application
from braid.models import Hints, Query, RerankerKind, Strategy
from braid.models.embedding_models import ModelConfig, space_of
from braid.retrieval import pipeline
from braid.settings import Settings

from bench.peers.asked import TOP, Given, measure
from braid_cli.evaluation.run import TENANT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


class Prepared:
    """An encoder that looks vectors up."""

    max_tokens = 254

    def __init__(self, model: ModelConfig, given: Given) -> None:
        self.model_id, self.space, self.dimension, self.given = model.id, space_of(model), model.dimension, given

    def token_ends(self, text: str) -> list[int]:
        """Return nothing: only questions are embedded here, which are not cut."""
        del text
        return []

    def encode(self, texts: Sequence[str], *, instruction: str = "") -> list[bytes]:  # noqa: ARG002 - the default model takes none
        """Return one vector a text."""
        return [vector.tobytes() for vector in self.given.encode(texts)]


class Peer(Application):
    """The application with such an encoder."""

    def __init__(self, settings: Settings, given: Given) -> None:
        super().__init__(settings)
        self.given = given

    def encoder_for(self, model: ModelConfig, *, threads: int | None = None) -> Prepared:  # noqa: ARG002 - as the port has it
        """Return the encoder that looks vectors up."""
        return Prepared(model, self.given)


def build(given: Given) -> Mapping[str, Callable[[int], Sequence[str]]]:
    """Open the store that was made of the dataset folder, and answer as by default and by vectors and words alone."""
    application = Peer(Settings(home=given.home).uncached(), given)

    def way(**fields: object) -> Callable[[int], Sequence[str]]:
        def ask(number: int) -> list[str]:
            query = Query(text=given.questions[number], tenant_id=TENANT, top_k=TOP).model_copy(update=fields)
            return [result.id for result in pipeline.answer(query, application).results]

        return ask

    plain = Hints(strategy=Strategy.SEMANTIC)
    return {"vectors and words": way(hints=plain, reranker=RerankerKind.NONE), "default, with the graph": way()}


if __name__ == "__main__":
    measure("braid", build)
