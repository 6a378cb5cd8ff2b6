"""Reranker on Voyage AI's HTTP API.

Voyage's SDK has no bounded wait and depends on a tokenizer, an imaging library and two HTTP clients; urllib3 is already
installed with the clients of the stores.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import urllib3

from braid.engines.rerankers.hosted_calls import CallBudget, TryAgain, prepare
from braid.errors import RerankFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from braid.engines.rerankers.hosted_calls import Prepared
    from braid.engines.retries_and_deadlines import CallDeadline
    from braid.settings import Settings

URL = "https://api.voyageai.com/v1/rerank"
WINDOW = 1_000
"""Tokens of a question and one text that the estimated price of a text assumes. The model's own limit is 32,000."""
USD_PER_1000_DOCUMENTS = 0.05
_MAX_ANSWER_BYTES = 1 << 20
_OK, _UNAUTHORISED, _FORBIDDEN, _TIMEOUT, _TOO_MANY, _SERVER_FAULT = 200, 401, 403, 408, 429, 500
_REFUSED_KEY = "the service refused the key"


class VoyageReranker:
    """Implements :class:`braid.ports.encoder.Reranker`. Make one with :meth:`connect`; safe to share between threads.

    Parameters
    ----------
    key
        Returns the API key; called once per call, within its deadline.
    window
        Most tokens of a question and one text together; longer texts are cut.
    """

    def __init__(
        self,
        key: Callable[[], str],
        *,
        model: str = "rerank-2.5",
        url: str = URL,
        window: int = WINDOW,
        usd_per_1000_documents: float = USD_PER_1000_DOCUMENTS,
        attempts: int = 2,
    ) -> None:
        self.name = f"voyage {model}"
        self._key = key
        self._model = model
        self._url = url
        self._window = window
        self._usd = usd_per_1000_documents
        self._budget = CallBudget(self.name, attempts=attempts)
        self._pool = urllib3.PoolManager(maxsize=4, retries=False)

    @classmethod
    def connect(cls, settings: Settings) -> VoyageReranker:
        """Return the reranker that the settings describe. No request is sent yet, and the key's secret is not read.

        Raises ConfigurationError if the settings name no key.
        """
        from braid.engines.aws.secret_keys import api_key

        key = api_key(
            settings.voyage_api_key,
            settings.voyage_api_key_secret,
            names=("BRAID_VOYAGE_API_KEY", "BRAID_VOYAGE_API_KEY_SECRET"),
            timeout_s=settings.rerank_timeout_s,
        )
        return cls(
            key,
            model=settings.voyage_rerank_model,
            url=settings.voyage_url,
            window=settings.rerank_window or WINDOW,
            usd_per_1000_documents=settings.voyage_usd_per_1000_documents,
            attempts=settings.rerank_attempts,
        )

    def cost_usd(self, query: str, texts: Sequence[str]) -> float:  # noqa: ARG002 - the port's
        """Return the price in US dollars of one call."""
        return sum(bool(text.strip()) for text in texts) * self._usd / 1000

    def rerank(self, query: str, texts: Sequence[str], *, timeout_s: float) -> list[float]:
        """Return one score in [0, 1] per text, in the order of ``texts``; a blank text has 0."""
        prepared = prepare(query, texts, window=self._window)
        if not prepared.texts:
            return [0.0] * prepared.count
        price = self.cost_usd(query, texts)
        body = self._budget.run(lambda deadline: self._post(prepared, deadline), timeout_s=timeout_s, cost_usd=price)
        try:
            return prepared.scores(_read(body, self.name), self.name)
        except RerankFailed as error:
            raise RerankFailed(str(error), cost_usd=price) from None

    def _post(self, prepared: Prepared, deadline: CallDeadline) -> bytes:
        """Send the request and return the body of a successful response."""
        key = self._key()
        request = {
            "model": self._model,
            "query": prepared.question,
            "documents": prepared.texts,
            "return_documents": False,
            "truncation": True,
        }
        try:
            response = self._pool.request(
                "POST",
                self._url,
                body=json.dumps(request).encode(),
                headers={"Authorization": f"Bearer {key}", "Content-Type": "application/json", "User-Agent": "braid"},
                timeout=urllib3.Timeout(total=max(deadline.left(), 0.001)),
                preload_content=False,
                redirect=False,
            )
            try:
                self._check(response.status, response.headers.get("Retry-After", ""))
                body = _body(response, deadline)
                response.release_conn()
            finally:
                # No effect on a connection that was released to the pool; closes one whose body was not read.
                response.close()
        except urllib3.exceptions.SSLError as error:
            raise RerankFailed(f"reranker {self.name}: {type(error).__name__}") from error
        except urllib3.exceptions.HTTPError as error:
            raise TryAgain(type(error).__name__) from error
        if body is None:
            raise RerankFailed(f"reranker {self.name}: the answer is longer than {_MAX_ANSWER_BYTES} bytes")
        return body

    def _check(self, status: int, retry_after: str) -> None:
        if status == _OK:
            return
        if status in {_TIMEOUT, _TOO_MANY} or status >= _SERVER_FAULT:
            raise TryAgain(f"HTTP {status}", after_s=float(retry_after) if retry_after.isdecimal() else 0.0)
        why = f": {_REFUSED_KEY}" if status in {_UNAUTHORISED, _FORBIDDEN} else ""
        raise RerankFailed(f"reranker {self.name}: HTTP {status}{why}")


def _body(response: urllib3.BaseHTTPResponse, deadline: CallDeadline) -> bytes | None:
    """Read a response in parts, so that a slow one ends with the deadline; None if it is too long."""
    parts: list[bytes] = []
    size = 0
    while part := response.read1(1 << 16):
        size += len(part)
        if size > _MAX_ANSWER_BYTES:
            return None
        parts.append(part)
        if not deadline.left():
            raise TryAgain("the answer did not end in time")
    return b"".join(parts)


def _read(body: bytes, name: str) -> list[tuple[object, object]]:
    try:
        return [(row["index"], row["relevance_score"]) for row in json.loads(body)["data"]]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise RerankFailed(f"reranker {name}: the answer is not of the documented shape") from error
