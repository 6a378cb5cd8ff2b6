"""The retry policy of OpenSearch, Neptune, DynamoDB and parts of S3 objects, and the deadline of one call to a store.

It is used by ``opensearch/client.py`` and ``bulk.py``, ``neptune/connection.py`` and modules of ``aws/``, with the
numbers of attempts in ``…_attempts`` of :mod:`braid.settings`. These modules also set the time-outs of single requests
when they open a client, from ``…_timeout_s``.

Other retries are separate: botocore's in each AWS client (:mod:`braid.engines.aws.clients`), urllib3's in the HTTP
client (:mod:`braid.client.deployed`), those of hosted rerankers (:mod:`braid.engines.rerankers.hosted_calls`), of a
question's stages (``_retrying`` in :mod:`braid.retrieval.pipeline`), of reads of an object that is replaced meanwhile
(``retry_if_replaced`` in :mod:`braid.ports.object_store`), and of concurrent changes of one value
(:mod:`braid.reembedding.jobs`, :mod:`braid.ingestion.bulk.manifest`, :mod:`braid.retrieval.use_counts`).
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from tenacity import Retrying, retry_if_exception_type, wait_random_exponential

from braid import deadline
from braid.errors import StoreTooSlow, TransientStoreError

if TYPE_CHECKING:
    from collections.abc import Iterator


class CallDeadline(NamedTuple):
    """The deadline of one call to a store or service, in seconds of the monotonic clock.

    It is passed as an argument and raises nothing. The deadline of the whole request is a context variable,
    :mod:`braid.deadline`, from which :meth:`of_request` makes a ``CallDeadline``.
    """

    at: float

    @classmethod
    def after(cls, seconds: float) -> CallDeadline:
        """Return the deadline that many seconds from now."""
        return cls(time.monotonic() + seconds)

    @classmethod
    def of_request(cls) -> CallDeadline:
        """Return the deadline of the request that this thread works for; one that never passes if there is none."""
        return cls.after(0.0 if deadline.is_over() else deadline.left())

    def left(self) -> float:
        """Return the remaining seconds, 0 after the deadline."""
        return max(0.0, self.at - time.monotonic())

    def is_over(self) -> bool:
        """Return whether the deadline has passed."""
        return time.monotonic() >= self.at


def retrying(
    attempts: int, *, until: CallDeadline | None = None, pause_s: float = 0.1, longest_pause_s: float = 2.0
) -> Retrying:
    """Return the retry policy for transient errors: bounded attempts, pauses with full jitter.

    Parameters
    ----------
    attempts
        Most attempts, the first included.
    until
        Deadline of further attempts and of the pauses between them; None for no deadline.
    pause_s, longest_pause_s
        Upper bound in seconds of the first pause, and of any; it doubles with each attempt.
    """
    end = until or CallDeadline(float("inf"))
    return Retrying(
        stop=lambda state: state.attempt_number >= attempts or end.is_over(),
        wait=wait_random_exponential(multiplier=pause_s, max=longest_pause_s),
        retry=retry_if_exception_type(TransientStoreError),
        sleep=lambda seconds: time.sleep(min(seconds, end.left())),
        reraise=True,
    )


@contextmanager
def too_slow_after(until: CallDeadline, message: str) -> Iterator[None]:
    """Convert transient errors after a deadline to StoreTooSlow.

    Raises StoreTooSlow with the message, if a transient error is raised after the deadline.
    """
    try:
        yield
    except TransientStoreError as error:
        if not until.is_over():
            raise
        raise StoreTooSlow(message) from error
