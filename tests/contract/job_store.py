"""What every job store must do."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from braid.ports.reembedding import JobRecord, JobStore

if TYPE_CHECKING:
    from collections.abc import Sequence


def job(name: str, revision: int, body: str = "{}") -> JobRecord:
    return JobRecord(name=name, revision=revision, body=body)


class JobStoreContract:
    """Subclass this and provide the fixture ``jobs``: a job store that is empty for every test."""

    def test_the_port_is_implemented(self, jobs: JobStore) -> None:
        assert isinstance(jobs, JobStore)

    def test_a_job_that_was_never_written_is_none(self, jobs: JobStore) -> None:
        assert jobs.get("refresh") is None
        assert jobs.names() == []

    def test_a_job_comes_back_as_it_was_last_written(self, jobs: JobStore) -> None:
        assert jobs.put(job("refresh", 1, "first"))
        assert jobs.put(job("refresh", 2, "second é \u2028"))
        assert jobs.get("refresh") == job("refresh", 2, "second é \u2028")

    def test_whoever_is_not_next_writes_nothing(self, jobs: JobStore) -> None:
        assert not jobs.put(job("refresh", 2))
        assert jobs.put(job("refresh", 1, "first"))
        for revision in (1, 3):
            assert not jobs.put(job("refresh", revision, "late"))
        assert jobs.get("refresh") == job("refresh", 1, "first")

    def test_of_several_writers_at_once_one_is_first(self, jobs: JobStore) -> None:
        with ThreadPoolExecutor(max_workers=4) as pool:
            written: Sequence[bool] = list(pool.map(lambda n: jobs.put(job("move", 1, str(n))), range(8)))
        assert written.count(True) == 1
        assert jobs.get("move") == job("move", 1, str(written.index(True)))

    def test_jobs_are_named_in_order(self, jobs: JobStore) -> None:
        for name in ("refresh:b", "move", "refresh", "refresh:a"):
            jobs.put(job(name, 1))
        assert jobs.names() == ["move", "refresh", "refresh:a", "refresh:b"]

    def test_a_job_that_is_removed_begins_anew(self, jobs: JobStore) -> None:
        assert not jobs.remove("refresh:a")
        for revision in (1, 2):
            jobs.put(job("refresh:a", revision))
        assert jobs.remove("refresh:a")
        assert jobs.get("refresh:a") is None
        assert not jobs.put(job("refresh:a", 3))
        assert jobs.put(job("refresh:a", 1))
