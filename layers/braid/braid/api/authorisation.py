"""Authorises a caller: identity from verified claims, tenant and role from claims and memberships.

Tokens are not verified here. API Gateway, or the laptop's server, verifies them and puts their claims into the
request's context, which callers cannot write. The header ``Braid-Tenant``, which ``handler`` reads, chooses among the
tenants of a caller. The token itself is read only where a claim's text in the context is
ambiguous.
"""

from __future__ import annotations

import base64
import hmac
import json
import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from pydantic import TypeAdapter, ValidationError

from braid.api.problems import FieldProblem, Problem, unauthenticated
from braid.models import TenantId
from braid.ports.members import Role, Subject

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from braid.ports.members import MembershipStore


HEALTH_PATH: Final = "/health"
OPEN_PATHS: Final = frozenset({"/", HEALTH_PATH, "/openapi.json", "/explorer"})
OPEN_PREFIX: Final = "/explorer/"
_NO_MEMBER = "no member of this tenant"
FRONT_HEADER = "braid-front"
ACCESS_PATH: Final = "/access"
"""Path that lists the caller's tenants; a request to it need not name one of several."""
TENANT_HEADER = "braid-tenant"
"""Header that selects the tenant of a caller who belongs to several."""
_TENANT = TypeAdapter(TenantId)
_SESSION = re.compile(r"^(arn:[a-z-]+:sts::[0-9]+:assumed-role/[^/]+)/.*$")
_SUBJECT = TypeAdapter(Subject)


class Refused(Problem):
    """An authenticated caller lacks the permission: a 403 response, which is audited."""

    def __init__(self, detail: str, *, subject: str, tenant_id: str | None, reason: str) -> None:
        """Set the details; ``tenant_id`` is None if the requested name is not a valid tenant id."""
        super().__init__(HTTPStatus.FORBIDDEN, "forbidden", detail)
        self.audit: dict[str, str | None] = {"subject": subject, "tenant_id": tenant_id, "reason": reason}


@dataclass(frozen=True)
class Identity:
    """Verified identity of a caller."""

    subject: str
    tenants: tuple[str, ...] | None
    """Tenants in the token's claim; None without the claim, as in requests signed with IAM."""


@dataclass(frozen=True)
class Caller:
    """A caller with the tenant of the request and the role in it."""

    subject: str
    tenant_id: str
    role: Role
    tenants: tuple[str, ...] | None = None
    """As in :class:`Identity`."""

    def must_write(self) -> None:
        """Require the writer role.

        Raises Refused for a reader.
        """
        if self.role is not Role.WRITER:
            detail = "this tenant may be asked, and not changed"
            raise Refused(detail, subject=self.subject, tenant_id=self.tenant_id, reason="role")


def check_firewall_key(event: Mapping[str, Any], front_key: Callable[[], bytes] | None) -> None:
    """Check that a request came through the firewall, which adds a key to each; no check if ``front_key`` is None.

    Raises Problem 403 without the right key, and StoreError if the key cannot be read.
    """
    if front_key is None:
        return
    given = str(event.get("headers", {}).get(FRONT_HEADER, "")).encode("utf-8", "surrogatepass")
    if not hmac.compare_digest(given, front_key()):
        detail = "this address is not asked directly; use the one in front of it"
        raise Problem(HTTPStatus.FORBIDDEN, "forbidden", detail)


def is_open(path: str) -> bool:
    """Return whether a path needs no authentication."""
    return path in OPEN_PATHS or path.startswith(OPEN_PREFIX)


def identify(event: Mapping[str, Any], *, tenant_claim: str) -> Identity:
    """Return the identity of the caller, from the claims of a token or an IAM signature.

    Raises Problem 401 without verified credentials.
    """
    authorizer = event.get("requestContext", {}).get("authorizer") or {}
    claims = (authorizer.get("jwt") or {}).get("claims") or {}
    if claims.get("sub"):
        named = _names(claims.get(tenant_claim), tenant_claim, event)
        return Identity(subject=_subject(f"user:{claims['sub']}"), tenants=named)
    arn = (authorizer.get("iam") or {}).get("userArn")
    if arn:
        # The session's name at the end of the ARN changes; the role identifies the caller.
        role_or_user = _SESSION.sub(r"\1", str(arn))
        return Identity(subject=_subject(f"iam:{role_or_user}"), tenants=None)
    raise unauthenticated()


