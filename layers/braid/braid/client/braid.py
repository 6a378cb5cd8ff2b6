"""The client: one set of calls, which a folder, deployed stores or a deployed Braid answer."""

from __future__ import annotations

import warnings
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

from pydantic import TypeAdapter, ValidationError

from braid.errors import InvalidRequest
from braid.models import Question, RecordId
from braid.ports.ingestion import MissingEnds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from braid.api.schemas import RecordSummary, ReembedJob, Related, Stats, WriteSummary
    from braid.client.contents import Documents
    from braid.client.documents import Added
    from braid.client.results import Fact, Results
    from braid.ingestion.deleting import DeleteReport
    from braid.models import Answer
    from braid.ports.graph_query import GraphResult
    from braid.ports.ingestion import WriteRequest
    from braid.retrieval.context.selection import Context, ContextQuestion
    from braid.settings import Settings

_IDS_AT_ONCE = 100
_IDS: TypeAdapter[list[str]] = TypeAdapter(list[RecordId])


class Answering(Protocol):
    """What answers the calls: :class:`~braid.client.in_process.InProcess`, :class:`~braid.client.deployed.Deployed`.

    A tenant of None is that of the token, or the default one.
    """

    @property
    def items_at_once(self) -> int:
        """Most items of one write."""

    @property
    def bytes_at_once(self) -> int:
        """About how many bytes as JSON they may have."""

    def answer(self, tenant: str | None, question: Question) -> Answer:
        """Answer a question."""

    def context(self, tenant: str | None, question: ContextQuestion) -> Context:
        """Choose what to show a model next."""

    def related(self, tenant: str | None, entity: str, **how: Any) -> Related:  # noqa: ANN401 - of Braid.related
        """Return what is related to an entity."""

    def graph_query(self, tenant: str | None, question: Mapping[str, Any]) -> GraphResult:
        """Walk the graph step by step."""

    def read(self, tenant: str | None, ids: Sequence[str]) -> Sequence[RecordSummary]:
        """Return the records that there are."""

    def records(self, tenant: str | None) -> Iterator[RecordSummary]:
        """Yield every record, in the order of their ids."""

    def write(self, tenant: str | None, request: WriteRequest) -> WriteSummary:
        """Write all of a request, or nothing."""

    def add_documents(self, tenant: str | None, path: Path) -> Added:
        """Have a file or folder of documents read and written."""

    def delete(self, tenant: str | None, ids: Sequence[str]) -> DeleteReport:
        """Remove records for good."""

    def stats(self, tenant: str | None) -> Stats:
        """Count what is stored."""

    def reembed(self, tenant: str | None) -> ReembedJob:
        """Embed outdated records again, or have it done."""

    def close(self) -> None:
        """Close what is open."""


