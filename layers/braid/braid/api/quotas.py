"""Quotas of each tenant: questions and written items a minute, and money for hosted rerankers a day.

They are counted in the cache, over all processes, in fixed windows: whole minutes, and days in UTC. Where the counters
cannot be reached a request goes on, as a lost cache is no error; only a hosted reranker is not asked then, as nobody
would know what it costs.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Final

from braid.errors import InvalidRequest, QuotaExceeded
from braid.models import RerankerKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from braid.models import Answer, Query
    from braid.ports.cache import ResilientCache
    from braid.settings import Settings

MINUTE_S: Final = 60
DAY_S: Final = 86_400
MICRO: Final = 1_000_000
"""Money is counted in whole millionths of a US dollar."""
_RERANKING: Final = "quota/rerank"


class Quotas:
    """Counts what tenants use of their quotas, and refuses what is above them.

    Parameters
    ----------
    settings
        The quotas; 0 is no limit.
    cache
        Where it is counted.
    clock
        Returns seconds since 1970.
    """

    def __init__(self, settings: Settings, cache: ResilientCache, *, clock: Callable[[], float] = time.time) -> None:
        self._settings = settings
        self._cache = cache
        self._clock = clock

    def take_question(self, tenant_id: str) -> None:
        """Count one question.

        Raises
        ------
        QuotaExceeded
            If the tenant has none left in this minute.
        """
        self._take(tenant_id, "questions", 1, self._settings.quota_questions_per_minute)

    def take_writes(self, tenant_id: str, items: int) -> None:
        """Count items that are to be written or removed.

        Raises
        ------
        QuotaExceeded
            If the tenant has fewer left in this minute; none are taken then.
        """
        self._take(tenant_id, "items written or removed", items, self._settings.quota_writes_per_minute)

    def _take(self, tenant_id: str, what: str, amount: int, limit: int) -> None:
        if not limit:
            return
        if amount > limit:
            message = f"{limit} {what} a minute are this tenant's quota, and the request has {amount}; send fewer"
            raise QuotaExceeded(message, retry_after_s=None)
        taken = self._cache.count(tenant_id, f"quota/{what}", amount, MINUTE_S)
        if taken is not None and taken > limit:
            self._cache.count(tenant_id, f"quota/{what}", -amount, MINUTE_S)
            left_s = math.ceil(MINUTE_S - self._clock() % MINUTE_S)
            message = f"{limit} {what} a minute are this tenant's quota; try again in {left_s} s"
            raise QuotaExceeded(message, retry_after_s=left_s)

    def answer(self, query: Query, retrieve: Callable[[Query], Answer]) -> Answer:
        """Answer a question within the tenant's budget for hosted rerankers.

        The budget is looked at before, and what was spent is counted after: questions that are asked at the same time
        may go beyond it by the price of one each. Beyond it, or where that is not known, the fused order stands and
        the answer is degraded.

        Raises
        ------
        InvalidRequest
            If the question asks for a hosted reranker that may not be asked.
        """
        check_reranker(query.reranker, self._settings)
        budget, kind = self._settings.quota_rerank_usd_per_day, query.reranker or self._settings.reranker
        if not budget or not kind.is_hosted:
            return retrieve(query)
        spent = self._cache.count(query.tenant_id, _RERANKING, 0, DAY_S)
        if spent is None or spent >= budget * MICRO:
            answer = retrieve(query.model_copy(update={"reranker": RerankerKind.NONE}))
            degraded = tuple(dict.fromkeys((*answer.degraded, "rerank")))
            return answer.model_copy(update={"degraded": degraded, "holds_until": None})
        answer = retrieve(query)
        if answer.rerank_cost_usd:
            self._cache.count(query.tenant_id, _RERANKING, math.ceil(answer.rerank_cost_usd * MICRO), DAY_S)
        return answer


def check_reranker(asked: RerankerKind | None, settings: Settings) -> None:
    """Refuse a hosted reranker that may not be asked.

    Raises
    ------
    InvalidRequest
        With the rerankers that may.
    """
    if asked and asked.is_hosted and asked not in settings.hosted_rerankers:
        may = ", ".join(kind for kind in RerankerKind if not kind.is_hosted or kind in settings.hosted_rerankers)
        message = f"reranker: {asked.value} may not be asked here; one of {may} may"
        raise InvalidRequest(message, field="reranker")
