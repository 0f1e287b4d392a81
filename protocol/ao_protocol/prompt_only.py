"""Detection of invocations with a prompt and nothing else, which need neither models nor contracts (SPEC 4).

The imports of models and contracts take longer than a short run. Internal: `invocation_from_document` checks every
other invocation, and reports the problems.
"""

from collections.abc import Mapping
from typing import Any, Final

from ao_protocol.framing import is_identifier
from ao_protocol.published import validator_for

_CONTRACT: Final = ("output_schema", "output_schema_source", "output_schema_options")
_DEMANDS: Final = (
    "parameters_schema",
    "output_schema",
    "output_format",
    "default_output_schema",
    "default_output_schema_options",
)
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
    if not all(name is None or is_identifier(name) for name in names) or not validator_for("invocation").is_valid(
        document
    ):
        return False
    # 8192.0 is a valid integer, which the models convert to 8192.
    return not isinstance((document.get("limits") or {}).get("max_event_bytes"), float)


def takes_an_empty_config(schema: object) -> bool:
    """Return whether a `config_schema` certainly accepts `{}`, without a validator."""
    return isinstance(schema, dict) and schema.get("type") == "object" and schema.keys() <= _DEMANDS_NOTHING_OF_EMPTY
