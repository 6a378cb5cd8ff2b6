"""ASGI application of ``braid serve``: the deployed function's handler, with limits for each tenant and for all.

It does the work of API Gateway. The token is verified after the headers, before the body is read: a request without a
valid one takes no place, and its body is discarded. Concurrent requests with a token are limited, per tenant and in all
(:class:`Bounds`, ``Server._places``); more are refused rather than queued, so that latency stays bounded. A request
takes its place when its body has arrived. A body that is too large (413), late or incomplete is refused. The number of
bodies being read is limited too, and slow ones are dropped to make room for others.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import math
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

from braid.api.authorisation import HEALTH_PATH, TENANT_HEADER, is_open
from braid.api.problems import Problem, too_large, too_many, unavailable
from braid.api.signed_tokens import InvalidToken, sign, verify

from braid_cli.http_server.connections import TENANT, WORKED_ON
from braid_cli.http_server.fair_shares import ProcessorTime, Shares
from braid_cli.http_server.request_scheduler import Turns
from braid_cli.http_server.workers import is_question
from braid_cli.state_machine.invoke_endpoint import LocalContext

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, MutableMapping

    from braid_cli.http_server.fair_shares import Spent
    from braid_cli.http_server.workers import Workers
    from braid_cli.state_machine.invoke_endpoint import Handler

    Message = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[Message]]
    Send = Callable[[Message], Awaitable[None]]

PURPOSE: Final = "development token"
TOKEN_HOURS: Final = 12
READ_TIMEOUT_S: Final = 10.0
"""Time limit of receiving a body, in seconds."""
DISCARD_S: Final = 1.0
"""Seconds for which a refused request's body is read and discarded: clients read the response after sending it."""
READ_AT_ONCE: Final = 4
"""Bodies that may be read at once, as a multiple of the requests that may run at once: slow bodies take no places of
others."""
READ_RATE: Final = 32_000
"""Bytes per second below which a body is slow, and may be dropped for another."""
READ_AHEAD: Final = READ_RATE
"""Bytes that count as received from the start, so that no body is slow in its first second."""
PLACE_BYTES: Final = 250_000
"""Bytes of a body for each further place that a request takes: 12 bodies of 2 MB delayed other tenants by seconds."""
FIRST_PLACES: Final = 8
"""One in so many places is kept for tenants that have no request running."""
QUERY_PARAMETERS: Final = 128
"""Limit of query parameters: parsing thousands of short ones blocks all threads for 10 ms."""
OPEN_THREADS: Final = 2
"""Threads for requests that take no place, so that health checks are answered while the server is busy."""


class Disconnected(Exception):
    """The client closed the connection before its request was complete."""


@dataclass(frozen=True)
class Bounds:
    """Limits of concurrent requests."""

    at_once: int = 16
    """Accepted requests; further ones are refused with 503."""
    per_tenant: int = 12
    """Places of one tenant; further ones are refused with 429."""
    body_bytes: int = 2_000_000
    begun: int | None = None
    """Accepted requests that are started and not yet slow (see :class:`Turns`); None starts all at once."""


@dataclass(eq=False)
class Reader:
    """A request body that is being read."""

    tenant_id: str
    since: float
    due: asyncio.Timeout
    body: bytearray = field(default_factory=bytearray)

    def rate(self, now: float) -> float:
        """Return the bytes received per second."""
        return (len(self.body) + READ_AHEAD) / max(now - self.since, 1e-9)


def development_token(*tenant_ids: str, key: bytes, now: float, hours: float = TOKEN_HOURS) -> str:
    """Return a token for one tenant or several, valid for ``hours`` at a server with the same key."""
    first, *others = tenant_ids
    content = {"sub": f"developer-{first}", "tenant_id": [*tenant_ids] if others else first}
    return sign(content, purpose=PURPOSE, key=key, expires_at=now + hours * 3_600)


