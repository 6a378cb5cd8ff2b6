"""Quotas of each tenant: concurrent requests, questions, written items and imports a minute, USD of reranking a day.

The routes of the API take them; a setting of 0 is no limit. Usage is counted in the cache, across all processes, in
fixed windows: whole minutes, and days in UTC. If the cache fails, requests are not limited, but hosted rerankers are
not called, as their cost could not be bounded. Imports that wait in this process are limited by
:mod:`braid.ingestion.bulk.import_queue`.
"""

from __future__ import annotations

import math
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from braid.errors import QuotaExceeded
from braid.models import RerankerKind
from braid.ports.ingestion import WAITED, WAITED_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from braid.models import Answer, Query
    from braid.ports.cache import ResilientCache
    from braid.settings import Settings

MINUTE_S: Final = 60
DAY_S: Final = 86_400
IMPORTS_A_MINUTE: Final = 300
"""Most imports that a tenant may start in a minute: each takes some seconds of a function that all tenants share."""
WAITS_A_MINUTE: Final = 3_000
"""Steps of a tenant's imports that find no slot in a minute, from which on it may start no more: a step that waits
tries again twice a minute for half a day, and each time runs a function, and a step of a workflow that is billed."""
MICRO: Final = 1_000_000
"""Cost is counted in whole millionths of a US dollar."""
_RERANKING: Final = "quota/rerank"
_AT_ONCE: Final = "quota/requests at once"


class Quotas:
    """Counts each tenant's usage, and refuses requests above its quotas.

    Parameters
    ----------
    settings
        The quotas; 0 means no limit.
    clock
        Returns seconds since 1970.
    """

    def __init__(self, settings: Settings, cache: ResilientCache, *, clock: Callable[[], float] = time.time) -> None:
        self._settings = settings
        self._cache = cache
        self._clock = clock

    @contextmanager
    def place(self, tenant_id: str) -> Iterator[None]:
        """Count one concurrent request of the tenant for the duration of the context.

        Raises
        ------
        QuotaExceeded
            If the tenant has as many already as its quota allows.
        """
        limit = self._settings.quota_requests_at_once
        with self._cache.slot(tenant_id, _AT_ONCE, limit=limit, window_s=MINUTE_S, clock=self._clock) as held:
            if not held:
                message = f"{limit} requests at once are this tenant's quota; try again in 1 s"
                raise QuotaExceeded(message, retry_after_s=1)
            yield

    def take_question(self, tenant_id: str) -> None:
        """Count one question. Raises QuotaExceeded if the tenant has none left in this minute."""
        self._take(tenant_id, "questions", 1, self._settings.quota_questions_per_minute)

    def take_writes(self, tenant_id: str, items: int) -> None:
        """Count items to be written or removed.

        Raises QuotaExceeded if the tenant has fewer left in this minute; none are taken then.
        """
        self._take(tenant_id, "items written or removed", items, self._settings.quota_writes_per_minute)

    def take_import(self, tenant_id: str) -> None:
        """Count one start of an import.

        Raises QuotaExceeded if the tenant has started too many in this minute, or too many wait for a slot: an import
        that finds none tries again, each time in a function that all tenants share.
        """
        waited = (self._cache.count(tenant_id, WAITED, 0, WAITED_S, ago=ago) or 0 for ago in (0, 1))
        if max(waited) > WAITS_A_MINUTE:
            message = "too many of this tenant's imports wait to be written; start others when some have ended"
            raise QuotaExceeded(message, retry_after_s=WAITED_S)
        self._take(tenant_id, "starts of imports", 1, IMPORTS_A_MINUTE)

    def take_reembedding(self, tenant_id: str) -> None:
        """Count one start of a workflow that re-embeds. Raises QuotaExceeded if one was started in this minute.

        Each takes the tenant's job over from the one before, which ends with its next step: without the limit, many of
        them list the same records at once, in a function that all tenants share.
        """
        self._take(tenant_id, "start of re-embedding", 1, 1)

    def _take(self, tenant_id: str, what: str, amount: int, limit: int) -> None:
        if not limit:
            return
        if amount > limit:
            message = f"{limit} {what} a minute are this tenant's quota, and the request has {amount}; send fewer"
            raise QuotaExceeded(message, retry_after_s=None)
        minute = self._clock() // MINUTE_S
        taken = self._cache.count(tenant_id, f"quota/{what}", amount, MINUTE_S)
        if taken is not None and taken > limit:
            if self._clock() // MINUTE_S == minute:  # otherwise it would be subtracted from the next minute
                self._cache.count(tenant_id, f"quota/{what}", -amount, MINUTE_S)
            left_s = math.ceil(MINUTE_S - self._clock() % MINUTE_S)
            message = f"{limit} {what} a minute are this tenant's quota; try again in {left_s} s"
            raise QuotaExceeded(message, retry_after_s=left_s)

    def within_rerank_budget(self, query: Query, retrieve: Callable[[Query], Answer]) -> Answer:
        """Answer a question within the tenant's budget for hosted rerankers.

        The budget is checked before and the cost counted after: concurrent questions may exceed it by the price of one
        each. Above the budget, or without counters, the fused order is kept and the answer is degraded.
        """
        budget, kind = self._settings.quota_rerank_usd_per_day, query.reranker or self._settings.reranker
        if not budget or not kind.is_hosted:
            return retrieve(query)
        spent = self._cache.count(query.tenant_id, _RERANKING, 0, DAY_S)
        if spent is None or spent >= budget * MICRO:
            answer = retrieve(query.altered(reranker=RerankerKind.NONE))
            degraded = tuple(dict.fromkeys((*answer.degraded, "rerank")))
            return answer.altered(degraded=degraded, holds_until=None)
        answer = retrieve(query)
        if answer.rerank_cost_usd:
            self._cache.count(query.tenant_id, _RERANKING, math.ceil(answer.rerank_cost_usd * MICRO), DAY_S)
        return answer
