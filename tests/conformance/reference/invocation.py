"""The form of an invocation, and what this executor refuses in it before any work (SPEC 4)."""

from typing import Any

from attachments import ATTACHMENTS
from description import AGENT_TYPES, CONFIG_SCHEMA, DESCRIPTION
from errors import RunFailed
from json_schema import problems_of
from schema_vetting import faults_of

NAME = {"type": "string", "minLength": 1}
TEXT = {"type": ["string", "null"]}
OBJECT = {"type": ["object", "null"]}
POSITIVE = {"type": ["number", "null"], "exclusiveMinimum": 0}
STDIO_SERVER = {
    "required": ["command"],
    "properties": {
        "command": NAME,
        "args": {"type": "array", "items": {"type": "string"}},
        "env": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}
REMOTE_SERVER = {
    "required": ["url"],
    "properties": {
        "type": {"enum": ["http", "sse"]},
        "url": {"type": "string", "pattern": "^https?://"},
        "headers": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}
SERVER = {
    "type": "object",
    "if": {"type": "object", "properties": {"type": {"const": "stdio"}}},
    "then": STDIO_SERVER,
    "else": REMOTE_SERVER,
}
BLUEPRINT = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": NAME,
        "description": TEXT,
        "type": {"enum": ["autonomous", "procedural"]},
        "system_prompt": TEXT,
        "command": TEXT,
        "parameters_schema": OBJECT,
        "output_schema": OBJECT,
        "output_format": {
            "type": ["object", "null"],
            "required": ["type"],
            "properties": {"type": {"const": "agent_response"}, "form": {"enum": ["xml", "json", "markdown"]}},
        },
        "default_output_schema": OBJECT,
        "default_output_schema_options": OBJECT,
        "mcp_servers": {"type": ["object", "null"], "additionalProperties": SERVER},
    },
    "not": {
        "required": ["output_schema", "output_format"],
        "properties": {"output_schema": {"type": "object"}, "output_format": {"type": "object"}},
    },
}
LIMITS = {
    "type": "object",
    "properties": {
        "timeout_seconds": POSITIVE,
        "max_turns": {"type": ["integer", "null"], "minimum": 1},
        "max_cost_usd": POSITIVE,
        "max_event_bytes": {"type": ["integer", "null"], "minimum": 4096},
        "heartbeat_interval_seconds": POSITIVE,
        "cancel_grace_seconds": POSITIVE,
    },
}
INPUT_RESPONSE = {
    "type": "object",
    "required": ["request_id"],
    "properties": {"request_id": NAME, "option_id": {"type": ["string", "null"], "minLength": 1}},
}
INVOCATION = {
    "type": "object",
    "required": ["mode", "parameters"],
    "properties": {
        "mode": {"enum": ["start", "resume"]},
        "run_id": NAME,
        "session_id": NAME,
        "parameters": {"type": "object"},
        "prompt": NAME,
        "attachments": ATTACHMENTS,
        "agent_name": {"type": "string"},
        "agent_blueprint": BLUEPRINT,
        "output_schema": {"type": "object"},
        "output_schema_source": {"enum": ["blueprint", "inline", "named", "default"]},
        "output_schema_options": {"type": "object"},
        "project_dir": {"type": "string", "pattern": "^/"},
        "executor_session_id": NAME,
        "executor_config": {"type": "object"},
        "limits": LIMITS,
        "requires": {"type": "array", "items": {"type": "string"}},
        "control": {
            "type": "object",
            "properties": {
                "stdin": {"enum": ["open", "closed"]},
                "turns": {"type": "boolean"},
                "input": {"type": "boolean"},
            },
        },
        "input_responses": {"type": "array", "items": INPUT_RESPONSE},
        "metadata": {"type": "object"},
    },
}
KNOWN_FEATURES = {"attachments"} | ({"input"} if DESCRIPTION["capabilities"].get("input_parking") else set())


def without_nulls(document: dict[str, Any]) -> dict[str, Any]:
    """Return an invocation without the fields of its first level that are null."""
    return {name: value for name, value in document.items() if name in INVOCATION["required"] or value is not None}


def require_form(invocation: dict[str, Any], version: tuple[int, int]) -> None:
    """Raise `RunFailed` where an invocation is not of the form of section 4."""
    problems = problems_of(INVOCATION, invocation)
    is_resume = invocation.get("mode") == "resume"
    if is_resume and version >= (3, 0) and "executor_session_id" not in invocation:
        problems.append("$: 'executor_session_id' is a required property of a resume")
    if "input_responses" in invocation and not problems and not _may_answer(invocation):
        problems.append("$: input_responses need mode resume, `input` in requires, control.input and no prompt")
    if problems:
        refuse_as_invalid(problems)


def _may_answer(invocation: dict[str, Any]) -> bool:
    asks = "input" in invocation.get("requires", []) and invocation.get("control", {}).get("input") is True
    return asks and invocation["mode"] == "resume" and "prompt" not in invocation


def require_known_features(invocation: dict[str, Any]) -> None:
    """Raise `RunFailed` where the invocation needs what this executor does not have."""
    missing = [name for name in invocation.get("requires", []) if name not in KNOWN_FEATURES]
    agent_type = invocation.get("agent_blueprint", {}).get("type", "autonomous")
    if agent_type not in AGENT_TYPES:
        missing.append(f"agent_type:{agent_type}")
    if missing:
        refuse_capability(missing)


def require_config(invocation: dict[str, Any]) -> None:
    """Raise `RunFailed` where `executor_config` is not as the description says."""
    problems = problems_of(CONFIG_SCHEMA, invocation.get("executor_config", {}))
    if problems:
        pairs = [problem.split(": ", 1) for problem in problems]
        violations = [{"pointer": pointer, "message": message} for pointer, message in pairs]
        message = f"executor_config is not as the config_schema says: {problems[0]}; correct it"
        raise RunFailed("invalid_executor_config", message, details={"violations": violations})


def require_parameters_schema(invocation: dict[str, Any]) -> None:
    """Raise `RunFailed` where the blueprint's `parameters_schema` is no acceptable schema."""
    schema = invocation.get("agent_blueprint", {}).get("parameters_schema")
    if schema is not None and (faults := faults_of(schema, "$.agent_blueprint.parameters_schema")):
        refuse_as_invalid(faults)


def refuse_as_invalid(problems: list[str]) -> None:
    """Raise the refusal of an invocation that has these problems."""
    message = f"the invocation has {len(problems)} problem(s), first {problems[0]}; correct it"
    raise RunFailed("invalid_invocation", message, details={"problems": problems})


def refuse_capability(missing: list[str]) -> None:
    """Raise the refusal of what this executor does not have."""
    message = f"not to be had here: {', '.join(missing)}; ask describe what is"
    raise RunFailed("unsupported_capability", message, details={"missing": missing})
