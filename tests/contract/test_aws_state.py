"""The cache, the queue and the objects in AWS keep the contracts, and say what went wrong in this project's errors."""

from __future__ import annotations

import itertools
import time
from http.server import BaseHTTPRequestHandler
from socket import create_server
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.exceptions import ClientError, ReadTimeoutError
from braid.engines import retries_and_deadlines
from braid.engines.aws.dynamodb_cache import DynamoCache
from braid.engines.aws.dynamodb_graph_counts import DynamoCounts
from braid.engines.aws.s3 import S3ObjectStore
from braid.engines.aws.sqs import SqsQueue
from braid.errors import ConfigurationError, StoreError, TransientStoreError
from braid.models.records import MAX_TENANT_TYPES
from braid.ports.cache import ResilientCache
from braid.ports.message_queue import QueueMessage
from braid.settings import Settings
from moto import mock_aws

from tests.contract.cache import CacheContract
from tests.contract.object_store import ObjectStoreContract
from tests.contract.queue import MAX_RECEIVES, QueueContract
from tests.contract.shapes import ACME, GLOBEX, Clock
from tests.contract.stored_counts import MemoryCounts, StoredCountsContract
from tests.dynamo_table import cache_table
from tests.loopback import listening

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TABLE = "values"
BUCKET = "files"
PART_BYTES = 5 * 1024 * 1024  # no smaller one is accepted
SETTINGS = Settings(
    cache_table=TABLE,
    cache_timeout_s=0.2,
    objects_bucket=BUCKET,
    s3_timeout_s=0.2,
    s3_attempts=1,
    reembed_queue_url="https://sqs.eu-west-1.amazonaws.com/123456789012/work.fifo",
    sqs_timeout_s=0.2,
    sqs_attempts=1,
)
WITHIN_S = 3.0
"""Far above every time-out here, far below what a client waits by itself."""


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")


@pytest.fixture
def clock() -> Clock:
    return Clock()


class TestMemoryCounts(StoredCountsContract):
    """The stand-in that suites of deployed stores use."""

    @pytest.fixture
    def counts(self) -> MemoryCounts:
        return MemoryCounts()


