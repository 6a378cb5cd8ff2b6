"""The client: the same calls for a store in a folder, deployed stores, and a deployed Braid."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self, Unpack

from pydantic import TypeAdapter

from braid.errors import InvalidRequest, as_invalid_request
from braid.models import Question, RecordId
from braid.ports.ingestion import MissingEnds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import datetime

    from braid.api.schemas import RecordSummary, ReembedJob, Related, Stats, WriteSummary
    from braid.client.added_items import Documents
    from braid.client.argument_types import ContextFields, Moment, QuestionFields, RelatedFields
    from braid.client.documents_in_process import Added
    from braid.client.results import Fact, Results
    from braid.ingestion.deleting import DeleteReport
    from braid.models import Answer
    from braid.ports.graph_query import GraphResult
    from braid.ports.ingestion import WriteRequest
    from braid.retrieval.context.message_selection import Context, ContextQuestion
    from braid.settings import Settings

_IDS_AT_ONCE = 100
_ID: TypeAdapter[str] = TypeAdapter(RecordId)
_IDS: TypeAdapter[list[str]] = TypeAdapter(list[RecordId])


class Backend(Protocol):
    """Backend of the client: :class:`~braid.client.in_process.InProcess` or :class:`~braid.client.deployed.Deployed`.

    A tenant of None stands for the token's tenant, or in process for the default one.
    """

    @property
    def items_at_once(self) -> int:
        """Limit of items in one write."""

    @property
    def bytes_at_once(self) -> int:
        """Approximate size limit of one write, in bytes of JSON."""

    def answer(self, tenant: str | None, question: Question) -> Answer:
        """Answer a question."""

    def context(self, tenant: str | None, question: ContextQuestion) -> Context:
        """Build the context of a model's next answer."""

    def related(self, tenant: str | None, entity: str, **how: Any) -> Related:  # noqa: ANN401 - of Braid.related
        """Return the entities related to one."""

    def graph_query(self, tenant: str | None, question: Mapping[str, Any]) -> GraphResult:
        """Run a graph query."""

    def read(self, tenant: str | None, ids: Sequence[str]) -> Sequence[RecordSummary]:
        """Return the records with these ids; unknown ids are left out."""

    def records(self, tenant: str | None) -> Iterator[RecordSummary]:
        """Yield every record, in the order of their ids."""

    def write(self, tenant: str | None, request: WriteRequest) -> WriteSummary:
        """Write all items of a request, or none if one is invalid."""

    def update(
        self,
        tenant: str | None,
        record_id: str,
        change: Callable[[RecordSummary | None], WriteRequest],
    ) -> WriteSummary:
        """Write what a function makes of the record with an id, or of None if there is none."""

    def add_documents(self, tenant: str | None, path: Path) -> Added:
        """Ingest a file or folder of documents."""

    def delete(self, tenant: str | None, ids: Sequence[str]) -> DeleteReport:
        """Delete records permanently."""

    def delete_document(self, tenant: str | None, document: str) -> int:
        """Delete a document's records permanently; return how many there were."""

    def stats(self, tenant: str | None) -> Stats:
        """Return the counts of stored records, vertices and relationships."""

    def reembed(self, tenant: str | None) -> ReembedJob:
        """Re-embed outdated records, or start a job that does."""

    def close(self) -> None:
        """Close stores and connections."""


