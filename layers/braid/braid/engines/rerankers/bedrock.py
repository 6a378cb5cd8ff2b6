"""Reranker on Amazon Bedrock's Rerank operation.

``boto3`` is imported when the client is opened.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Protocol

from braid.engines.rerankers.hosted_calls import CallBudget, TryAgain, prepare, tokens
from braid.errors import ConfigurationError, RerankFailed, needs_extra

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from braid.engines.rerankers.hosted_calls import Prepared
    from braid.engines.retries_and_deadlines import CallDeadline
    from braid.settings import Settings

CHUNKS_A_QUERY = 100
"""Chunks of text that are billed as one query."""
CHUNK_TOKENS = 512
"""Tokens of one chunk, the question's included; a longer text is split into several."""
MAX_CHARACTERS = 32_000
"""Most characters of a question or text that the operation takes."""
USD_PER_1000_QUERIES = {"amazon.rerank-v1:0": 1.0, "cohere.rerank-v3-5:0": 2.0}
"""Assumed prices by model, which a setting overrides; an unknown model is assumed to cost the highest of them."""
_PAGES = 10
"""Most pages read of one answer, which holds only indexes and scores and is nearly always one page."""
_AGAIN = frozenset(
    {
        "BadGatewayException",
        "DependencyFailedException",
        "InternalServerException",
        "ServiceUnavailableException",
        "ThrottlingException",
        "TooManyRequestsException",
    }
)
_TOO_MANY, _SERVER_FAULT = 429, 500


class _Client(Protocol):
    """The call of a ``bedrock-agent-runtime`` client that is made here."""

    def rerank(self, **request: object) -> dict[str, Any]: ...


