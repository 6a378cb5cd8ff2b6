"""Chooses the tenants whose links ``braid serve`` prints by default; warms up each tenant by a question."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from braid.errors import BraidError
from braid.models import Query, RerankerKind
from braid.settings import DEFAULT_TENANT, EngineKind

from braid_cli.terminal import complain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from braid.app import Application

SHOWN_AT_MOST = 10
WARM_UP_S: Final = 10.0
"""Longest wait for the questions that warm a process up, in seconds; without such a graph they take two or three."""


def tenants_to_serve(library: Application, say: Callable[[str], None]) -> Sequence[str]:
    """Return up to ten stored tenants, those of the demo first; ingest the demo's if nothing is stored yet.

    Parameters
    ----------
    library
        The application, with its models. For deployed stores the default tenant is returned, and nothing is ingested.
    say
        Called with messages for the user.
    """
    if library.settings.engine is not EngineKind.EMBEDDED:
        return (DEFAULT_TENANT,)
    # Imported here: worker processes, which import this module, do not ingest.
    from braid_cli.datasets.dataset import read_dataset
    from braid_cli.datasets.ingest import ingest
    from braid_cli.demo.tour import CORPUS, TENANTS

    stored = library.store.tenants()
    if not stored:
        say(f"Nothing is stored in {library.settings.home} yet: ingesting the demo archives {', '.join(TENANTS)}.")
        for tenant in TENANTS:
            ingest(read_dataset(CORPUS / tenant, tenant), library)
        stored = list(TENANTS)
    demo_first = sorted(stored, key=lambda name: (name not in TENANTS, TENANTS.index(name) if name in TENANTS else 0))
    if len(demo_first) > SHOWN_AT_MOST:
        say(f"{len(demo_first)} tenants are stored; --tenant NAME prints a link for one that is not listed.")
    return demo_first[:SHOWN_AT_MOST]


def ask_once(library: Application, tenants: Iterable[str]) -> None:
    """Warm up: answer one question of each tenant, which loads models and indexes. Hosted rerankers are not called.

    Returns after :data:`WARM_UP_S` at the latest, and continues in the background: updating the vector graph of a
    tenant with large imports since its last question takes minutes, for which others do not wait.
    """
    asking = threading.Thread(target=_ask_each, args=(library, tuple(tenants)), name="braid-warm-up", daemon=True)
    asking.start()
    asking.join(WARM_UP_S)


def _ask_each(library: Application, tenants: Sequence[str]) -> None:
    for tenant in tenants:
        reranker = RerankerKind.NONE if library.settings.reranker.is_hosted else None
        try:
            library.retrieve(Query(text="What is stored here?", tenant_id=tenant, reranker=reranker))
        except BraidError as error:
            complain(f"{tenant}: cannot be asked: {error}", style="yellow")
