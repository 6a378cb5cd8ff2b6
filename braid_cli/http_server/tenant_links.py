"""Chooses the tenants that ``braid serve`` prints links for when none is named, and asks each of them once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from braid.errors import BraidError
from braid.models import Query, RerankerKind
from braid.settings import DEFAULT_TENANT, EngineKind

from braid_cli.terminal import complain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from braid.app import Application

SHOWN_AT_MOST = 10


def tenants_to_serve(library: Application, say: Callable[[str], None]) -> Sequence[str]:
    """Return the stored tenants; ingest the demo's where nothing is stored yet.

    Parameters
    ----------
    library
        The application, with its models. Deployed stores are neither listed nor written.
    say
        Called with messages for the user.
    """
    if library.settings.engine is not EngineKind.EMBEDDED:
        return (DEFAULT_TENANT,)
    # Not of the worker processes, which only ask.
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
    """Answer a question of each tenant, so that nobody's first one waits for models and indexes to be read.

    A reranker that costs money is not asked.
    """
    for tenant in tenants:
        reranker = RerankerKind.NONE if library.settings.reranker.is_hosted else None
        try:
            library.retrieve(Query(text="What is stored here?", tenant_id=tenant, reranker=reranker))
        except BraidError as error:
            complain(f"{tenant}: cannot be asked: {error}", style="yellow")
