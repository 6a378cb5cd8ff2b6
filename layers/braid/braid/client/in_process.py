"""Backend of :class:`braid.client.Braid`: the engines and models of this process.

Modules that only some calls need are imported by these calls: a process that only searches starts in half the time.
"""

from __future__ import annotations

import os
import threading
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING

from braid.app import Application
from braid.errors import ModelError, StoreError, TransientStoreError
from braid.models import Query
from braid.ports.keys import pages
from braid.settings import DEFAULT_TENANT, EngineKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import Any

    from braid.api.schemas import RecordSummary, ReembedJob, Related, Stats, WriteSummary
    from braid.client.documents_in_process import Added
    from braid.ingestion.deleting import DeleteReport
    from braid.models import Answer, Question
    from braid.ports.graph_query import GraphResult
    from braid.ports.ingestion import WriteRequest
    from braid.retrieval.context.message_selection import Context, ContextQuestion
    from braid.retrieval.tenant_search import TenantQuestions
    from braid.settings import Settings

_PAGE = 100
_UPDATES = 100
"""Most times that an update is tried while others change its record."""


class _ChangedMeanwhile(Exception):
    """A record was changed between reading and writing it."""


class InProcess:
    """Runs the application, with the engines that the settings choose, in this process.

    Parameters
    ----------
    application
        An open application; by default the first call opens one.
    """

    items_at_once = 1_000
    """Items of one write, which is one commit."""
    bytes_at_once = 20_000_000

    def __init__(self, settings: Settings, application: Application | None = None) -> None:
        self._settings = settings
        self._opened = application
        self._opening = threading.RLock()  # calls come from several threads
        self._has_models = False
        self._warned = False
        self._closed = False
        self._process = os.getpid()

    def __repr__(self) -> str:
        """Return the store's folder or the address of OpenSearch, quoted."""
        embedded = self._settings.engine is EngineKind.EMBEDDED
        return repr(str(self._settings.home if embedded else self._settings.opensearch_endpoint))

    @property
    def application(self) -> Application:
        """The application, opened by the first call. Raises StoreError after :meth:`close`, and in a forked process.

        A fork has the models without their threads, and the store without its locks.
        """
        self._refuse_if_forked()
        with self._opening:
            if self._closed:
                raise StoreError(f"{self!r} was closed; open another Braid")
            if self._opened is None:
                self._opened, self._process = Application(self._settings), os.getpid()
            return self._opened

    def _is_forked(self) -> bool:
        return self._opened is not None and self._process != os.getpid()

    def _refuse_if_forked(self) -> None:
        if self._is_forked():
            raise StoreError(f"{self!r} was opened before this process was forked; open another Braid in this one")

    def _with_models(self) -> Application:
        """Return the application, after making missing models. Raises ModelError if one cannot be made."""
        self._refuse_if_forked()
        with self._opening:
            if not self._has_models:
                self.application.make_models()
                self._has_models = True
            return self.application

    def close(self) -> None:
        """Close the application, if one is open; in a forked process it stays open for the one that opened it."""
        self._closed = True
        if self._opened is not None and not self._is_forked():
            self._opened.close()

    def _questions(self, tenant: str | None) -> TenantQuestions:
        from braid.retrieval.tenant_search import TenantQuestions

        return TenantQuestions(self.application, tenant or DEFAULT_TENANT)

    def answer(self, tenant: str | None, question: Question) -> Answer:
        """Answer a question; without vectors, and with a warning, if the model cannot be made."""
        self._try_models()
        return self.application.answer(Query(tenant_id=tenant or DEFAULT_TENANT, **dict(question)))

    def _try_models(self) -> None:
        """Make missing models; on failure warn once, and do not try again for questions."""
        self._refuse_if_forked()
        with self._opening:
            if self._warned:
                return
            try:
                self._with_models()
            except ModelError as error:
                self._warned = True
                warnings.warn(f"answering without vectors: {error}", stacklevel=5)

    def context(self, tenant: str | None, question: ContextQuestion) -> Context:
        """Build the context of a model's next answer."""
        from braid.retrieval.context.message_selection import ContextRequest

        self._try_models()
        return self.application.context(ContextRequest(tenant_id=tenant or DEFAULT_TENANT, **dict(question)))

    def related(self, tenant: str | None, entity: str, **how: Any) -> Related:  # noqa: ANN401 - of TenantQuestions.related
        """Return the entities related to one."""
        from braid.api.schemas import Related

        found = self._questions(tenant).related(entity, **how, fan_out=self._settings.fan_out)
        return Related(hits=found.hits, truncated=found.truncated)

    def graph_query(self, tenant: str | None, question: Mapping[str, Any]) -> GraphResult:
        """Run a graph query."""
        asked = {name: value for name, value in question.items() if name != "as_of"}
        return self._questions(tenant).graph_query(asked, as_of=question.get("as_of"))

    def read(self, tenant: str | None, ids: Sequence[str]) -> Sequence[RecordSummary]:
        """Return the records with these ids; unknown ids are left out."""
        from braid.api.schemas import RecordSummary

        tenant = tenant or DEFAULT_TENANT
        found = self.application.index.get_many(tenant, ids)
        return [RecordSummary.of(record) for record in found if record.tenant_id == tenant]

    def records(self, tenant: str | None) -> Iterator[RecordSummary]:
        """Yield every record, in the order of their ids."""
        from braid.api.schemas import RecordSummary

        tenant = tenant or DEFAULT_TENANT
        for page in pages(self.application.index.scan, tenant, limit=_PAGE):
            yield from (RecordSummary.of(record) for record in page.records if record.tenant_id == tenant)

    def write(
        self, tenant: str | None, request: WriteRequest, *, require: Callable[[], None] | None = None
    ) -> WriteSummary:
        """Write all items of a request, or none if one is invalid; ``require`` as in a write."""
        from braid.api.schemas import WriteSummary
        from braid.ingestion.writing import require_written

        given = request.altered(tenant_id=tenant or DEFAULT_TENANT)
        return WriteSummary.taken_from(require_written(self._with_models().write(given, require=require)))

    def update(
        self,
        tenant: str | None,
        record_id: str,
        change: Callable[[RecordSummary | None], WriteRequest],
    ) -> WriteSummary:
        """Write what a function makes of the record with an id, again if that has changed before it was written."""
        for _ in range(_UPDATES):
            stored = self.read(tenant, (record_id,))

            def require(read: Sequence[RecordSummary] = stored) -> None:
                if self.read(tenant, (record_id,)) != read:
                    raise _ChangedMeanwhile

            request = change(next(iter(stored), None))
            with suppress(_ChangedMeanwhile):
                return self.write(tenant, request, require=require)
        raise TransientStoreError(f"{record_id!r} is being changed by others all the time; try again")

    def add_documents(self, tenant: str | None, path: Path) -> Added:
        """Ingest a file or folder of documents."""
        from braid.client.documents_in_process import ingest

        return ingest(path, self._with_models(), tenant or DEFAULT_TENANT)

    def delete(self, tenant: str | None, ids: Sequence[str]) -> DeleteReport:
        """Delete records permanently."""
        return self.application.delete(tenant or DEFAULT_TENANT, ids)

    def delete_document(self, tenant: str | None, document: str) -> int:
        """Delete a document's records permanently; return how many there were."""
        from braid.ingestion.deleting import delete_document

        return delete_document(tenant or DEFAULT_TENANT, document, self.application).records

    def stats(self, tenant: str | None) -> Stats:
        """Return the counts of stored records, vertices and relationships."""
        from braid.api.schemas import Stats

        tenant = tenant or DEFAULT_TENANT
        return Stats.of(self.application.index.stats(tenant), self.application.graph.stats(tenant))

    def reembed(self, tenant: str | None) -> ReembedJob:
        """Re-embed outdated records, to the end in this process; or start the deployed workflow, if there is one."""
        from braid.api.schemas import ReembedJob

        application = self._with_models()
        job = application.reembed(tenant or DEFAULT_TENANT)
        if not application.settings.reembed_state_machine_arn:
            from braid import reembedding

            job = reembedding.run_to_end(application.reembedding, job)
        return ReembedJob.of(job)
