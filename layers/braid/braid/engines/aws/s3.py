"""Object store in S3: one bucket, with the tenant as the first part of every key."""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from botocore.exceptions import ClientError

from braid.engines.aws.clients import TRANSIENT_CODES, as_braid_errors, code_of, open_client, status_of
from braid.engines.retries_and_deadlines import retrying
from braid.errors import ConfigurationError, ObjectChanged, ObjectMissing, StoreError, TransientStoreError
from braid.ports.batches import batches
from braid.ports.keys import check_object_key, check_prefix, check_tenant
from braid.ports.object_store import ObjectInfo, ObjectLines, check_range, parts_of
from braid.telemetry.recording import store_calls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from braid.settings import Settings

PART_BYTES = 8 * 1024 * 1024
"""Bytes read or written at once. S3 takes at most 10,000 parts (so 80 GB), of at least 5 MiB but for the last."""
DELETED_AT_ONCE = 1_000
"""Most keys in one delete request of S3."""
_NOT_IN_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that S3 accepts in a key, but that a request to delete several objects cannot contain."""
_NOT_FOUND = 404
_PRECONDITION_FAILED = 412


class _Client(Protocol):
    """The calls of an S3 client that are made here."""

    put_object: Callable[..., dict[str, Any]]
    head_object: Callable[..., dict[str, Any]]
    get_object: Callable[..., dict[str, Any]]
    delete_object: Callable[..., dict[str, Any]]
    delete_objects: Callable[..., dict[str, Any]]
    get_paginator: Callable[[str], Any]
    create_multipart_upload: Callable[..., dict[str, Any]]
    upload_part: Callable[..., dict[str, Any]]
    complete_multipart_upload: Callable[..., dict[str, Any]]
    abort_multipart_upload: Callable[..., dict[str, Any]]


@store_calls("aws.s3")
class S3ObjectStore:
    """Objects in a bucket; implements :class:`braid.ports.object_store.ObjectStore`.

    Parameters
    ----------
    read_attempts
        Attempts at reading one part: the client itself retries only until the first byte has come.
    """

    def __init__(self, client: _Client, bucket: str, *, part_bytes: int = PART_BYTES, read_attempts: int = 3) -> None:
        self._client = client
        self._bucket = bucket
        self._part_bytes = part_bytes
        self._read_attempts = read_attempts

    @classmethod
    def connect(cls, settings: Settings) -> S3ObjectStore:
        """Return the store that the settings name. No request is sent yet.

        Raises ConfigurationError if the settings name no bucket.
        """
        if not settings.objects_bucket:
            raise ConfigurationError("BRAID_OBJECTS_BUCKET: is not set")
        client = open_client("s3", timeout_s=settings.s3_timeout_s, attempts=settings.s3_attempts)
        return cls(client, settings.objects_bucket, read_attempts=settings.s3_attempts)

    def put(self, tenant_id: str, key: str, content: bytes | BinaryIO) -> ObjectInfo:
        """Write an object atomically; its version is the ETag."""
        place = self._place(tenant_id, key)
        parts = parts_of(content, self._part_bytes)
        first = next(parts)
        second = next(parts, None)
        with as_braid_errors(self._name(key)):
            if second is None:
                etag = self._client.put_object(**place, Body=first)["ETag"]
                return ObjectInfo(key=key, size_bytes=len(first), version=etag)
            upload = {**place, "UploadId": self._client.create_multipart_upload(**place)["UploadId"]}
            try:
                sent: list[dict[str, Any]] = []
                size = 0
                for number, part in enumerate(chain((first, second), parts), start=1):
                    answer = self._client.upload_part(**upload, PartNumber=number, Body=part)
                    sent.append({"PartNumber": number, "ETag": answer["ETag"]})
                    size += len(part)
                etag = self._client.complete_multipart_upload(**upload, MultipartUpload={"Parts": sent})["ETag"]
            except BaseException:
                # The parts of an unfinished upload would be stored and billed.
                self._abort(upload)
                raise
        return ObjectInfo(key=key, size_bytes=size, version=etag)

    def open(self, tenant_id: str, key: str) -> ObjectLines:
        """Open an object for reading."""
        place = self._place(tenant_id, key)
        with as_braid_errors(self._name(key)):
            try:
                head = self._client.head_object(**place)
            except ClientError as error:
                if status_of(error) != _NOT_FOUND or code_of(error) == "NoSuchBucket":
                    raise
                raise ObjectMissing(f"there is no object {key!r} of tenant {tenant_id}") from None
        info = ObjectInfo(key=key, size_bytes=head["ContentLength"], version=head["ETag"])
        return ObjectLines(info, lambda: self._parts(place, info, 0, info.size_bytes))

    def read(self, tenant_id: str, info: ObjectInfo, start: int, end: int) -> bytes:
        """Return a part of one version of an object."""
        place = self._place(tenant_id, info.key)
        check_range(info, start, end)
        return b"".join(self._parts(place, info, start, end))

    def list(self, tenant_id: str, prefix: str = "") -> Iterator[ObjectInfo]:
        """Yield the tenant's objects whose key begins with ``prefix``, ordered by key."""
        folder = f"{check_tenant(tenant_id)}/"
        pages = self._client.get_paginator("list_objects_v2")
        with as_braid_errors(self._name(prefix)):
            for page in pages.paginate(Bucket=self._bucket, Prefix=folder + check_prefix(prefix)):
                for found in page.get("Contents", []):
                    key = found["Key"].removeprefix(folder)
                    yield ObjectInfo(key=key, size_bytes=found["Size"], version=found["ETag"])

    def delete(self, tenant_id: str, key: str) -> None:
        """Remove an object; one that does not exist is no error."""
        with as_braid_errors(self._name(key)):
            self._client.delete_object(**self._place(tenant_id, key))

    def delete_many(self, tenant_id: str, keys: Sequence[str]) -> None:
        """Remove objects in batches of S3's size; an object whose key cannot be in a batch is removed separately.

        Other writers may have stored such an object, and it would make its whole batch fail.
        """
        folder = f"{check_tenant(tenant_id)}/"
        for key in filter(_NOT_IN_XML.search, keys):
            with as_braid_errors(self._name(key)):
                self._client.delete_object(Bucket=self._bucket, Key=folder + key)
        places = [{"Key": folder + key} for key in keys if not _NOT_IN_XML.search(key)]
        for some in batches(places, DELETED_AT_ONCE):
            with as_braid_errors(f"bucket {self._bucket}"):
                answer = self._client.delete_objects(Bucket=self._bucket, Delete={"Objects": some, "Quiet": True})
            if failed := answer.get("Errors", []):
                codes = sorted({str(failure.get("Code")) for failure in failed})
                kind = TransientStoreError if TRANSIENT_CODES.issuperset(codes) else StoreError
                raise kind(f"bucket {self._bucket}: {len(failed)} objects not removed: {', '.join(codes)}")

    def _place(self, tenant_id: str, key: str) -> dict[str, str]:
        return {"Bucket": self._bucket, "Key": f"{check_tenant(tenant_id)}/{check_object_key(key)}"}

    def _name(self, key: str) -> str:
        return f"bucket {self._bucket}: {key!r}"

    def _abort(self, upload: dict[str, str]) -> None:
        try:
            self._client.abort_multipart_upload(**upload)
        except Exception:  # noqa: BLE001 - the first error is the one to tell; a lifecycle rule removes old parts
            return

    def _parts(self, place: dict[str, str], info: ObjectInfo, first: int, last: int) -> Iterator[bytes]:
        """Yield a range of one version of an object, part by part; S3 refuses each part of any other version.

        No connection is held while the caller processes a part.
        """
        for start in range(first, last, self._part_bytes):
            end = min(start + self._part_bytes, last) - 1
            for attempt in retrying(self._read_attempts):
                with attempt, as_braid_errors(self._name(info.key)):
                    part = self._read(place, info, f"bytes={start}-{end}")
            yield part

    def _read(self, place: dict[str, str], info: ObjectInfo, part: str) -> bytes:
        try:
            body = self._client.get_object(**place, Range=part, IfMatch=info.version)["Body"]
        except ClientError as error:
            if status_of(error) not in {_NOT_FOUND, _PRECONDITION_FAILED}:
                raise
            raise ObjectChanged(
                f"object {info.key!r} changed while it was read; read it again from its beginning"
            ) from error
        with body:
            return bytes(body.read())