class BedrockReranker:
    """Implements :class:`braid.ports.encoder.Reranker`. Make one with :meth:`connect`; safe to share between threads.

    Parameters
    ----------
    client
        A ``bedrock-agent-runtime`` client without retries of its own.
    window
        Most tokens of a question and one text together; longer texts are cut.
    usd_per_1000_queries
        Price in US dollars; the assumed price of the model when None.
    """

    def __init__(
        self,
        client: _Client,
        model_arn: str,
        *,
        window: int = CHUNK_TOKENS,
        usd_per_1000_queries: float | None = None,
        attempts: int = 2,
    ) -> None:
        self.name = f"bedrock {model_arn.rpartition('/')[2]}"
        self._client = client
        self._model_arn = model_arn
        self._window = window
        if usd_per_1000_queries is None:
            model = model_arn.rpartition("/")[2]
            usd_per_1000_queries = USD_PER_1000_QUERIES.get(model, max(USD_PER_1000_QUERIES.values()))
        self._usd: float = usd_per_1000_queries
        self._budget = CallBudget(self.name, attempts=attempts)

    @classmethod
    def connect(cls, settings: Settings) -> BedrockReranker:
        """Open a client. No request is sent yet.

        Raises ConfigurationError if no region is configured, or the extra ``aws`` is not installed.
        """
        try:
            import boto3
            from botocore.exceptions import BotoCoreError
        except ModuleNotFoundError as error:
            raise ConfigurationError(needs_extra("aws", "reranker bedrock")) from error

        from braid.engines.aws.clients import client_config, with_whole_answers

        model = settings.bedrock_rerank_model
        region = settings.bedrock_region or (model.split(":")[3] if model.startswith("arn:") else "")
        config = client_config(timeout_s=settings.rerank_timeout_s, attempts=1)
        try:
            client = with_whole_answers(
                boto3.client("bedrock-agent-runtime", region_name=region or None, config=config)
            )
        except BotoCoreError as error:
            raise ConfigurationError(f"BRAID_BEDROCK_REGION: {error}") from error
        if not model.startswith("arn:"):
            model = f"arn:{client.meta.partition}:bedrock:{client.meta.region_name}::foundation-model/{model}"
        return cls(
            client,
            model,
            window=settings.rerank_window or CHUNK_TOKENS,
            usd_per_1000_queries=settings.bedrock_usd_per_1000_queries,
            attempts=settings.rerank_attempts,
        )

    def cost_usd(self, query: str, texts: Sequence[str]) -> float:
        """Return the price in US dollars of one call: one query per hundred chunks, of 512 tokens each."""
        if self._window <= CHUNK_TOKENS:
            return self._price_of_chunks(sum(bool(text.strip()) for text in texts))
        return self._price(prepare(query, texts, window=self._window, characters=MAX_CHARACTERS))

    def rerank(self, query: str, texts: Sequence[str], *, timeout_s: float) -> list[float]:
        """Return one score in [0, 1] per text, in the order of ``texts``; a blank text has 0."""
        prepared = prepare(query, texts, window=self._window, characters=MAX_CHARACTERS)
        if not prepared.texts:
            return [0.0] * prepared.count
        price = self._price(prepared)
        found = self._budget.run(
            lambda deadline: list(self._results(prepared, deadline)), timeout_s=timeout_s, cost_usd=price
        )
        try:
            return prepared.scores(found, self.name)
        except RerankFailed as error:
            raise RerankFailed(str(error), cost_usd=price) from None

    def _price(self, prepared: Prepared) -> float:
        if self._window <= CHUNK_TOKENS:
            return self._price_of_chunks(len(prepared.texts))
        room = max(1, CHUNK_TOKENS - tokens(prepared.question))
        return self._price_of_chunks(sum(max(1, math.ceil(tokens(text) / room)) for text in prepared.texts))

    def _price_of_chunks(self, chunks: int) -> float:
        return math.ceil(chunks / CHUNKS_A_QUERY) * self._usd / 1000

    def _results(self, prepared: Prepared, deadline: CallDeadline) -> Iterator[tuple[object, object]]:
        request = _request(self._model_arn, prepared)
        for _ in range(_PAGES):
            answer = self._call(request)
            results = answer.get("results")
            if not isinstance(results, list) or not all(isinstance(result, dict) for result in results):
                raise RerankFailed(f"reranker {self.name}: the answer is not of the documented shape")
            for result in results:
                yield result.get("index"), result.get("relevanceScore")
            if not answer.get("nextToken") or not deadline.left():
                return
            request = {**request, "nextToken": answer["nextToken"]}

    def _call(self, request: dict[str, object]) -> dict[str, Any]:
        from botocore.exceptions import BotoCoreError, ClientError, ConnectTimeoutError, HTTPClientError
        from botocore.exceptions import ConnectionError as NoConnection

        from braid.engines.aws.clients import code_of, status_of

        try:
            return self._client.rerank(**request)
        except ClientError as error:
            code, status = code_of(error), status_of(error)
            if code in _AGAIN or status == _TOO_MANY or status >= _SERVER_FAULT:
                raise TryAgain(code) from error
            # The service's own message may quote the request.
            raise RerankFailed(f"reranker {self.name}: {code}") from error
        except (NoConnection, HTTPClientError, ConnectTimeoutError) as error:
            raise TryAgain(type(error).__name__) from error
        except BotoCoreError as error:
            # No credentials, or a request that the client itself will not send.
            raise RerankFailed(f"reranker {self.name}: {type(error).__name__}") from error


def _request(model_arn: str, prepared: Prepared) -> dict[str, object]:
    return {
        "queries": [{"type": "TEXT", "textQuery": {"text": prepared.question}}],
        "sources": [
            {"type": "INLINE", "inlineDocumentSource": {"type": "TEXT", "textDocument": {"text": text}}}
            for text in prepared.texts
        ],
        "rerankingConfiguration": {
            "type": "BEDROCK_RERANKING_MODEL",
            "bedrockRerankingConfiguration": {
                # Every text needs a score: the fused order may not be the order of relevance.
                "numberOfResults": len(prepared.texts),
                "modelConfiguration": {"modelArn": model_arn},
            },
        },
    }