class Server:
    """An ASGI application around a Lambda handler.

    Parameters
    ----------
    handler
        Answers events of API Gateway's HTTP API; called from several threads.
    key
        Key that signs accepted tokens.
    tenant_claim
        Claim from which the function reads the tenant.
    bounds
        Limits of concurrent requests.
    clock
        Returns seconds since 1970.
    workers
        Worker processes for requests with a token; None answers them in this process.
    """

    def __init__(
        self,
        handler: Handler,
        *,
        key: bytes,
        tenant_claim: str = "tenant_id",
        bounds: Bounds | None = None,
        clock: Callable[[], float] = time.time,
        workers: Workers | None = None,
    ) -> None:
        self._handler = handler
        self._workers = workers
        self._key = key
        self._tenant_claim = tenant_claim
        self._bounds = bounds or Bounds()
        self._clock = clock
        self._readers: set[Reader] = set()
        self._busy: Counter[str] = Counter()
        """Number of places held, by tenant: at most ``Bounds.per_tenant`` each."""
        self._answering = 0
        self._shares = Shares(workers.count if workers else 1)
        self._turns = Turns(self._bounds.begun or self._bounds.at_once, shares=self._shares)
        self._processor = ProcessorTime()
        self._pool = ThreadPoolExecutor(self._bounds.at_once, thread_name_prefix="braid")
        self._open_pool = ThreadPoolExecutor(OPEN_THREADS, thread_name_prefix="braid-open")

    def close(self) -> None:
        """Wait for running requests."""
        self._pool.shutdown()
        self._open_pool.shutdown()

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request, or handle the server's lifespan."""
        if scope["type"] != "http":
            await self._live(receive, send)
            return
        headers = _headers(scope)
        claims = self._claims(headers)
        parts = _parts(receive)
        try:
            _require_one_length(headers)
            if claims is None or is_open(scope["path"]):
                if scope["path"] == HEALTH_PATH and self._workers and not self._workers.processes:
                    raise unavailable("the server starts again")
                answer = await self._answered_without_place(_event(scope, headers, b"", self._authorizer(claims)))
                if not await _discarded(parts):
                    answer = _unread(answer)
            else:
                tenant_id = scope["state"][TENANT] = _tenant(claims["tenant_id"], headers)
                with _worked_on(scope):
                    body = await self._body(headers, parts, tenant_id)
                with _worked_on(scope), self._places(tenant_id, 1 + len(body) // PLACE_BYTES):
                    event = _event(scope, headers, body, self._authorizer(claims))
                    async with self._turns.turn(tenant_id, is_question=is_question(event)) as spent:
                        answer = await self._answered(event, spent)
        except Problem as problem:
            await _discarded(parts)
            answer = _unread(problem.response())
        except TimeoutError:
            detail = "the body did not arrive in time"
            answer = _unread(Problem(HTTPStatus.REQUEST_TIMEOUT, "request-timeout", detail).response())
        except Disconnected:
            return
        await _send(answer, send, with_body=scope["method"] != "HEAD")

    async def _live(self, receive: Receive, send: Send) -> None:
        """Start watching the workers, and wait for the server's end."""
        await receive()
        if self._workers:
            self._workers.watch()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})

    async def _answered(self, event: dict[str, Any], spent: Spent) -> dict[str, Any]:
        """Return the function's response to a request with a place, and set its processor seconds."""
        if self._workers:
            answer, spent.seconds = await self._workers.answer(event)
            return answer
        answer, spent.seconds = await asyncio.get_running_loop().run_in_executor(self._pool, self._measured, event)
        return answer

    def _measured(self, event: dict[str, Any]) -> tuple[dict[str, Any], float]:
        """Run the function on this thread; return its response and the processor seconds."""
        with self._processor.measured() as spent:
            answer = self._handler(event, LocalContext("search_api"))
        return answer, spent.seconds

    async def _answered_without_place(self, event: dict[str, Any]) -> dict[str, Any]:
        """Return the function's response to a request that takes no place, from a thread pool for these."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._open_pool, self._handler, event, LocalContext("search_api"))

    @contextlib.contextmanager
    def _places(self, tenant_id: str, wanted: int) -> Iterator[None]:
        """Hold a request's places of its tenant while it is answered. Only for the event loop's thread.

        A request with a long body takes several places, at most as many as its tenant has; it then runs alone. A heavy
        tenant has fewer places while others are active, as its waiting requests would keep places from them. The places
        that one tenant cannot take are for tenants with less than an equal share, and the last of these for tenants
        without any, so that two keep no third one out.

        Raises Problem 503 if the server has no place left, 429 if the tenant has too few.
        """
        if self._answering >= self._bounds.at_once:
            raise unavailable("the server is busy")
        own = min(self._bounds.per_tenant, self._shares.places(tenant_id, self._bounds.at_once))
        if self._answering >= self._bounds.per_tenant:
            others, free = len(self._busy.keys() - {tenant_id}), self._bounds.at_once - self._answering
            share = self._bounds.at_once // (others + 2)  # with room for one tenant more
            own = min(own, max(1, share if free > self._bounds.at_once // FIRST_PLACES else 1))
        wanted = min(wanted, own)
        if self._busy[tenant_id] + wanted > own:
            raise _asks_too_much()
        self._busy[tenant_id] += wanted
        self._answering += 1
        try:
            yield
        finally:
            self._answering -= 1
            self._busy[tenant_id] -= wanted
            if not self._busy[tenant_id]:
                del self._busy[tenant_id]

    async def _body(self, headers: Mapping[str, str], parts: AsyncIterator[bytes], tenant_id: str) -> bytes:
        """Read a body.

        Raises Problem 413 if it is too long, and TimeoutError if it does not arrive in time or was dropped as slow.
        """
        limit = self._bounds.body_bytes
        # A malformed Content-Length has been refused by the HTTP parser.
        if int(headers.get("content-length", "0")) > limit:
            raise too_large(limit)
        now = asyncio.get_running_loop().time()
        self._make_room(tenant_id, now)
        async with asyncio.timeout(READ_TIMEOUT_S) as due:
            reader = Reader(tenant_id, now, due)
            self._readers.add(reader)
            try:
                async for part in parts:
                    reader.body += part
                    if len(reader.body) > limit:
                        raise too_large(limit)
            finally:
                self._readers.discard(reader)
        return bytes(reader.body)

    def _make_room(self, tenant_id: str, now: float) -> None:
        """Make room for one more body of a tenant if too many are being read.

        If the tenant itself has too many, its slowest body is dropped, if it is slow; if all tenants together have too
        many, the slowest of all. A tenant with at least two bodies more than this one loses its slowest in any case, so
        that it cannot occupy the server by starting new ones.

        Raises Problem 429 or 503 if no body can be dropped.
        """
        held = Counter(reader.tenant_id for reader in self._readers)
        among, refusal, least = self._readers, unavailable("the server is busy"), float(READ_RATE)
        if held[tenant_id] >= self._bounds.per_tenant:
            among, refusal = {reader for reader in among if reader.tenant_id == tenant_id}, _asks_too_much()
        elif held.total() < READ_AT_ONCE * self._bounds.at_once:
            return
        elif (most := max(held.values())) > held[tenant_id] + 1:
            among, least = {reader for reader in among if held[reader.tenant_id] == most}, math.inf
        slowest = min(among, key=lambda reader: reader.rate(now))
        if slowest.rate(now) >= least:
            raise refusal
        self._readers.discard(slowest)
        slowest.due.reschedule(now)

    def _claims(self, headers: Mapping[str, str]) -> dict[str, Any] | None:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            return None
        try:
            return verify(token.strip(), purpose=PURPOSE, key=self._key, now=self._clock())
        except InvalidToken:
            return None

    def _authorizer(self, claims: Mapping[str, Any] | None) -> dict[str, Any] | None:
        if claims is None:
            return None
        return {"jwt": {"claims": {"sub": claims["sub"], self._tenant_claim: claims["tenant_id"]}, "scopes": None}}


def _tenant(claim: object, headers: Mapping[str, str]) -> str:
    """Return the tenant whose place a request takes: the requested one if the token has it, else the token's first."""
    tenants = claim if isinstance(claim, list) else [claim]
    asked = headers.get(TENANT_HEADER)
    return str(asked if asked in tenants else tenants[0])


