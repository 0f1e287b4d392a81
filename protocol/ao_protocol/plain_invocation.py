"""Knows the usual invocation by sight, without the models, which take longer to import than a short run (SPEC 4).

What is not plain here is no fault: `invocation_from_document` judges it, and has the words for what is wrong.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from ao_protocol.identifiers import is_identifier

_DEMANDS_NOTHING_OF_EMPTY: Final = frozenset({"type", "properties", "additionalProperties", "title", "description"})
"""What a schema of objects may hold and still accept an empty one."""


def is_plain_invocation(document: Mapping[str, Any]) -> bool:
    """Tell whether a document is a whole invocation of version 3.0 that starts a run with a prompt alone.

    True guarantees that `invocation_from_document` takes it, and leaves every field as it stands. A field that is null
    is as good as absent. Neither an output contract, a schema of parameters, a config, MCP servers nor `requires` stand
    in it.
    """
    return (
        document.get("schema_version") == "3.0"
        and document.get("mode") == "start"
        and _is_prompt(document.get("parameters"))
        and _fits(document, _FIELDS)
    )


def takes_an_empty_config(schema: object) -> bool:
    """Tell whether a `config_schema` accepts `{}` for certain, without a validator."""
    return isinstance(schema, dict) and schema.get("type") == "object" and schema.keys() <= _DEMANDS_NOTHING_OF_EMPTY


def _is_text(value: object) -> bool:
    return type(value) is str


def _is_name(value: object) -> bool:
    return type(value) is str and value != ""


def _is_path(value: object) -> bool:
    return type(value) is str and value.startswith("/")


def _is_object(value: object) -> bool:
    return type(value) is dict


def _is_prompt(value: object) -> bool:
    return type(value) is dict and value.keys() == {"prompt"} and _is_name(value["prompt"])


def _is_positive(value: object) -> bool:
    return type(value) in {int, float} and 0 < value < math.inf  # type: ignore[operator]  # a number


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 1


def _holds_an_event(value: object) -> bool:
    return type(value) is int and value >= 4096


def _is_agent(value: object) -> bool:
    return (
        type(value) is dict
        and _is_name(value.get("name"))
        and value.get("type", "autonomous") in ("autonomous", "procedural")
        and _fits(value, _OF_AGENT)
    )


def _are_limits(value: object) -> bool:
    return type(value) is dict and _fits(value, _OF_LIMITS)


def _is_control(value: object) -> bool:
    return (
        type(value) is dict
        and value.get("stdin", "closed") in ("open", "closed")
        and type(value.get("turns", False)) is bool
    )


def _is_absent(_: object) -> bool:
    return False


def _fits(document: Mapping[str, Any], fields: Mapping[str, Callable[[object], bool]]) -> bool:
    """Tell whether each known field that is there is plainly valid. An unknown one means nothing."""
    for name, value in document.items():
        is_plain = fields.get(name)
        if is_plain is not None and value is not None and not is_plain(value):
            return False
    return True


_OF_LIMITS: Final[Mapping[str, Callable[[object], bool]]] = {
    "timeout_seconds": _is_positive,
    "max_turns": _is_count,
    "max_cost_usd": _is_positive,
    "max_event_bytes": _holds_an_event,
    "heartbeat_interval_seconds": _is_positive,
    "cancel_grace_seconds": _is_positive,
}
_OF_AGENT: Final[Mapping[str, Callable[[object], bool]]] = {
    "description": _is_text,
    "system_prompt": _is_text,
    "command": _is_text,
    "parameters_schema": _is_absent,
    "output_schema": _is_absent,
    "output_format": _is_absent,
    "default_output_schema": _is_absent,
    "default_output_schema_options": _is_absent,
    "mcp_servers": lambda value: value == {},
}
_FIELDS: Final[Mapping[str, Callable[[object], bool]]] = {
    "prompt": _is_name,
    "run_id": is_identifier,
    "session_id": is_identifier,
    "agent_name": _is_text,
    "agent_blueprint": _is_agent,
    "output_schema": _is_absent,
    "output_schema_source": _is_absent,
    "output_schema_options": _is_absent,
    "project_dir": _is_path,
    "executor_session_id": is_identifier,
    "executor_config": lambda value: value == {},
    "limits": _are_limits,
    "requires": lambda value: value == [],
    "control": _is_control,
    "metadata": _is_object,
}