class TestDynamoCounts(StoredCountsContract):
    @pytest.fixture
    def counts(self) -> Iterator[DynamoCounts]:
        with mock_aws():
            yield DynamoCounts(cache_table(TABLE), TABLE)

    def test_a_change_whose_answer_is_lost_is_counted_once(
        self, counts: DynamoCounts, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Otherwise a type would be counted down to nothing of which one is left, and no fact of it be looked up."""
        update, lost = counts._client.update_item, 0

        def update_item(**request: Any) -> dict[str, Any]:
            nonlocal lost
            answer = update(**request)
            if lost < 2:
                lost += 1
                raise ReadTimeoutError(endpoint_url="https://dynamodb")
            return dict(answer)

        counts.replace(ACME, {"edges/CAUSES": 2, "edges/OLD": 1})
        monkeypatch.setattr(retries_and_deadlines.time, "sleep", lambda _: None)
        monkeypatch.setattr(counts._client, "update_item", update_item)
        assert counts.add(ACME, {"edges/CAUSES": -1, "edges/OLD": -1})
        assert counts.read(ACME) == {"edges/CAUSES": 1, "records": 0}
        lost = 0
        assert not counts.add(GLOBEX, {"edges/CAUSES": 1})


def test_the_counts_of_as_many_types_as_a_graph_may_have_leave_half_of_an_item_free() -> None:
    types = [f"N{number:063}" for number in range(MAX_TENANT_TYPES)]
    counts = {f"{what}/{kind}": 10**9 for kind in types for what in ("vertices", "edges", "sources", "targets")}
    with mock_aws():
        stored = DynamoCounts(cache_table(TABLE), TABLE)
        stored.replace(ACME, counts)
        (item,) = boto3.client("dynamodb").scan(TableName=TABLE)["Items"]
    size = sum(len(name) + 21 for name in item)  # of a number at most 21 bytes
    assert size < 200 * 1024


def test_a_forgotten_tenant_has_no_counts(clock: Clock) -> None:
    with mock_aws():
        table = cache_table(TABLE)
        counts = DynamoCounts(table, TABLE)
        for tenant in (ACME, GLOBEX):
            counts.replace(tenant, {"records": 1})
        DynamoCache(table, TABLE, clock=clock.seconds).forget(ACME)
        assert (counts.read(ACME), counts.read(GLOBEX)) == (None, {"records": 1})


class TestDynamoCache(CacheContract):
    @pytest.fixture
    def cache(self, clock: Clock) -> Iterator[DynamoCache]:
        with mock_aws():
            yield DynamoCache(cache_table(TABLE), TABLE, clock=clock.seconds)

    def test_what_has_expired_is_a_miss_while_dynamodb_still_keeps_it(self, cache: DynamoCache, clock: Clock) -> None:
        cache.put(ACME, "a", b"1", 60)
        clock.advance(61)
        assert cache.get(ACME, "a") is None
        (item,) = boto3.client("dynamodb").scan(TableName=TABLE)["Items"]
        assert int(item["expires_at"]["N"]) == int(clock.seconds()) - 1  # whole seconds: what time to live reads

    def test_a_tenant_is_removed_from_a_table_that_throttles_whoever_scans_it(
        self, cache: DynamoCache, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Of thousands of pages some are throttled, or take longer than a value is waited for."""
        requests = itertools.count()

        def often_throttled(call: Callable[..., dict[str, Any]], **limit: int) -> Callable[..., dict[str, Any]]:
            def asked(**request: Any) -> dict[str, Any]:
                if next(requests) % 3:
                    error = {"Error": {"Code": "ProvisionedThroughputExceededException"}}
                    raise ClientError(error, call.__name__)  # type: ignore[arg-type]
                return call(**request, **limit)

            return asked

        monkeypatch.setattr(retries_and_deadlines.time, "sleep", lambda _: None)
        for number in range(6):
            cache.put(ACME, str(number), b"1", 60)
            cache.put(GLOBEX, str(number), b"1", 60)
        client = cache._client
        monkeypatch.setattr(client, "scan", often_throttled(client.scan, Limit=2))
        monkeypatch.setattr(client, "delete_item", often_throttled(client.delete_item))
        assert cache.forget(ACME) == 6
        assert [cache.get(ACME, str(number)) for number in range(6)] == [None] * 6
        assert cache.get(GLOBEX, "5") == b"1"

    def test_a_tenant_is_removed_with_what_was_kept_a_moment_ago(
        self, cache: DynamoCache, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked: list[dict[str, Any]] = []
        scan = cache._client.scan
        monkeypatch.setattr(cache._client, "scan", lambda **request: (asked.append(request), scan(**request))[1])
        cache.put(ACME, "a", b"1", 60)
        assert cache.forget(ACME) == 1
        assert [request["ConsistentRead"] for request in asked] == [True]  # moto's reads are, whatever is asked


class TestSqsQueue(QueueContract):
    @pytest.fixture
    def queue(self, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqsQueue]:
        monkeypatch.setattr("moto.sqs.models.unix_time", clock.seconds)
        monkeypatch.setattr("moto.sqs.models.unix_time_millis", lambda: clock.seconds() * 1000)
        with mock_aws():
            client = boto3.client("sqs")
            fifo = {"FifoQueue": "true"}
            dead = client.create_queue(QueueName="dead.fifo", Attributes=fifo)["QueueUrl"]
            arn = client.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
            redrive = f'{{"deadLetterTargetArn": "{arn}", "maxReceiveCount": {MAX_RECEIVES}}}'
            client.create_queue(QueueName="work.fifo", Attributes={**fifo, "RedrivePolicy": redrive})
            yield SqsQueue.connect(SETTINGS)

    @pytest.fixture
    def send_raw(self) -> Callable[[str], None]:
        def send(text: str) -> None:
            boto3.client("sqs").send_message(
                QueueUrl=SETTINGS.reembed_queue_url,
                MessageBody=text,
                MessageDeduplicationId="raw",
                MessageGroupId="raw",
            )

        return send

    @pytest.fixture
    def set_aside(self) -> Callable[[], int]:
        def count() -> int:
            name = "ApproximateNumberOfMessages"
            url = SETTINGS.reembed_queue_url.replace("work", "dead")
            found = boto3.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=[name])
            return int(found["Attributes"][name])

        return count


class TestS3ObjectStore(ObjectStoreContract):
    @pytest.fixture
    def part_bytes(self) -> int:
        return PART_BYTES

    @pytest.fixture
    def objects(self) -> Iterator[S3ObjectStore]:
        with mock_aws():
            client = boto3.client("s3")
            client.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
            yield S3ObjectStore(client, BUCKET, part_bytes=PART_BYTES, read_attempts=1)

    @pytest.fixture
    def put_many(self, objects: S3ObjectStore) -> Callable[[list[str]], None]:
        def put(keys: list[str]) -> None:
            for key in keys:
                objects.put(ACME, key, b"")

        return put

    def test_what_somebody_else_put_in_the_bucket_is_deleted_with_the_rest(self, objects: S3ObjectStore) -> None:
        """The console's "create folder" makes an object whose key ends in a slash; here nothing can be put there."""
        for key in ("acme/inbox/", "acme/a//b", "acme/inbox/a.jsonl"):
            boto3.client("s3").put_object(Bucket=BUCKET, Key=key, Body=b"")
        objects.delete_many(ACME, [found.key for found in objects.list(ACME)])
        assert not list(objects.list(ACME))

    @pytest.mark.parametrize("character", ["\x01", "\x0b", "\x1f", "\ufffe", "\r", "&<\x7f\x85>"])
    def test_an_object_whose_key_no_xml_can_hold_keeps_none_from_being_deleted(
        self, objects: S3ObjectStore, character: str
    ) -> None:
        for key in (f"acme/inbox/a{character}", "acme/inbox/a.jsonl", f"globex/inbox/a{character}"):
            boto3.client("s3").put_object(Bucket=BUCKET, Key=key, Body=b"")
        objects.delete_many(ACME, [found.key for found in objects.list(ACME)])
        assert not list(objects.list(ACME))
        assert len(list(objects.list(GLOBEX))) == 1

    def test_a_source_that_fails_leaves_no_parts_to_pay_for(self, objects: S3ObjectStore) -> None:
        class Failing:
            left = 4

            def read(self, size: int) -> bytes:
                self.left -= 1
                if self.left < 0:
                    raise OSError("gone")
                return b"x" * size

        with pytest.raises(OSError, match="gone"):
            objects.put(ACME, "a", Failing())  # type: ignore[arg-type]
        assert "Uploads" not in boto3.client("s3").list_multipart_uploads(Bucket=BUCKET)


@pytest.mark.parametrize(
    ("codes", "kind"),
    [(["SlowDown"], TransientStoreError), (["AccessDenied"], StoreError), (["SlowDown", "AccessDenied"], StoreError)],
)
def test_objects_that_a_whole_request_left_out_are_told_of(codes: list[str], kind: type[StoreError]) -> None:
    class Partly:
        def delete_objects(self, **_: object) -> dict[str, Any]:
            return {"Errors": [{"Key": "acme/a", "Code": code} for code in codes]}

    objects = S3ObjectStore(Partly(), BUCKET)  # type: ignore[arg-type]
    with pytest.raises(kind, match=f"{len(codes)} objects not removed") as caught:
        objects.delete_many(ACME, ["a", "b"])
    assert type(caught.value) is kind


CALLS: dict[str, Callable[[], object]] = {
    "dynamodb": lambda: DynamoCache.connect(SETTINGS).get(ACME, "a"),
    "sqs": lambda: SqsQueue.connect(SETTINGS).depth(),
    "s3": lambda: S3ObjectStore.connect(SETTINGS).open(ACME, "a"),
}


@pytest.mark.parametrize("service", CALLS)
def test_an_endpoint_that_refuses_is_worth_trying_again(service: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    monkeypatch.setenv(f"AWS_ENDPOINT_URL_{service.upper()}", f"http://127.0.0.1:{port}")
    started = time.monotonic()
    with pytest.raises(TransientStoreError, match="EndpointConnectionError") as refused:
        CALLS[service]()
    assert not refused.value.maybe_done
    assert time.monotonic() - started < WITHIN_S


@pytest.mark.parametrize("service", CALLS)
def test_an_endpoint_that_never_answers_is_given_up_in_time(service: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv(f"AWS_ENDPOINT_URL_{service.upper()}", f"http://127.0.0.1:{silent.getsockname()[1]}")
        started = time.monotonic()
        with pytest.raises(TransientStoreError, match="ReadTimeoutError") as lost:
            CALLS[service]()
        assert lost.value.maybe_done
        assert time.monotonic() - started < WITHIN_S


def test_a_cache_that_never_answers_is_a_miss_and_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", f"http://127.0.0.1:{silent.getsockname()[1]}")
        cache = ResilientCache(DynamoCache.connect(SETTINGS))
        started = time.monotonic()
        for _ in range(50):
            assert cache.generation(ACME) is None
            assert cache.get(ACME, "a") is None
            cache.put(ACME, "a", b"1", 60)
        assert time.monotonic() - started < WITHIN_S


def test_what_does_not_exist_is_named_and_not_worth_trying_again() -> None:
    calls = {
        "table values": CALLS["dynamodb"],
        "queue work": CALLS["sqs"],
        # Not by open: HEAD has no body, and so does not tell a missing bucket from a missing object.
        "bucket files": lambda: S3ObjectStore.connect(SETTINGS).put(ACME, "a", b""),
    }
    for said, call in calls.items():
        with mock_aws(), pytest.raises(StoreError, match=said) as caught:
            call()
        assert not isinstance(caught.value, TransientStoreError)


class Refusing:
    """A client whose every call is refused with one code."""

    def __init__(self, code: str, status: int = 400) -> None:
        self._error = ClientError({"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}, "Call")
        self.calls = 0

    def get_paginator(self, _name: str) -> Any:
        return SimpleNamespace(paginate=self.paged)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(**_: object) -> Any:
            self.calls += 1
            raise self._error

        return call


def calls_of(client: Any) -> list[Callable[[], object]]:
    """Return one call of every kind that each adapter makes."""
    cache, queue = DynamoCache(client, TABLE, advance_attempts=1), SqsQueue(client, "https://queue/work.fifo")
    objects = S3ObjectStore(client, BUCKET, read_attempts=1)
    return [
        lambda: cache.get(ACME, "a"),
        lambda: cache.put(ACME, "a", b"", 60),
        lambda: cache.generation(ACME),
        lambda: cache.advance(ACME),
        lambda: queue.send([QueueMessage(tenant_id=ACME, deduplication_id="a")]),
        lambda: queue.receive(1, 30),
        lambda: queue.delete(["receipt"]),
        queue.depth,
        lambda: objects.put(ACME, "a", b""),
        lambda: objects.delete_many(ACME, ["a"]),
        lambda: objects.open(ACME, "a"),
        lambda: list(objects.list(ACME)),
        lambda: objects.delete(ACME, "a"),
    ]


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("ProvisionedThroughputExceededException", 400),
        ("ThrottlingException", 400),
        ("RequestThrottled", 403),
        ("SlowDown", 503),
        ("503", 503),
        ("429", 429),
    ],
)
def test_a_throttled_call_is_worth_trying_again(code: str, status: int) -> None:
    for call in calls_of(Refusing(code, status)):
        with pytest.raises(TransientStoreError, match=code):
            call()


@pytest.mark.parametrize("code", ["AccessDeniedException", "ExpiredTokenException", "ValidationException"])
def test_a_refused_call_is_not(code: str) -> None:
    for call in calls_of(Refusing(code, 403)):
        with pytest.raises(StoreError, match=code) as caught:
            call()
        assert not isinstance(caught.value, TransientStoreError)


def test_beginning_a_generation_is_tried_again_and_reading_it_is_not() -> None:
    client = Refusing("ThrottlingException")
    cache = DynamoCache(client, TABLE, advance_attempts=2)
    with pytest.raises(TransientStoreError):
        cache.generation(ACME)
    assert client.calls == 1
    with pytest.raises(TransientStoreError):
        cache.advance(ACME)
    assert client.calls == 3


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        ({"Id": "1", "SenderFault": False, "Code": "InternalError"}, TransientStoreError),
        ({"Id": "1", "SenderFault": True, "Code": "InvalidMessageContents"}, StoreError),
    ],
)
def test_one_message_of_a_batch_that_was_not_accepted_is_told(failure: dict[str, Any], kind: type[StoreError]) -> None:
    class PartlyFull:
        def send_message_batch(self, **_: object) -> dict[str, Any]:
            return {"Successful": [{"Id": "0"}], "Failed": [failure]}

        receive_message = delete_message_batch = get_queue_attributes = send_message_batch

    messages = [QueueMessage(tenant_id=ACME, deduplication_id=name) for name in ("a", "b")]
    with pytest.raises(StoreError, match=f"1 of 2 messages were not accepted: {failure['Code']}") as caught:
        SqsQueue(PartlyFull(), "https://queue/work.fifo").send(messages)
    assert type(caught.value) is kind


def test_no_request_holds_more_than_sqs_takes() -> None:
    requests: list[list[dict[str, str]]] = []

    class Recording:
        def send_message_batch(self, **request: Any) -> dict[str, Any]:
            requests.append(request["Entries"])
            return {}

        receive_message = delete_message_batch = get_queue_attributes = send_message_batch

    lengths = [100_000, 150_000, 200_000, *[10] * 24]
    messages = [
        QueueMessage(tenant_id=ACME, deduplication_id=f"m{number}", body="x" * length)
        for number, length in enumerate(lengths)
    ]
    SqsQueue(Recording(), "https://queue/work.fifo").send(messages)
    sent = [entry["MessageDeduplicationId"] for entries in requests for entry in entries]
    assert sent == [message.deduplication_id for message in messages]
    assert [len(entries) for entries in requests] == [2, 10, 10, 5]
    assert all(sum(len(entry["MessageBody"]) for entry in entries) <= 256 * 1024 for entries in requests)


@pytest.mark.parametrize("url", ["", "https://sqs.eu-west-1.amazonaws.com/123456789012/work"])
def test_a_queue_that_cannot_drop_duplicates_is_a_wrong_setting(url: str) -> None:
    with pytest.raises(ConfigurationError, match="BRAID_REEMBED_QUEUE_URL"):
        SqsQueue.connect(SETTINGS.model_copy(update={"reembed_queue_url": url}))


def test_no_bucket_is_a_wrong_setting() -> None:
    with pytest.raises(ConfigurationError, match="BRAID_OBJECTS_BUCKET"):
        S3ObjectStore.connect(Settings())


class _Breaking(BaseHTTPRequestHandler):
    """S3 with one object; its first ``breaks`` answers end in the middle."""

    content = b"first line\nsecond line\n"
    breaks = 0
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._begin(200)

    def do_GET(self) -> None:
        self._begin(206)
        cls = type(self)
        if cls.breaks:
            cls.breaks -= 1
            self.wfile.write(self.content[:5])
            self.close_connection = True
        else:
            self.wfile.write(self.content)

    def _begin(self, status: int) -> None:
        self.send_response(status)
        self.send_header("ETag", '"version"')
        self.send_header("Content-Length", str(len(self.content)))
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def breaking(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[_Breaking]]:
    class Handler(_Breaking):
        pass

    with listening(Handler) as address:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", address)
        yield Handler


def test_a_part_that_breaks_off_is_read_again(breaking: type[_Breaking]) -> None:
    breaking.breaks = 1
    opened = S3ObjectStore.connect(SETTINGS.model_copy(update={"s3_attempts": 2})).open(ACME, "a")
    assert list(opened) == [b"first line", b"second line"]


def test_a_part_that_always_breaks_off_is_never_half_an_answer(breaking: type[_Breaking]) -> None:
    breaking.breaks = 9
    reading = iter(S3ObjectStore.connect(SETTINGS).open(ACME, "a"))
    with pytest.raises(TransientStoreError, match="bucket files: 'a'"):
        next(reading)