@contextlib.contextmanager
def _worked_on(scope: Mapping[str, Any]) -> Iterator[None]:
    """Mark a request as being read or answered."""
    scope["state"][WORKED_ON] = True
    try:
        yield
    finally:
        scope["state"][WORKED_ON] = False


def _asks_too_much() -> Problem:
    return too_many("this tenant asks too much at once")


def _unread(answer: dict[str, Any]) -> dict[str, Any]:
    """Return a response that closes the connection: the unread rest of the body would be parsed as a request."""
    return {**answer, "headers": {**answer["headers"], "Connection": "close"}}


async def _parts(receive: Receive) -> AsyncIterator[bytes]:
    """Yield a body's parts as they arrive.

    Raises Disconnected if the connection is closed before its end.
    """
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        more = message.get("more_body", False)
        yield message.get("body", b"")


async def _discarded(parts: AsyncIterator[bytes]) -> bool:
    """Read and discard the rest of a body; return whether its end arrived in time."""

    async def to_its_end() -> None:
        async for _ in parts:
            pass

    try:
        await asyncio.wait_for(to_its_end(), DISCARD_S)
    except (TimeoutError, Disconnected):
        return False
    return True


def _require_one_length(headers: Mapping[str, str]) -> None:
    """Refuse a request with both Content-Length and Transfer-Encoding, against request smuggling through a proxy."""
    if "transfer-encoding" in headers and "content-length" in headers:
        detail = "has both Content-Length and Transfer-Encoding"
        raise Problem(HTTPStatus.BAD_REQUEST, "malformed-request", detail)