class Braid:
    """A store of one tenant, to write to and to ask.

    >>> b = Braid("./store")  # doctest: +SKIP
    >>> b.add("The ledger is owned by the Harbour team.")  # doctest: +SKIP
    >>> for result in b.search("Who owns the ledger?"):  # doctest: +SKIP
    ...     print(result)

    Parameters
    ----------
    path
        Folder of the store, made when it is first written to; the user's own (`braid home` shows it) when not given.
    tenant
        Whose data; ``default`` when not given.
    settings
        Any others than those of the environment.

    Raises
    ------
    InvalidRequest
        From every call, if an argument is wrong; it is named.
    ConfigurationError
        If a setting is wrong.
    StoreError, ModelError, StoresUnavailable, ApiError
        From every call, if what it needs does not answer.
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
            settings = settings.model_copy(update={"home": Path(path).expanduser()})
        self._answered_by(InProcess(settings), tenant)

    @classmethod
    def deployed(cls, url: str, token: str, *, tenant: str | None = None, **options: Any) -> Self:  # noqa: ANN401
        """Return a deployed Braid, or one that `braid serve` runs.

        Parameters
        ----------
        tenant
            Which tenant is meant, where the token belongs to several.
        options
            ``timeout_s`` and ``attempts`` of :class:`braid.client.deployed.Deployed`.
        """
        from braid.client.deployed import Deployed

        if not url.startswith(("http://", "https://")):
            raise InvalidRequest("url: must begin with https:// or http://", field="url")
        if not token:
            raise InvalidRequest("token: must not be empty", field="token")
        return cls._of(Deployed(url, token, **options), tenant)

    @classmethod
    def aws(cls, settings: Settings | None = None, *, tenant: str | None = None) -> Self:
        """Return deployed stores, asked and written by this process; by the environment's settings when none are given.

        Raises ConfigurationError if the settings name no stores, or the extra ``aws`` is not installed.
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
    def _of(cls, asked: Answering, tenant: str | None) -> Self:
        made = cls.__new__(cls)
        made._answered_by(asked, tenant)  # noqa: SLF001 - of this class
        return made

    def _answered_by(self, asked: Answering, tenant: str | None) -> None:
        self._asked, self._tenant = asked, _tenant(tenant)

    def tenant(self, name: str) -> Self:
        """Return the same store for another tenant; closing either closes both."""
        return self._of(self._asked, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close stores and connections."""
        self._asked.close()

    def __repr__(self) -> str:
        return f"Braid({self._asked!r}{f', tenant={self._tenant!r}' if self._tenant else ''})"

    def add(self, content: object, *, missing: MissingEnds | str = MissingEnds.REFUSE) -> Added:
        """Write something; writing it again changes nothing.

        Parameters
        ----------
        content
            A text; a dict or dataclass with ``text`` (and ``id``, ``title``, ``metadata`` or any field of a record),
            with ``type``, ``id`` and ``name`` for an entity, or with ``source``, ``type`` and ``target`` for a
            relationship; a record, vertex or relationship of :mod:`braid.models`; a document of LangChain or
            LlamaIndex; a path of a document, of a folder of documents, which is kept as it is now, of a dataset or of a
            file of lines; or an iterable of these, of any length, which is written in batches.
        missing
            ``stub`` makes an entity without a name where a relationship leads to nothing stored, ``refuse`` does not.

        Returns
        -------
        Added
            How much was written, unchanged and superseded. Files of a folder that cannot be read are its ``skipped``,
            and a warning names them.

        Raises
        ------
        InvalidRequest
            If an item is wrong, or a file that was named itself cannot be read; names its place, such as
            ``content[3]``. Batches before its own are written.
        """
        from braid.client.contents import Documents, batches
        from braid.client.documents import Added, skipped_lines
        from braid.settings import DEFAULT_TENANT

        try:
            ends = MissingEnds(missing)
        except ValueError as error:
            raise InvalidRequest(f"missing: must be {' or '.join(MissingEnds)}", field="missing") from error
        added = Added()
        limits = {"items": self._asked.items_at_once, "size": self._asked.bytes_at_once}
        for batch in batches(content, self._tenant or DEFAULT_TENANT, **limits):
            if isinstance(batch, Documents):
                added = added.plus(self._add_documents(batch))
            else:
                added = added.plus(self._asked.write(self._tenant, batch.request(missing=ends)))
        if added.skipped:
            warnings.warn(skipped_lines(added.skipped), stacklevel=2)
        return added

    def _add_documents(self, documents: Documents) -> Added:
        place, path = documents
        try:
            added = self._asked.add_documents(self._tenant, path)
        except OSError as error:
            read = error.filename or path
            raise InvalidRequest(f"{place}: {read} cannot be read: {error.strerror}", field=place) from error
        except InvalidRequest as error:
            raise InvalidRequest(f"{place}: {error}", field=error.field or place) from error
        if added.skipped and path.is_file():
            raise InvalidRequest(f"{place}: {path} {added.skipped[0].reason}", field=place)
        if added == type(added)():
            raise InvalidRequest(f"{place}: {path} holds no files that could be read", field=place)
        return added

    def update(self, /, id: str, **fields: Any) -> WriteSummary:  # noqa: A002, ANN401 - a record's id and fields
        """Change fields of a stored record: as :meth:`add` names them, and of ``metadata`` the given keys.

        Raises InvalidRequest if no record has the id, or a field is wrong, as well.
        """
        from braid.models import NewRecord

        stored = self.get(id)
        if stored is None:
            raise InvalidRequest(f"id: no record is called {id!r}", field="id")
        if stored.shortened:
            raise InvalidRequest(f"id: {id!r} is too long to be read whole; add it anew", field="id")
        if "text" in fields:
            fields["content"] = fields.pop("text")
        if "metadata" in fields:
            fields["metadata"] = {**stored.metadata, **fields["metadata"]}
        if "title" in fields:
            fields["source"] = {**stored.source.model_dump(exclude_none=True), "title": fields.pop("title")}
        known = {name: getattr(stored, name) for name in NewRecord.model_fields if name != "embeddings"}
        changed = {**NewRecord(**known).model_dump(mode="json", exclude_defaults=True), **fields}
        try:
            return self.add({"record": changed})
        except InvalidRequest as error:
            raise InvalidRequest(str(error).removeprefix("content: "), field=error.field) from error

    def delete(self, ids: str | Iterable[str]) -> int:
        """Remove records for good, or entities without one; return how many records there were."""
        given = iter([ids] if isinstance(ids, str) else ids)
        removed = 0
        while page := list(islice(given, _IDS_AT_ONCE)):
            try:
                checked = _IDS.validate_python(page)
            except ValidationError as error:
                raise InvalidRequest.from_validation(error, {str(at): "ids" for at in range(len(page))}) from error
            removed += self._asked.delete(self._tenant, checked).records
        return removed

    def get(self, id: str) -> RecordSummary | None:  # noqa: A002 - the field's name
        """Return a record as it is stored, without its vectors; None where there is none."""
        return next(iter(self._asked.read(self._tenant, (id,))), None)

    def records(self) -> Iterator[RecordSummary]:
        """Yield every record, in the order of their ids."""
        return self._asked.records(self._tenant)

    def search(self, /, question: str | Question, **fields: Any) -> Results:  # noqa: ANN401 - the fields of a question
        """Answer a question.

        Parameters
        ----------
        question
            Its text, or a :class:`~braid.models.Question`.
        fields
            Others of a question: ``top_k``, ``filters``, ``as_of``, ``hints``, ``explain`` …
        """
        from braid.client.results import Results

        try:
            asked = question if isinstance(question, Question) else Question(text=question, **fields)
        except ValidationError as error:
            raise InvalidRequest.from_validation(error, {"text": "question"}, Question.model_fields) from error
        return Results(asked.text, self._asked.answer(self._tenant, asked))

    def context(self, /, question: str, messages: Iterable[Mapping[str, Any]] = (), **fields: Any) -> Context:  # noqa: ANN401
        """Choose what to show a model next, of the conversation so far and of what is stored.

        Parameters
        ----------
        messages
            The conversation, oldest first.
        fields
            Others of :class:`~braid.retrieval.context.selection.ContextQuestion`: ``task_id``, ``role`` …
        """
        from braid.retrieval.context.selection import ContextQuestion

        try:
            asked = ContextQuestion(query=question, messages=tuple(dict(one) for one in messages), **fields)
        except ValidationError as error:
            raise InvalidRequest.from_validation(error, {"query": "question"}, ContextQuestion.model_fields) from error
        return self._asked.context(self._tenant, asked)

    def related(
        self,
        entity: str,
        *,
        types: Sequence[str] = (),
        direction: str = "both",
        depth: int = 1,
        limit: int = 50,
        as_of: datetime | None = None,
        trusted_only: bool = False,
    ) -> Related:
        """Return the entities related to one, the nearest first.

        Parameters
        ----------
        entity
            Name, alias or id.
        types
            Only these relationship types.
        direction
            ``out``, ``in`` or ``both``.
        depth
            Most hops, 1 to 3.
        limit
            Most entities, 1 to 200.
        trusted_only
            Whether entities and edges that are not trusted are neither walked nor returned.
        """
        return self._asked.related(
            self._tenant,
            entity,
            types=tuple(types),
            direction=direction,
            depth=depth,
            limit=limit,
            as_of=as_of,
            trusted_only=trusted_only,
        )

    def facts(self, /, entity: str, **how: Any) -> list[Fact]:  # noqa: ANN401 - as of related
        """Return the relationships about an entity as sentences; ``how`` are the arguments of :meth:`related`."""
        from braid.client.results import facts_of

        return facts_of(self.related(entity, **how).hits)

    def graph_query(self, question: Mapping[str, Any]) -> GraphResult:
        """Walk the graph step by step: start, steps, returns, order_by, limit, as_of."""
        return self._asked.graph_query(self._tenant, question)

    def stats(self) -> Stats:
        """Count what is stored."""
        return self._asked.stats(self._tenant)

    def reembed(self) -> ReembedJob:
        """Embed outdated records again; a deployed Braid goes on with it after this returns."""
        return self._asked.reembed(self._tenant)


def _tenant(name: str | None) -> str | None:
    """Return a tenant's name, if it is one."""
    from braid.ports.keys import check_tenant

    try:
        return None if name is None else check_tenant(name)
    except InvalidRequest as error:
        raise InvalidRequest(str(error).replace("tenant_id", "tenant", 1), field="tenant") from None
