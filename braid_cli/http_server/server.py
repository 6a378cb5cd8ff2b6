"""The HTTP server on a laptop: the function's own handler, and bounds on the requests of each tenant and of all.

What API Gateway does in front of the function is done here. A token is verified by the headers alone, before anything
else is read: a request without one takes no place, and its body is not kept. Of requests with one, more than a number
at once, of one tenant or in all, are refused rather than queued, so that whoever waits for an answer does not wait for
others' first (:class:`Bounds`, ``Server._places``); and a place is taken when the body is there. A body that is too
long, late or cut short is refused, and none of it is handed on. Bodies being read are bounded in number, too, and slow
ones make room for others.
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
from braid_cli.http_server.heavy_tenants import ProcessorTime, Shares
from braid_cli.http_server.turns import Turns
from braid_cli.http_server.workers import is_question
from braid_cli.state_machine.invoke_endpoint import LocalContext

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, MutableMapping

    from braid_cli.http_server.heavy_tenants import Spent
    from braid_cli.http_server.workers import Workers
    from braid_cli.state_machine.invoke_endpoint import Handler

    Message = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[Message]]
    Send = Callable[[Message], Awaitable[None]]

PURPOSE: Final = "development token"
TOKEN_HOURS: Final = 12
READ_TIMEOUT_S: Final = 10.0
"""How long a body may take to arrive."""
DISCARD_S: Final = 1.0
"""For how long a body that nobody wants is read: a client that is still sending it would not see why."""
READ_AT_ONCE: Final = 4
"""Bodies that are read at once, for each request that is answered at once: slow ones keep no place from the others."""
READ_RATE: Final = 32_000
"""Bytes a second below which a body is slow, and dropped when its place is needed."""
READ_AHEAD: Final = READ_RATE
"""Bytes that count as arrived from the start, so that no body is slow in its first second."""
PLACE_BYTES: Final = 250_000
"""Bytes of a body for each further place that a request takes: 12 of 2 MB made neighbours wait for seconds."""
QUERY_PARAMETERS: Final = 128
"""Most parameters of a request's query: thousands of a few bytes take the interpreter from everybody for 10 ms."""
OPEN_THREADS: Final = 2
"""For requests without a place: whether the server lives has to be known when it is busy, too."""


class Disconnected(Exception):
    """The client ended the connection before its request was whole."""


@dataclass(frozen=True)
class Bounds:
    """What the server takes on at once."""

    at_once: int = 16
    """Requests; one more is refused with 503."""
    per_tenant: int = 12
    """Of one tenant; one more is refused with 429."""
    body_bytes: int = 2_000_000
    begun: int | None = None
    """Of those taken on, how many may be begun and not yet slow, as of :class:`Turns`; None begins all at once."""


@dataclass(eq=False)
class Reader:
    """A body that is being read."""

    tenant_id: str
    since: float
    due: asyncio.Timeout
    body: bytearray = field(default_factory=bytearray)

    def rate(self, now: float) -> float:
        """Return the bytes that arrived a second."""
        return (len(self.body) + READ_AHEAD) / max(now - self.since, 1e-9)


def development_token(*tenant_ids: str, key: bytes, now: float, hours: float = TOKEN_HOURS) -> str:
    """Return a token that asks for one tenant or for several, for a server with the same key."""
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
        Signs the tokens that are let in.
    tenant_claim
        Claim that the function reads the tenant from.
    bounds
        What is taken on at once.
    clock
        Returns seconds since 1970.
    workers
        Processes that answer requests with a token; None answers them in this one.
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
        """Places that requests hold, by their tenant: at most ``Bounds.per_tenant`` of each."""
        self._answering = 0
        self._shares = Shares(workers.count if workers else 1)
        self._turns = Turns(self._bounds.begun or self._bounds.at_once, shares=self._shares)
        self._processor = ProcessorTime()
        self._pool = ThreadPoolExecutor(self._bounds.at_once, thread_name_prefix="braid")
        self._open_pool = ThreadPoolExecutor(OPEN_THREADS, thread_name_prefix="braid-open")

    def close(self) -> None:
        """Wait for what is being answered."""
        self._pool.shutdown()
        self._open_pool.shutdown()

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request; of a server's start and end, only the start matters."""
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
        """Start what goes on beside the requests, and wait for the server's end."""
        await receive()
        if self._workers:
            self._workers.watch()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})

    async def _answered(self, event: dict[str, Any], spent: Spent) -> dict[str, Any]:
        """Return the function's answer to a request with a place, and note its processor seconds."""
        if self._workers:
            answer, spent.seconds = await self._workers.answer(event)
            return answer
        answer, spent.seconds = await asyncio.get_running_loop().run_in_executor(self._pool, self._measured, event)
        return answer

    def _measured(self, event: dict[str, Any]) -> tuple[dict[str, Any], float]:
        """Return the function's answer, worked out on this thread, and its processor seconds."""
        with self._processor.measured() as spent:
            answer = self._handler(event, LocalContext("search_api"))
        return answer, spent.seconds

    async def _answered_without_place(self, event: dict[str, Any]) -> dict[str, Any]:
        """Return the function's answer to a request that takes no place, worked out on threads of their own."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._open_pool, self._handler, event, LocalContext("search_api"))

    @contextlib.contextmanager
    def _places(self, tenant_id: str, wanted: int) -> Iterator[None]:
        """Hold a request's places of its tenant while it is answered, or refuse it. Only on the event loop's thread.

        No more than the tenant may have: a long body that wants them all is answered when nothing else of it is. A
        tenant whose questions are heavy has fewer while others ask: what waits for its turn would keep places from
        them.
        """
        if self._answering >= self._bounds.at_once:
            raise unavailable("the server is busy")
        own = min(self._bounds.per_tenant, self._shares.places(tenant_id, self._bounds.at_once))
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

        Raises TimeoutError if it does not arrive in time, or is slow and its place was needed.
        """
        limit = self._bounds.body_bytes
        # A length that is no number the HTTP parser has refused already.
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
        """Drop a body for one more of a tenant when there are too many, or refuse that one.

        Of one tenant's, and of all, the slowest is dropped if it is slow. But a tenant that has several more than
        another makes room for that one in any case: it cannot keep its places by beginning anew.
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
    """Return the tenant that a request takes its place from: of several, the one that it names, if it may."""
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
    """Return the answer to a request whose body was not read: the connection ends, or the rest would be the next."""
    return {**answer, "headers": {**answer["headers"], "Connection": "close"}}


async def _parts(receive: Receive) -> AsyncIterator[bytes]:
    """Yield a body as it arrives.

    Raises Disconnected if its end did not.
    """
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        more = message.get("more_body", False)
        yield message.get("body", b"")


async def _discarded(parts: AsyncIterator[bytes]) -> bool:
    """Read the rest of a body and keep none of it; return whether its end came in time."""

    async def to_its_end() -> None:
        async for _ in parts:
            pass

    try:
        await asyncio.wait_for(to_its_end(), DISCARD_S)
    except (TimeoutError, Disconnected):
        return False
    return True


def _require_one_length(headers: Mapping[str, str]) -> None:
    """Refuse a body of two lengths: a proxy in front may go by the other one, and take the rest for a request."""
    if "transfer-encoding" in headers and "content-length" in headers:
        detail = "has both Content-Length and Transfer-Encoding"
        raise Problem(HTTPStatus.BAD_REQUEST, "malformed-request", detail)


def _headers(scope: Mapping[str, Any]) -> dict[str, str]:
    """Return headers as API Gateway does: names in lower case, one that comes several times joined with commas."""
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
                "method": scope["method"],
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
