"""Keyword arguments that editors complete are those that the models take."""

from __future__ import annotations

import inspect

from braid import Braid
from braid.client.argument_types import ContextFields, QuestionFields, RelatedFields
from braid.models import Question
from braid.retrieval.context.message_selection import ContextQuestion


def test_arguments_of_a_search_are_the_fields_of_a_question() -> None:
    assert {"text", *QuestionFields.__annotations__} == set(Question.model_fields)


def test_arguments_of_a_context_are_the_fields_of_its_question() -> None:
    assert {"query", "messages", *ContextFields.__annotations__} == set(ContextQuestion.model_fields)


def test_arguments_of_facts_are_those_of_related() -> None:
    assert {"self", "entity", *RelatedFields.__annotations__} == set(inspect.signature(Braid.related).parameters)
