"""Chooses and opens encoders and rerankers by the settings, with their number of threads.

:mod:`braid.understanding.intent` decides whether a question is embedded by the general or the code model.
"""

from __future__ import annotations

import logging
import threading
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from braid.errors import StoreError
from braid.models import RerankerKind
from braid.models.embedding_models import AUTO, models_of, resolve
from braid.models.query import check_reranker
from braid.opened_engines import OpenedEngines, opened_once
from braid.ports.reembedding import MigrationState
from braid.settings import EngineKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from braid.engines.onnx.encoders import OnnxEncoder
    from braid.engines.rerankers.selection import LazyReranker
    from braid.models import EmbeddingType
    from braid.models.embedding_models import ModelConfig
    from braid.ports.encoder import Encoder, Reranker
    from braid.reembedding import Services
    from braid.settings import Settings

_LOG = logging.getLogger(__name__)
_MOST_BATCHES = 8
"""Most batches that an encoder runs at once, as each takes memory; further threads work on the same batches."""


class ServedProfiles:
    """The model profiles that an index serves, cached for some seconds.

    Parameters
    ----------
    read
        Reads the state from the index.
    default
        Profile of an index that was never migrated, or that has never answered.
    keep_s
        Seconds for which a result is cached, and for which a failing index is not asked again.
    clock
        Monotonic clock, in seconds.
    """

    def __init__(
        self,
        read: Callable[[], MigrationState],
        default: str,
        *,
        keep_s: float,
        log_level: int = logging.WARNING,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read = read
        self._default = default
        self._keep_s = keep_s
        self._log_level = log_level
        self._clock = clock
        self._known = MigrationState()
        self._until = float("-inf")
        self._lock = threading.Lock()

    def active(self) -> str:
        """Return the profile whose models embed questions."""
        return self._now().active or self._default

    def all(self) -> tuple[str, ...]:
        """Return the profiles in whose spaces records are written, the active one first."""
        return self._now().served(self._default)

    def _now(self) -> MigrationState:
        with self._lock:
            if self._clock() >= self._until:
                try:
                    self._known = self._read()
                except StoreError as error:
                    message = "the active model profile cannot be read: %s: %s"
                    _LOG.log(self._log_level, message, type(error).__name__, error)
                self._until = self._clock() + self._keep_s
            return self._known


class OpenedModels(OpenedEngines):
    """The engines, and the models: encoders and rerankers."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._encoders: dict[tuple[str, int], OnnxEncoder] = {}

    @opened_once
    def spaces(self) -> dict[str, ModelConfig]:
        """Every embedding space that vectors may be stored in, with its model."""
        return self.profiles.spaces()

    @property
    def allow_supplied_vectors(self) -> bool:
        """Whether records may come with vectors of their own."""
        return self.settings.allow_supplied_vectors

    @opened_once
    def _served(self) -> ServedProfiles:
        # The embedded engine reads the state cheaply, so that it need not be cached.
        embedded = self.settings.engine is EngineKind.EMBEDDED
        keep_s = 0.0 if embedded else self.settings.profile_cache_s
        # It is in the file of the records: if that cannot be opened, the call that reads records reports it.
        log_level = logging.INFO if embedded else logging.WARNING

        def read() -> MigrationState:
            return self.migration.serving()  # opened here, where a store that cannot be opened is tolerated

        return ServedProfiles(read, self.settings.model_profile, keep_s=keep_s, log_level=log_level)

    def active_profile(self) -> str:
        """Return the profile whose models embed questions: the last index migration's, else the settings'."""
        if self.settings.embedding_model != AUTO:
            return self.settings.model_profile
        return self._served.active()

    def model_for(self, embedding_type: EmbeddingType, model_id: str | None = None) -> ModelConfig:
        """Return the model that embeds a type of question: the one named, or the active profile's."""
        forced = model_id or self.settings.embedding_model
        if forced != AUTO:
            return self.profiles.model(forced)
        return resolve(self.profiles, self.active_profile(), embedding_type)

    def models(self) -> tuple[ModelConfig, ...]:
        """Return the distinct models in whose spaces a record is embedded when it is written.

        The models of the active profile, and of a second one during a migration or while it can be undone. Call it for
        each batch, as a migration changes the result.
        """
        if self.settings.embedding_model != AUTO:
            return (self.profiles.model(self.settings.embedding_model),)
        found = [model for name in self._served.all() for model in models_of(self.profiles, name)]
        return tuple({model.id: model for model in found}.values())

    @opened_once
    def reembedding(self) -> Services:
        """The services that re-embedding uses."""
        from braid.ingestion.writer_slots import share_of_writers, writing_in_bulk
        from braid.reembedding import ReembeddingLimits, Services

        settings = self.settings
        return Services(
            index=self.index,
            migration=self.migration,
            jobs=self.jobs,
            schemas=self.schemas,
            advance=self.cache.advance,
            encoder_for=self.encoder_for,
            profiles=self.profiles,
            profile=settings.model_profile,
            now=lambda: datetime.now(UTC),
            seconds=time.monotonic,
            sleep=time.sleep,
            forced_model=settings.embedding_model,
            limits=ReembeddingLimits(
                page=settings.reembed_page,
                texts_per_s=settings.reembed_texts_per_s,
                min_drift=settings.reembed_min_drift,
                sample=settings.reembed_sample,
                tolerance=settings.reembed_tolerance,
                writers=settings.ingest_writers,
                writers_of_a_tenant=share_of_writers(settings.ingest_writers),
            ),
            writer=lambda tenant: writing_in_bulk(self.cache, settings.ingest_writers, tenant_id=tenant),
        )

    def make_models(self, on_progress: Callable[[int, int], None] = lambda _done, _of: None) -> None:
        """Make the missing models that the settings use, by entry points of installed packages.

        Such an entry point has the group ``braid.models`` and the model's id as its name. It is a function of the
        folder of models and ``on_progress``. The command line has one for the default model.

        Raises ModelError or StoreError if a model that is there does not verify, or one cannot be made.
        """
        from importlib.metadata import entry_points

        for model in self.models():
            for maker in entry_points(group="braid.models", name=model.id):
                maker.load()(self.settings.models_path(), on_progress)

    def encoder_for(self, model: ModelConfig, *, threads: int | None = None) -> Encoder:
        """Return a model's encoder, loaded once per process.

        Parameters
        ----------
        threads
            For many texts: how many batches run at once, each on a thread. None for questions: one batch at a time, on
            as many threads as the settings say.

        Raises ModelError if its folder is missing, tampered with or not a model, or its vectors are not as long as
        configured.
        """
        from braid.engines.onnx.encoders import OnnxEncoder
        from braid.engines.onnx.model_files import ModelKind, open_model

        shared = self.settings.encoder_threads if threads is None else 1 + max(0, threads - _MOST_BATCHES)
        with self._opening:
            encoder = self._encoders.get((model.id, shared))
            if encoder is None:
                folder = self.settings.models_path() / model.id
                open_model(folder, ModelKind.ENCODER, dimension=model.dimension)
                encoder = self._encoders[model.id, shared] = OnnxEncoder.load(folder, threads=shared)
        return encoder if threads is None else encoder.for_bulk(min(threads, _MOST_BATCHES))

    @opened_once
    def _rerankers(self) -> dict[RerankerKind, LazyReranker]:
        from braid.engines.rerankers.selection import LazyReranker

        return {kind: LazyReranker(kind, self.settings) for kind in RerankerKind}

    def open_reranker(self) -> None:
        """Open the reranker that the settings name, if any, ahead of the first question.

        Raises ConfigurationError or ModelError if it cannot be opened.
        """
        if self.settings.reranker is not RerankerKind.NONE:
            self._rerankers[self.settings.reranker].open()

    def reranker_for(self, asked: RerankerKind | None) -> Reranker | None:
        """Return the reranker that the question or else the settings select; None keeps the fused order.

        Raises InvalidRequest if it is hosted and not allowed.
        """
        check_reranker(asked, self.settings.hosted_rerankers)
        kind = self.settings.reranker if asked is None else asked
        return None if kind is RerankerKind.NONE else self._rerankers[kind]
