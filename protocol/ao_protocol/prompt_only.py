"""Detection of invocations with a prompt and nothing else, which need neither models nor contracts (SPEC 4).

The imports of models and contracts take longer than a short run. Internal: `invocation_from_document` checks every
other invocation, and reports the problems.
"""

from collections.abc import Mapping
from typing import Any, Final

from ao_protocol.framing import is_identifier

_CONTRACT: Final = ("output_schema", "output_schema_source", "output_schema_options")
_DEMANDS: Final = (
    "parameters_schema",
    "output_schema",
    "output_format",
    "default_output_schema",
    "default_output_schema_options",
)
_TYPES: Final[Mapping[str, type]] = {
    **dict.fromkeys(("schema_version", "mode", "run_id", "session_id", "agent_name", "project_dir", "prompt"), str),
    **dict.fromkeys(("parameters", "agent_blueprint", "executor_config", "limits", "control", "metadata"), dict),
}
"""The common fields of an invocation, and their types."""
_LEAST_BYTES: Final = 4096
"""The minimum of `max_event_bytes`."""
_DEMANDS_NOTHING_OF_EMPTY: Final = frozenset({"type", "properties", "additionalProperties", "title", "description"})
"""Keywords with which a schema of an object still accepts the empty object."""


def asks_a_prompt_alone(document: Mapping[str, Any]) -> bool:
    """Return whether a document is a valid invocation of version 3.0 that starts a run with only a prompt.

    True guarantees that `invocation_from_document` accepts the document and leaves every field unchanged. A field that
    is null counts as absent. The document has no output contract, `parameters_schema`, config, attachment, MCP
    server or `requires`.
    """
    parameters, blueprint = document.get("parameters"), document.get("agent_blueprint") or {}
    if (
        document.get("schema_version") != "3.0"
        or document.get("mode") != "start"
        or not isinstance(parameters, dict)
        or not isinstance(blueprint, dict)
        or parameters.keys() != {"prompt"}
        or not isinstance(parameters["prompt"], str)
        or not parameters["prompt"]
        or any(document.get(name) is not None for name in _CONTRACT)
        or any(blueprint.get(name) is not None for name in _DEMANDS)
        or any(document.get(name) for name in ("executor_config", "requires", "attachments"))
        or blueprint.get("mcp_servers")
    ):
        return False
    names = (document.get(name) for name in ("run_id", "session_id", "executor_session_id"))
    if not all(name is None or is_identifier(name) for name in names):
        return False
    if not _is_simple(document):
        from ao_protocol.published import validator_for

        if not validator_for("invocation").is_valid(document):
            return False
    # 8192.0 is a valid integer, which the models convert to 8192.
    return not isinstance((document.get("limits") or {}).get("max_event_bytes"), float)


def _is_simple(document: Mapping[str, Any]) -> bool:
    """Return whether a document has only common fields with usual values, which the published schema accepts.

    Without this, the import of a validator and its schemas would take a sixth of the CPU time of a short run.
    """
    given = {name: value for name, value in document.items() if value is not None}
    if not all(type(value) is _TYPES.get(name) for name, value in given.items()):
        return False
    blueprint = {
        name: value for name, value in given.get("agent_blueprint", {"name": "-"}).items() if value is not None
    }
    limits, control = given.get("limits", {}), given.get("control", {})
    return (
        given.get("prompt") != ""
        and given.get("project_dir", "/").startswith("/")
        and blueprint.get("name", "") != ""
        and all(type(blueprint.get(name, "")) is str for name in ("name", "description", "system_prompt", "command"))
        and blueprint.get("type", "autonomous") in ("autonomous", "procedural")
        and blueprint.get("mcp_servers", {}) == {}
        and limits.keys()
        <= {"timeout_seconds", "cancel_grace_seconds", "heartbeat_interval_seconds", "max_event_bytes"}
        and all(type(number) in {int, float} and 0 < number < 1 << 31 for number in limits.values())
        and type(limits.get("max_event_bytes", _LEAST_BYTES)) is int
        and limits.get("max_event_bytes", _LEAST_BYTES) >= _LEAST_BYTES
        and control.keys() <= {"stdin", "turns"}
        and control.get("stdin", "open") in ("open", "closed")
        and type(control.get("turns", False)) is bool
    )


def takes_an_empty_config(schema: object) -> bool:
    """Return whether a `config_schema` certainly accepts `{}`, without a validator."""
    return isinstance(schema, dict) and schema.get("type") == "object" and schema.keys() <= _DEMANDS_NOTHING_OF_EMPTY