class Braid:
    """Client of one tenant's data: writes, searches and graph queries.

    >>> b = Braid("./store")  # doctest: +SKIP
    >>> b.add("The ledger is owned by the Harbour team.")  # doctest: +SKIP
    >>> for result in b.search("Who owns the ledger?"):  # doctest: +SKIP
    ...     print(result)

    Parameters
    ----------
    path
        Folder of the store, created by the first call; by default the user's own, which `braid home` shows.
    tenant
        Name of the tenant; ``default`` if not given.
    settings
        Settings instead of those of the environment.

    Raises
    ------
    InvalidRequest
        From every call, if an argument is invalid; the message names it.
    ConfigurationError
        If a setting is invalid.
    StoreError, ModelError, StoresUnavailable, ApiError
        From every call, if a store, a model or the server fails.
    """

    def __init__(
        self, path: str | Path | None = None, *, tenant: str | None = None, settings: Settings | None = None
    ) -> None:
        from braid.client.in_process import InProcess
        from braid.settings import EngineKind, read_settings

        if settings is None:
            home = {} if path is None else {"home": Path(path).expanduser()}
            settings = read_settings(engine=EngineKind.EMBEDDED, **home)
        elif path is not None:
            settings = settings.model_copy(update={"home": Path(path).expanduser().absolute()})
        self._use(InProcess(settings), tenant)

    @classmethod
    def deployed(cls, url: str, token: str, *, tenant: str | None = None, **options: Any) -> Self:  # noqa: ANN401
        """Return a client of a deployed Braid, or of `braid serve`.

        Parameters
        ----------
        url
            Address of the server, which begins with ``https://`` or ``http://``.
        token
            Bearer token.
        tenant
            Name of the tenant; required if the token belongs to several.
        options
            ``timeout_s`` and ``attempts`` of :class:`braid.client.deployed.Deployed`.
        """
        from braid.client.deployed import Deployed

        if not url.startswith(("http://", "https://")):
            raise InvalidRequest.of("url", "must begin with https:// or http://")
        if not token:
            raise InvalidRequest.of("token", "must not be empty")
        return cls._of(Deployed(url, token, **options), tenant)

    @classmethod
    def aws(cls, settings: Settings | None = None, *, tenant: str | None = None) -> Self:
        """Return a client of deployed stores (OpenSearch and Neptune), with the pipeline and models in this process.

        ``settings`` are by default those of the environment.

        Raises ConfigurationError if the settings are not for the AWS engine, or the extra ``aws`` is not installed.
        """
        from importlib.util import find_spec

        from braid.client.in_process import InProcess
        from braid.errors import ConfigurationError, needs_extra
        from braid.settings import EngineKind, read_settings

        if not (find_spec("opensearchpy") and find_spec("gremlin_python")):
            raise ConfigurationError(needs_extra("aws", "Braid.aws"))
        if settings is not None and settings.engine is not EngineKind.AWS:
            raise ConfigurationError("settings: are of a folder's store; Settings(engine='aws', …) names deployed ones")
        return cls._of(InProcess(settings or read_settings(engine=EngineKind.AWS)), tenant)

    @classmethod
    def _of(cls, backend: Backend, tenant: str | None) -> Self:
        made = cls.__new__(cls)
        made._use(backend, tenant)  # noqa: SLF001 - of this class
        return made

    def _use(self, backend: Backend, tenant: str | None) -> None:
        self._backend, self._tenant = backend, _tenant(tenant)

    def tenant(self, name: str) -> Self:
        """Return a client of the same store for another tenant; closing either closes both."""
        return self._of(self._backend, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close stores and connections."""
        self._backend.close()

    def __repr__(self) -> str:
        return f"Braid({self._backend!r}{f', tenant={self._tenant!r}' if self._tenant else ''})"

    def add(self, content: object, *, missing: MissingEnds | str = MissingEnds.REFUSE) -> Added:
        """Write texts, records, entities, relationships or documents; writing the same again changes nothing.

        Parameters
        ----------
        content
            A text; a dict or dataclass with ``text`` (and ``id``, ``title``, ``metadata`` or any field of a record),
            with ``type``, ``id`` and ``name`` for an entity, or with ``source``, ``type`` and ``target`` for a
            relationship; a record, vertex or relationship of :mod:`braid.models`; a document of LangChain or
            LlamaIndex; the path of a document, of a folder of documents (documents whose files are gone since it was
            last added are deleted), of a dataset, or of a JSON Lines file; or an iterable of these, of any length,
            which is written in batches. A text of others belongs into a dict: a string that is a path is read as such.
        missing
            What to do if an end of a relationship is not stored: ``refuse`` the relationship, or ``stub``: create an
            entity without a name.

        Returns
        -------
        Added
            Counts of written, unchanged and superseded items. Files of a folder that cannot be read are listed in
            ``skipped``, those in an uncertain encoding in ``guessed``, and a warning names them.

        Raises
        ------
        InvalidRequest
            If an item is invalid, or a file that was given by its own path cannot be read; the message names its place,
            such as ``content[3]``. Earlier batches are written all the same.
        """
        from braid.client.added_items import Documents, batches
        from braid.client.documents_in_process import Added, warning_lines
        from braid.settings import DEFAULT_TENANT

        try:
            ends = MissingEnds(missing)
        except ValueError as error:
            raise InvalidRequest.of("missing", f"must be {' or '.join(MissingEnds)}") from error
        added = Added()
        limits = {"items": self._backend.items_at_once, "size": self._backend.bytes_at_once}
        for batch in batches(content, self._tenant or DEFAULT_TENANT, **limits):
            if isinstance(batch, Documents):
                added = added.plus(self._add_documents(batch))
            else:
                added = added.plus(self._backend.write(self._tenant, batch.request(missing=ends)))
        if added.skipped or added.guessed:
            warnings.warn(warning_lines(added), stacklevel=2)
        return added

    def _add_documents(self, documents: Documents) -> Added:
        place, path = documents
        try:
            added = self._backend.add_documents(self._tenant, path)
        except OSError as error:
            read = error.filename or path
            raise InvalidRequest.of(place, f"{read} cannot be read: {error.strerror}") from error
        except InvalidRequest as error:
            raise InvalidRequest(f"{place}: {error}", field=error.field or place) from error
        if added.skipped and path.is_file():
            raise InvalidRequest.of(place, f"{path} {added.skipped[0].reason}")
        if added == type(added)():
            raise InvalidRequest.of(place, f"{path} holds no files that could be read")
        return added

    def update(self, /, id: str, **fields: Any) -> WriteSummary:  # noqa: A002, ANN401 - a record's id and fields
        """Change fields of a stored record.

        Fields are named as for :meth:`add`; the given keys of ``metadata`` are merged into the stored ones. Of
        several updates of a record at once each keeps what the others change in a store in a folder; else the last
        one wins.

        Raises InvalidRequest also if no record has the id, or if it is superseded and is to end later or never: it
        stays ended, and further fields that were given are written.
        """
        from braid.client.documents_in_process import Added

        end: datetime | None = None

        def change(stored: RecordSummary | None) -> WriteRequest:
            nonlocal end
            if stored is None:
                raise InvalidRequest.of(
                    "id", f"no record is called {id!r}; an entity without a text is changed by adding it again"
                )
            request = self._changed(stored, fields)
            end = request.records[0].invalid_at
            return request

        try:
            written = Added().plus(self._backend.update(self._tenant, _checked_id(id, "id"), change))
        except InvalidRequest as error:
            raise InvalidRequest(str(error).removeprefix("content: "), field=error.field) from error
        if "invalid_at" in fields and (stored := self.get(id)) and stored.invalid_at != end:
            raise InvalidRequest.of(
                "invalid_at",
                f"{id!r} is superseded and stays invalid from {stored.invalid_at} on; to make it valid again, delete"
                " what supersedes it and then this record, and add this one again",
            )
        return written

    def _changed(self, stored: RecordSummary, fields: Mapping[str, Any]) -> WriteRequest:
        """Return the write of a stored record with some fields changed."""
        from braid.client.added_items import Documents, batches
        from braid.models import NewRecord
        from braid.settings import DEFAULT_TENANT

        if stored.shortened:
            raise InvalidRequest.of("id", f"{stored.id!r} is too long to be read whole; add it anew")
        fields = dict(fields)
        if "text" in fields:
            fields["content"] = fields.pop("text")
        if "metadata" in fields:
            if not isinstance(fields["metadata"], Mapping):
                raise InvalidRequest.of("metadata", "must be a mapping of fields to values")
            fields["metadata"] = {**stored.metadata, **fields["metadata"]}
        if "title" in fields:
            fields["source"] = {**stored.source.model_dump(exclude_none=True), "title": fields.pop("title")}
        known = {name: getattr(stored, name) for name in NewRecord.model_fields if name != "embeddings"}
        changed = {**NewRecord(**known).model_dump(mode="json", exclude_defaults=True), **fields}
        limits = {"items": self._backend.items_at_once, "size": self._backend.bytes_at_once}
        (batch,) = batches({"record": changed}, self._tenant or DEFAULT_TENANT, **limits)
        assert not isinstance(batch, Documents)  # noqa: S101 - for the type checker
        return batch.request()

    def delete(self, ids: str | Iterable[str]) -> int:
        """Delete records, or entities without a record, permanently; return how many of the ids were deleted.

        Their relationships are deleted too, and those whose evidence they are. A relationship alone cannot be deleted;
        adding it again with ``invalid_at`` ends it.
        """
        if isinstance(ids, Mapping):  # its keys would be taken for ids
            message = "must be an id, or an iterable of ids, not a dict"
            if {"source", "target"} <= ids.keys():
                message = (
                    "a relationship is not deleted by itself: add it again with invalid_at to end it, or delete one of "
                    "its ends, or the record that is its evidence"
                )
            raise InvalidRequest.of("ids", message)
        try:
            given = iter([ids] if isinstance(ids, str) else ids)
        except TypeError as error:
            raise InvalidRequest.of("ids", "must be an id, or an iterable of ids") from error
        removed = 0
        while page := list(islice(given, _IDS_AT_ONCE)):
            with as_invalid_request({str(at): "ids" for at in range(len(page))}):
                checked = _IDS.validate_python(page)
            report = self._backend.delete(self._tenant, checked)
            removed += report.records + report.entities
        return removed

    def delete_document(self, document: str) -> int:
        """Delete a document with all its chunks permanently; return the number of deleted records.

        Parameters
        ----------
        document
            Id of the document, which is the part of its chunks' ids before the ``#``, or its title: of several
            documents of one title all are deleted. The next ingest of its folder writes it again if its file is there.
        """
        return self._backend.delete_document(self._tenant, _checked_id(document, "document"))

    def get(self, id: str) -> RecordSummary | None:  # noqa: A002 - the field's name
        """Return a stored record, without its vectors; None if there is none."""
        return next(iter(self._backend.read(self._tenant, (_checked_id(id, "id"),))), None)

    def records(self) -> Iterator[RecordSummary]:
        """Yield every record, in the order of their ids."""
        return self._backend.records(self._tenant)

    def search(self, /, question: str | Question, **fields: Unpack[QuestionFields]) -> Results:
        """Answer a question.

        Parameters
        ----------
        question
            Its text, or a :class:`~braid.models.Question`, with which ``fields`` are ignored.
        fields
            Further fields of a question: ``top_k``, ``filters``, ``as_of`` (a date, a time, or text such as
            ``2024-05-01``), ``facets``, ``graph_constraint``, ``hints``, ``intent``, ``fusion``, ``ranking``,
            ``reranker``, ``vector_weight``, ``graph_weight``, ``temporal_context``, ``explain``.
        """
        from braid.client.results import Results

        with as_invalid_request({"text": "question"}, Question.model_fields):
            asked = question if isinstance(question, Question) else Question(text=question, **fields)
        return Results(asked.text, self._backend.answer(self._tenant, asked))

    def context(
        self, /, question: str, messages: Iterable[Mapping[str, Any]] = (), **fields: Unpack[ContextFields]
    ) -> Context:
        """Build the context of a model's next answer, from the conversation and stored records.

        Parameters
        ----------
        question
            The next question, by which messages and records are chosen.
        messages
            The conversation, oldest first: chat messages such as ``{"role": "user", "content": "…"}``. Any further
            fields are allowed, and passed on unchanged.
        fields
            Further fields of :class:`~braid.retrieval.context.message_selection.ContextQuestion`: ``task_id``,
            ``tool_name``, ``metadata``, ``working_state``, ``semantic``, ``episodic``, ``ranking``, ``role``,
            ``untrusted``, ``as_of``, ``min_score``.
        """
        from braid.retrieval.context.message_selection import ContextQuestion

        with as_invalid_request({"query": "question"}, ContextQuestion.model_fields):
            asked = ContextQuestion(query=question, messages=_messages(messages), **fields)
        return self._backend.context(self._tenant, asked)

    def related(
        self,
        entity: str,
        *,
        types: Sequence[str] = (),
        direction: str = "both",
        depth: int = 1,
        limit: int = 50,
        as_of: Moment | None = None,
        trusted_only: bool = False,
    ) -> Related:
        """Return the entities related to one, fewest hops first.

        Parameters
        ----------
        entity
            Name, alias or id.
        types
            Only these relationship types.
        direction
            ``out``, ``in`` or ``both``.
        depth
            Maximum of hops, 1 to 3.
        limit
            Maximum of entities, 1 to 200.
        as_of
            Time as of which the graph is read; now if not given.
        trusted_only
            Whether untrusted entities and edges are neither traversed nor returned.
        """
        from braid.retrieval.tenant_search import RelatedQuestion

        fields = {
            "types": types,
            "direction": direction,
            "depth": depth,
            "limit": limit,
            "as_of": as_of,
            "trusted_only": trusted_only,
        }
        with as_invalid_request():
            asked = RelatedQuestion.model_validate({"entity": entity, **fields})
        return self._backend.related(self._tenant, **dict(asked))

    def facts(self, /, entity: str, **how: Unpack[RelatedFields]) -> list[Fact]:
        """Return an entity's relationships as sentences; ``how`` are the arguments of :meth:`related`."""
        from braid.client.results import facts_of

        return facts_of(self.related(entity, **how).hits)

    def graph_query(self, question: Mapping[str, Any]) -> GraphResult:
        """Run a graph query, which traverses the graph step by step.

        Its keys are start, steps, returns, order_by, limit and as_of; see
        :class:`~braid.ports.graph_query.GraphQuestion`.
        """
        return self._backend.graph_query(self._tenant, question)

    def stats(self) -> Stats:
        """Return the counts of stored records, vertices and relationships."""
        return self._backend.stats(self._tenant)

    def reembed(self) -> ReembedJob:
        """Re-embed outdated records; a deployed Braid continues after this returns."""
        return self._backend.reembed(self._tenant)


def _checked_id(given: str, argument: str) -> str:
    """Check an id and return it. Raises InvalidRequest, which names the argument, if it can be none."""
    with as_invalid_request({"request": argument}):
        return _ID.validate_python(given)


def _messages(given: Iterable[Mapping[str, Any]]) -> tuple[dict[str, Any], ...]:
    """Return the messages of a conversation. Raises InvalidRequest if they are no iterable of mappings."""
    if not isinstance(given, str | bytes | Mapping):
        with suppress(TypeError, ValueError):
            return tuple(dict(one) for one in given)
    example = '{"role": "user", "content": "…"}'
    raise InvalidRequest.of("messages", f"must be a list of chat messages such as {example}")


def _tenant(name: str | None) -> str | None:
    """Check a tenant's name and return it. Raises InvalidRequest if it is malformed."""
    from braid.ports.keys import check_tenant

    try:
        return None if name is None else check_tenant(name)
    except InvalidRequest as error:
        raise InvalidRequest(str(error).replace("tenant_id", "tenant", 1), field="tenant") from None
