"""Patches moto's interpreter to cache repeated work; its results stay the same.

It caches parsed definitions, JSONPath expressions, and the client that calls functions, which together take most of an
execution's time; and it speeds up deep copies of states' data.
"""

from __future__ import annotations

import os
import pickle  # nosec B403
from functools import cache, lru_cache
from importlib import import_module
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_PARSER: Final = "moto.stepfunctions.parser.asl."
_COPYING: Final = (
    "component.common.path.result_path",
    "component.common.string.string_expression",
    "component.state.exec.execute_state",
    "component.state.exec.state_parallel.state_parallel",
    "component.state.exec.state_task.service.state_task_service",
    "eval.environment",
    "eval.event.event_manager",
    "eval.states",
)
"""Modules that deep-copy the data of states, several times for each state."""
_ENTRIES: Final = 512
_CLIENTS: Final = 8
FUNCTIONS_ENDPOINT: Final = "AWS_ENDPOINT_URL_LAMBDA"
"""Environment variable with the endpoint of Lambda's Invoke API."""


@cache
def remember() -> None:
    """Patch the interpreter of this process, once."""
    parser = import_module(f"{_PARSER}parse.asl_parser").AmazonStateLanguageParser
    parser.parse = staticmethod(_parsed_once(parser.parse))
    paths = import_module(f"{_PARSER}utils.json_path")
    vars(paths)["parse"] = lru_cache(_ENTRIES)(paths.parse)
    tasks = import_module(f"{_PARSER}component.state.exec.state_task.lambda_eval_utils")
    vars(tasks)["boto_client_for"] = _made_once(tasks.boto_client_for)
    for name in _COPYING:
        vars(import_module(_PARSER + name))["copy"] = SimpleNamespace(deepcopy=_copied)


def _made_once(make: Callable[[str, str], Any]) -> Callable[..., Any]:
    """Return a function that caches clients by region, service and the endpoint in the environment."""

    @lru_cache(_CLIENTS)
    def made(region: str, service: str, _endpoint: str | None) -> Any:  # noqa: ANN401 - boto3's
        return make(region, service)

    def client_for(region: str, service: str, state_credentials: object = None) -> Any:  # noqa: ANN401, ARG001 - boto3's
        return made(region, service, os.environ.get(FUNCTIONS_ENDPOINT))  # moto does not use credentials of a state

    return client_for


def _copied(value: Any) -> Any:  # noqa: ANN401 - any data of a state
    """Return a deep copy, ten times as fast as :func:`copy.deepcopy`."""
    return pickle.loads(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))  # noqa: S301 - made here  # nosec B301


def _parsed_once(parse: Callable[[str], tuple[Any, Any]]) -> Callable[[str], tuple[Any, Any]]:
    """Return a parser that parses each definition once, and returns a new copy for each execution."""

    @lru_cache(_ENTRIES)
    def pickled(definition: str) -> bytes:
        return pickle.dumps(parse(definition)[0])

    def parsed(definition: str) -> tuple[Any, Any]:
        return pickle.loads(pickled(definition)), None  # noqa: S301 - made above  # nosec B301

    return parsed
