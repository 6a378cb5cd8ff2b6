"""Conditions of outdated records: an older schema version, or no vector of a served model.

The jobs of every night and on demand find them by these conditions, page by page (``list_pages`` in ``job_pages``);
answers that meet one put it on the queue of ``queue_from_answers``. Both embed them by ``embed_and_write_back``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from braid.ports.search_index import ScanConditions
    from braid.reembedding.job_services import Services


def outdated_conditions(services: Services, tenant: str) -> dict[str, ScanConditions | None]:
    """Return, by reason for which a record is outdated, the condition on the index; None if no record can meet it.

    The reasons are ``schema`` and, for each model of the active profile, its id.
    """
    below = services.schemas.current(tenant) - services.limits.min_drift + 1
    conditions: dict[str, ScanConditions | None] = {"schema": {"schema_below": below} if below > 1 else None}
    return conditions | {model.id: {"model_missing": model.id} for model in services.active_models()}


def outdated(services: Services, tenant: str) -> dict[str, int]:
    """Return the numbers of a tenant's outdated records by reason; one with two reasons counts twice."""
    conditions = outdated_conditions(services, tenant)
    return {
        reason: 0 if condition is None else services.migration.count(tenant, **condition)
        for reason, condition in conditions.items()
    }
