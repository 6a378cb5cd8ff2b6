"""Keyword arguments that editors complete are those that the models take; which texts are paths."""

from __future__ import annotations

import inspect

import pytest
from braid import Braid
from braid.client.added_items import Item, items_of
from braid.client.argument_types import ContextFields, QuestionFields, RelatedFields
from braid.errors import InvalidRequest
from braid.models import Question
from braid.retrieval.context.message_selection import ContextQuestion


@pytest.mark.parametrize("text", ["港口的收费标准已经调整。" * 40, "x" * 300 + ".y", "0" * 500 + "/7"])
def test_a_long_text_without_blanks_is_a_text(text: str) -> None:
    (item,) = items_of(text, "content")
    assert isinstance(item, Item)
    assert item.row["text"] == text


def test_a_path_that_is_too_long_does_not_exist() -> None:
    with pytest.raises(InvalidRequest, match=r"does not exist$"):
        list(items_of(f"{'x' * 300}.md", "content"))


def test_arguments_of_a_search_are_the_fields_of_a_question() -> None:
    assert {"text", *QuestionFields.__annotations__} == set(Question.model_fields)


def test_arguments_of_a_context_are_the_fields_of_its_question() -> None:
    assert {"query", "messages", *ContextFields.__annotations__} == set(ContextQuestion.model_fields)


def test_arguments_of_facts_are_those_of_related() -> None:
    assert {"self", "entity", *RelatedFields.__annotations__} == set(inspect.signature(Braid.related).parameters)