def _headers(scope: Mapping[str, Any]) -> dict[str, str]:
    """Return headers as API Gateway does: names in lower case, repeated headers joined with commas."""
    headers: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        headers[name] = f"{headers[name]},{value}" if name in headers else value
    return headers


def _event(
    scope: Mapping[str, Any], headers: Mapping[str, str], body: bytes, authorizer: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return a request in API Gateway's format 2.0.

    Raises Problem 400 if its query has too many parameters.
    """
    query = scope["query_string"].decode("latin-1")
    parameters: dict[str, str] = {}
    if query.count("&") >= QUERY_PARAMETERS:
        detail = f"the query has more than {QUERY_PARAMETERS} parameters"
        raise Problem(HTTPStatus.BAD_REQUEST, "malformed-request", detail)
    for name, value in parse_qsl(query, keep_blank_values=True):
        parameters[name] = f"{parameters[name]},{value}" if name in parameters else value
    event: dict[str, Any] = {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": scope["path"],
        "rawQueryString": query,
        "headers": dict(headers),
        "requestContext": {
            "http": {
                "method": scope["method"].upper(),  # as the function reads it, and shares and workers have to
                "path": scope["path"],
                "protocol": "HTTP/1.1",
                "sourceIp": (scope.get("client") or ("",))[0],
            },
            "stage": "$default",
        },
        "isBase64Encoded": False,
    }
    if parameters:
        event["queryStringParameters"] = parameters
    if authorizer is not None:
        event["requestContext"]["authorizer"] = authorizer
    if body:
        try:
            event["body"] = body.decode("utf-8")
        except UnicodeDecodeError:
            event |= {"body": base64.b64encode(body).decode("ascii"), "isBase64Encoded": True}
    return event


async def _send(answer: Mapping[str, Any], send: Send, *, with_body: bool) -> None:
    body = answer["body"].encode("utf-8")
    headers = [
        (name.lower().encode("latin-1"), str(value).encode("latin-1")) for name, value in answer["headers"].items()
    ]
    if answer["statusCode"] != HTTPStatus.NOT_MODIFIED:
        headers.append((b"content-length", str(len(body)).encode("ascii")))
    await send({"type": "http.response.start", "status": answer["statusCode"], "headers": headers})
    await send({"type": "http.response.body", "body": body if with_body else b""})