def authorise(
    identity: Identity, requested: str | None, members: MembershipStore | None, *, any_tenant: bool = False
) -> Caller:
    """Return the caller with the tenant of the request and the role in it.

    Parameters
    ----------
    requested
        Tenant that the request names; None selects the caller's only one.
    members
        Memberships, in which the caller must be listed; None if only the token's claim counts.
    any_tenant
        Whether a request that names no tenant gets the first of several.

    Raises
    ------
    Refused
        If the caller is no member of the tenant.
    Problem
        422 if the request has to name the tenant.
    StoreError
        If the memberships cannot be read.
    """
    tenant_id = _tenant(identity, requested, members, any_tenant=any_tenant)
    try:
        _TENANT.validate_python(tenant_id)
    except ValidationError:
        raise Refused("not a tenant", subject=identity.subject, tenant_id=None, reason="name") from None
    if identity.tenants is not None and tenant_id not in identity.tenants:
        raise Refused(_NO_MEMBER, subject=identity.subject, tenant_id=tenant_id, reason="claim")
    if members is not None:
        role = members.role(identity.subject, tenant_id)
    else:
        role = None if identity.tenants is None else Role.WRITER
    if role is None:
        raise Refused(_NO_MEMBER, subject=identity.subject, tenant_id=tenant_id, reason="membership")
    return Caller(identity.subject, tenant_id, role, identity.tenants)


def roles(caller: Caller, members: MembershipStore | None) -> dict[str, Role]:
    """Return the role of a caller in each tenant that it may name, in the order of the tenants' names."""
    if members is None:
        found = dict.fromkeys(caller.tenants or (), Role.WRITER)
    else:
        found = {one.tenant_id: one.role for one in members.of(caller.subject)}
        found = {name: role for name, role in found.items() if caller.tenants is None or name in caller.tenants}
    return dict(sorted({**found, caller.tenant_id: caller.role}.items()))


def _tenant(identity: Identity, requested: str | None, members: MembershipStore | None, *, any_tenant: bool) -> str:
    if requested is not None:
        return requested
    known: tuple[str, ...] = identity.tenants or ()
    if members is not None and (identity.tenants is None or any_tenant):
        of = tuple(found.tenant_id for found in members.of(identity.subject))
        known = of if identity.tenants is None else tuple(name for name in of if name in identity.tenants)
    if len(known) == 1 or (known and any_tenant):
        return min(known)
    if known:
        field = FieldProblem(field="Braid-Tenant", detail="missing, and the caller belongs to several tenants")
        raise Problem(
            HTTPStatus.UNPROCESSABLE_ENTITY, "invalid-request", "the header Braid-Tenant is missing", errors=[field]
        )
    raise Refused("a member of no tenant", subject=identity.subject, tenant_id=None, reason="membership")


def _names(claim: object, name: str, event: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return the tenants of a claim; None if it is missing or empty.

    API Gateway writes both ``["a", "b"]`` and ``["a b"]`` as ``[a b]``, and both ``["a"]`` and the text ``"[a]"`` as
    ``[a]``. So that a name with spaces or brackets does not make its caller a member of other tenants, such a list is
    read from the token itself, which API Gateway has verified.
    """
    match claim:
        case None | "":
            return None
        case list():
            return tuple(str(item) for item in claim)
        case str() if claim.startswith("[") and claim.endswith("]"):
            names = _listed(name, event)
            same = claim in {f"[{' '.join(names)}]", f"[{', '.join(names)}]", f"[{','.join(names)}]"}
            return names if same else ()
        case _:
            return (str(claim),)


def _listed(claim: str, event: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a claim of the request's token, which API Gateway has verified; empty unless it is a list of strings."""
    given = str(event.get("headers", {}).get("authorization", ""))
    if "," in given:  # several headers, joined by API Gateway, which has verified only one
        return ()
    try:
        _, payload, _ = given.rpartition(" ")[2].split(".")
        content = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        names = content[claim]
    except (ValueError, TypeError, KeyError, RecursionError):
        return ()
    return tuple(names) if isinstance(names, list) and all(isinstance(item, str) for item in names) else ()


def _subject(name: str) -> str:
    try:
        return _SUBJECT.validate_python(name)
    except ValidationError:
        raise unauthenticated() from None
