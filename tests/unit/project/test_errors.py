"""The error tree is drawn as it is, and a refused input is named and never repeated."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest
from braid import errors
from braid.errors import BraidError, DimensionMismatch, InvalidRequest, TransientStoreError
from braid.models import Query, Record
from pydantic import ValidationError

ROOT = Path(__file__).parents[3]
SECRET = "s3cret-of-a-caller"  # noqa: S105 - stands for any input


def drawn() -> dict[str, str | None]:
    """Return each error of the docstring's tree with its parent."""
    parents: dict[str, str | None] = {}
    line_of: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        match = re.match(r"^ {4}([│ ├└─]*)([A-Z]\w+)", line)
        if match:
            depth = len(match[1]) // 4
            line_of[depth:] = [match[2]]
            parents[match[2]] = line_of[depth - 1] if depth else None
    return parents


def defined() -> dict[str, str | None]:
    """Return each error of the module with its parent."""
    classes = [cls for _, cls in inspect.getmembers(errors, inspect.isclass) if issubclass(cls, BraidError)]
    return {cls.__name__: None if cls is BraidError else cls.__mro__[1].__name__ for cls in classes}


def test_every_error_is_drawn_in_the_docstring_under_its_parent() -> None:
    assert drawn() == defined()
    assert len(defined()) > 15


def test_every_error_says_when_it_happens() -> None:
    assert all((getattr(errors, name).__doc__ or "").endswith(".") for name in defined())


def test_only_what_is_worth_trying_again_is_called_transient() -> None:
    assert {name for name in defined() if name.startswith("Transient")} == {TransientStoreError.__name__}


def test_the_error_of_one_field_names_it_and_is_of_its_class() -> None:
    error = DimensionMismatch.of("embedding", "has nine values")
    assert (type(error), str(error), error.field) == (DimensionMismatch, "embedding: has nine values", "embedding")


def test_every_error_is_raised_somewhere() -> None:
    library = Path(errors.__file__).parent
    sources = [file for folder in (library, ROOT / "braid_cli", ROOT / "functions") for file in folder.rglob("*.py")]
    text = "\n".join(file.read_text(encoding="utf-8") for file in sources if file != Path(errors.__file__))
    matched = re.compile(r"^\s*case .*$", re.MULTILINE)
    made = set(re.findall(r"\b(\w+)(?:\.of|\.from_validation)?\(", matched.sub("", text)))
    assert set(defined()) - made == {BraidError.__name__}


def refusal(shape: type[Query | Record] = Query, **fields: Any) -> InvalidRequest:
    with pytest.raises(ValidationError) as caught:
        shape.model_validate({"tenant_id": "acme"} | fields)
    return InvalidRequest.from_validation(caught.value)


@pytest.mark.parametrize(
    ("shape", "fields", "field"),
    [
        (Query, {"text": "x", "top_k": SECRET}, "top_k"),
        (Query, {"text": "x", "intent": SECRET}, "intent"),
        (Query, {"text": "x", "tenant_id": f"{SECRET}/.."}, "tenant_id"),
        (Query, {"text": SECRET + "x" * 10_000}, "text"),
        (Query, {"text": f"{SECRET}\x00"}, "text"),
        (Query, {"text": "x", "as_of": SECRET}, "as_of"),
        (Query, {"text": "x", "filters": {"kinds": ["chunk", SECRET]}}, "filters.kinds.1"),
        (Query, {"text": "x", "filters": SECRET}, "filters"),
        (Query, {"text": "x", "unknown": SECRET}, "unknown"),
        (Query, {"text": "x", "vector_weight": SECRET}, "vector_weight"),
        (Record, {"id": f"{SECRET}\n"}, "id"),
        (Record, {"id": "a", "embeddings": [{"space": "s", "model_id": "m", "vector": SECRET}]}, "embeddings.0.vector"),
        (Record, {"id": "a", "metadata": {"key": [[SECRET]]}}, "metadata.key"),
    ],
)
def test_a_refused_input_is_named_and_not_repeated(
    shape: type[Query | Record], fields: dict[str, Any], field: str
) -> None:
    error = refusal(shape, **fields)
    assert error.field
    assert error.field.startswith(field)
    assert str(error).startswith(f"{error.field}: ")
    assert SECRET not in str(error)
    assert "pydantic" not in str(error)
    assert "http" not in str(error)


@pytest.mark.parametrize(
    ("shape", "fields", "told"),
    [
        (
            Query,
            {"text": "x", "tenant_id": "a b"},
            "tenant_id: must be 1 to 64 of the letters A to Z and a to z, digits",
        ),
        (Query, {"text": "x", "filters": {"entity_types": ["a b"]}}, "filters.entity_types.0: must be 1 to 64 of the"),
        (Query, {"text": ""}, "text: must not be empty"),
        (Query, {"text": "x" * 10_001}, "text: must not be longer than 10,000 characters"),
        (Query, {"text": "x", "top_k": 51}, "top_k: must be less than or equal to 50"),
        (
            Query,
            {"text": "x", "hints": {"steps": [{"operation": "expand"}] * 7}},
            "hints.steps: must not hold more than 6",
        ),
        (Query, {"text": "x", "hints": {"steps": 5}}, "hints.steps: must be a list"),
        (Query, {"text": "x", "filters": 5}, "filters: must be an object"),
        (Record, {"id": ""}, "id: must not be empty"),
        (Query, {"text": "x", "ranking": "best"}, "ranking: must be 'relevance', 'memory' or 'recency'"),
        (Record, {"id": "a", "metadata": {"k": {}}}, "metadata.k: is not text, a number, true, false, null or a list"),
    ],
)
def test_what_is_wrong_is_said_in_words(shape: type[Query | Record], fields: dict[str, Any], told: str) -> None:
    assert str(refusal(shape, **fields)).startswith(told)


def test_several_wrong_fields_are_all_named() -> None:
    error = refusal(top_k=0, fusion="best")
    assert [clause.split(":")[0] for clause in str(error).split("; ")] == ["text", "top_k", "fusion"]
    assert error.field == "text"


def test_what_is_wrong_with_a_request_as_a_whole_is_the_requests() -> None:
    error = refusal(text="x", vector_weight=0, graph_weight=0)
    assert error.field == "request"
    assert "vector_weight and graph_weight are both 0" in str(error)


def test_a_more_precise_error_keeps_its_class() -> None:
    with pytest.raises(ValidationError) as caught:
        Query.model_validate({})
    assert type(DimensionMismatch.from_validation(caught.value)) is DimensionMismatch


def test_a_message_alone_names_no_field() -> None:
    assert InvalidRequest("no").field is None
    assert InvalidRequest("no", field="top_k").field == "top_k"
