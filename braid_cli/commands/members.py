"""``braid members``: the members of tenants, and their roles."""

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
    help="Who may ask for which tenant, where BRAID_MEMBERSHIP is store.",
    epilog=examples("braid members add user:ada --tenant acme --role writer", "braid members list user:ada"),
)

Subject = Annotated[
    str,
    typer.Argument(
        help="user: and the subject of a token, or iam: and the ARN of a user or an assumed role.", metavar="SUBJECT"
    ),
]


@app.command()
def add(
    subject: Subject,
    *,
    tenant: Tenant,
    role: Annotated[Role, typer.Option(help="reader asks; writer writes and removes, too.", metavar="ROLE")] = (
        Role.READER
    ),
) -> None:
    """Make somebody a member of a tenant, or give a member another role."""
    from braid.app import application

    application().members.add(_membership(subject, tenant, role))
    out.print(f"{subject} is a {role.value} of {tenant}", soft_wrap=True)


@app.command()
def remove(subject: Subject, *, tenant: Tenant) -> None:
    """Let somebody be a member of a tenant no longer; from the next request on."""
    from braid.app import application

    member = _membership(subject, tenant, Role.READER)
    if not application().members.remove(member.subject, member.tenant_id):
        raise InvalidRequest(f"{subject} is no member of {tenant}", field="SUBJECT")
    out.print(f"{subject} is no member of {tenant} any more", soft_wrap=True)


@app.command(name="list")
def list_tenants(subject: Subject) -> None:
    """Show which tenants somebody belongs to."""
    from braid.app import application

    for membership in application().members.of(subject):
        out.print(f"{membership.tenant_id}  {membership.role.value}", soft_wrap=True)


def _membership(subject: str, tenant: str, role: Role) -> Membership:
    kind, _, name = subject.partition(":")
    if kind not in {"user", "iam"} or not name.strip():
        raise InvalidRequest("SUBJECT: must be user: and the sub of a token, or iam: and an ARN", field="SUBJECT")
    try:
        return Membership(subject=subject, tenant_id=tenant, role=role)
    except ValidationError as error:
        raise InvalidRequest.from_validation(error, {"tenant_id": "--tenant", "subject": "SUBJECT"}) from None
