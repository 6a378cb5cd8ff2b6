"""``braid members``: manages the members of tenants, and their roles."""

from __future__ import annotations

from typing import Annotated

import typer
from braid.errors import InvalidRequest
from braid.ports.members import Membership, Role
from pydantic import ValidationError

from braid_cli.options import Tenant  # noqa: TC001 - typer reads annotations
from braid_cli.terminal import examples, out

app = typer.Typer(
    name="members",
    no_args_is_help=True,
    help="Manage the members of tenants and their roles, for BRAID_MEMBERSHIP=store.",
    epilog=examples("braid members add user:ada --tenant acme --role writer", "braid members list user:ada"),
)

Subject = Annotated[
    str,
    typer.Argument(
        help="user: followed by a token's subject, or iam: followed by the ARN of a user or an assumed role.",
        metavar="SUBJECT",
    ),
]


@app.command()
def add(
    subject: Subject,
    *,
    tenant: Tenant,
    role: Annotated[
        Role, typer.Option(help="reader: may only read; writer: may also write and delete.", metavar="ROLE")
    ] = Role.READER,
) -> None:
    """Add a member to a tenant, or change a member's role."""
    from braid.app import application

    application().members.add(_membership(subject, tenant, role))
    out.print(f"{subject} is a {role.value} of {tenant}", soft_wrap=True)


@app.command()
def remove(subject: Subject, *, tenant: Tenant) -> None:
    """Remove a member from a tenant, effective from the next request on."""
    from braid.app import application

    member = _membership(subject, tenant, Role.READER)
    if not application().members.remove(member.subject, member.tenant_id):
        raise InvalidRequest(f"{subject} is no member of {tenant}", field="SUBJECT")
    out.print(f"{subject} is no member of {tenant} any more", soft_wrap=True)


@app.command(name="list")
def list_tenants(subject: Subject) -> None:
    """List the tenants of a member, with its role in each."""
    from braid.app import application

    for membership in application().members.of(subject):
        out.print(f"{membership.tenant_id}  {membership.role.value}", soft_wrap=True)


def _membership(subject: str, tenant: str, role: Role) -> Membership:
    kind, _, name = subject.partition(":")
    if kind not in {"user", "iam"} or not name.strip():
        raise InvalidRequest.of("SUBJECT", "must be user: and the sub of a token, or iam: and an ARN")
    try:
        return Membership(subject=subject, tenant_id=tenant, role=role)
    except ValidationError as error:
        raise InvalidRequest.from_validation(error, {"tenant_id": "--tenant", "subject": "SUBJECT"}) from None
