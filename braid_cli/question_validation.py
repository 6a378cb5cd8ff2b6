"""Validates a question and its tenant for commands; errors name the command line's options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from braid.errors import ConfigurationError, InvalidRequest, ModelError, UnknownTenant
from braid.models import Query, RerankerKind
from braid.settings import EngineKind
from pydantic import ValidationError

from braid_cli.english_detection import mostly_foreign
from braid_cli.terminal import complain

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from braid.app import Application

OPTIONS = {
    "text": "TEXT",
    "tenant_id": "--tenant",
    "top_k": "--top-k",
    "as_of": "--as-of",
    "graph_constraint.entity": "--within",
    "filters.time_range": "--since and --until",
    "filters.time_range.start": "--since",
    "filters.time_range.end": "--until",
    "hints.min_similarity": "--min-similarity",
    "filters.metadata": "--where",
    **{f"filters.entity_types.{place}": "--type" for place in range(32)},
}
"""The command line's option for each field of a question."""
_SAMPLED = 200
"""Number of a tenant's records by which its language is detected."""
MUST_BE = {
    "TEXT": "must be 1 to 10,000 characters, not all of them spaces, none of them NUL",
    "--tenant": "must be 1 to 64 of the letters A to Z and a to z, digits, - and _, beginning with a letter or digit",
    "--top-k": "must be a whole number from 1 to 50",
}


def question(fields: dict[str, Any]) -> Query:
    """Return the query with these fields.

    Raises InvalidRequest if a field is malformed; the message names the option.
    """
    try:
        return Query.model_validate(fields)
    except ValidationError as error:
        refused = of_option(InvalidRequest.from_validation(error, OPTIONS), {"filters": "--where", "facets": "--facet"})
        if refused.field in MUST_BE:
            raise InvalidRequest.of(refused.field, MUST_BE[refused.field]) from None
        raise refused from None


def of_option(error: InvalidRequest, options: Mapping[str, str]) -> InvalidRequest:
    """Return an error that names the option instead of the field; the same error if the field has no option."""
    field = error.field or ""
    name = options.get(field.partition(".")[0])
    return error if name is None else InvalidRequest(f"{name}{str(error).removeprefix(field)}", field=name)


def check_tenant(tenant: str) -> None:
    """Check a tenant's name. Raises InvalidRequest if it is malformed."""
    question({"text": "tenant", "tenant_id": tenant})


def check_known(tenant: str, application: Application) -> None:
    """Check that a tenant exists, in embedded stores only. Raises UnknownTenant if nothing was ingested for it."""
    if application.settings.engine is not EngineKind.EMBEDDED:
        return
    known = application.store.tenants()
    if tenant not in known:
        listed = f"tenants here: {', '.join(known)}" if known else "nothing is ingested here yet"
        raise UnknownTenant(
            f"--tenant: nothing is known of {tenant!r} in {application.settings.home.absolute()}; {listed}. "
            f"`braid ingest DIR --tenant {tenant}` makes it"
        )


def warn_of_unknown_types(asked: Iterable[str], known: Iterable[str], what: str) -> None:
    """Print a warning for each type that no stored item has, with the nearest existing type.

    ``what`` is the kind of item, such as ``relationship``.
    """
    from difflib import get_close_matches

    by_form = {kind.casefold(): kind for kind in known}
    for kind in sorted(set(asked) - set(by_form.values())):
        near = "".join(f"; did you mean {by_form[one]}?" for one in get_close_matches(kind.casefold(), by_form, 1))
        complain(f"no {what} has the type {kind}{near}", style="yellow")


def unusable_models(query: Query, application: Application) -> list[str]:
    """Return a message for each model that a question needs and that cannot be used, with the reason.

    Raises ConfigurationError if no such model or profile is configured.
    """
    from braid.engines.onnx.model_files import ModelKind, open_model

    wanted: list[tuple[str, ModelKind, int | None]]
    wanted = [(model.id, ModelKind.ENCODER, model.dimension) for model in application.models()]
    if (query.reranker or application.settings.reranker) is RerankerKind.ONNX:
        if not application.settings.reranker_model:
            raise ConfigurationError("--reranker: onnx needs BRAID_RERANKER_MODEL, the name of a model made here")
        wanted.append((application.settings.reranker_model, ModelKind.CROSS_ENCODER, None))
    if query.reranker is RerankerKind.VOYAGE and not application.settings.voyage_is_set_up():
        raise ConfigurationError("--reranker: voyage needs BRAID_VOYAGE_API_KEY")
    problems = []
    for name, kind, dimension in wanted:
        try:
            open_model(application.settings.models_path() / name, kind, dimension=dimension)
        except ModelError as error:
            problems.append(f"{name}: {error}")
    return problems


def foreign_to(application: Application, tenant: str) -> str | None:
    """Return a warning if most of a tenant's first 200 texts are not English, and its models are for English only.

    None otherwise.
    """
    models = application.models()
    if not all(model.english_only for model in models):
        return None
    page = application.index.scan(tenant, limit=_SAMPLED)
    if not mostly_foreign(record.content for record in page.records):
        return None
    known = ", ".join(dict.fromkeys(model.id for model in models))
    return (
        f"most texts are not English, which {known} is made for: words and the graph find them, meaning hardly does; "
        "BRAID_MODEL_PROFILE=multilingual reads them, once its model is exported (docs/models.md, Languages)"
    )
