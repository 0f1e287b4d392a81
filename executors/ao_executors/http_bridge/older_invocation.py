"""Convert the stdin of a runner of the older protocol to version 3.0: the invocation and the turns after it."""

import os
from pathlib import Path
from typing import Final, NamedTuple

from pydantic import JsonValue

from ao_executors.core import RunFailed
from ao_executors.core.executor import refused
from ao_protocol.errors import ErrorType
from ao_protocol.framing import NotIJson, decode_object
from ao_protocol.inputs import format_inputs
from ao_protocol.version import SchemaVersion, upgrade_invocation
from ao_protocol.wire import JsonObject

SPOKEN: Final = SchemaVersion(2, 2)
_CONTRACTS: Final = ("output_schema", "output_format", "default_output_schema")


class OlderTurn(NamedTuple):
    """A further run: the control line that begins it, the user's prompt, and the fields that its answer repeats."""

    line: JsonObject
    prompt: str | None
    answer_fields: JsonObject


def upgraded_invocation(line: bytes) -> JsonObject:
    """Return the 3.0 invocation for a line of schema 2.2, with a `run_id` and `control.turns`.

    Raises:
        RunFailed: The line is not such an invocation. The executor checks the fields that are not read here.
    """
    document = _object(line, "the invocation")
    version = document.get("schema_version")
    if version != str(SPOKEN):
        text = f"Unsupported schema version in schema_version: {version!r}. Supported: {SPOKEN}"
        raise refused(ErrorType.UNSUPPORTED_SCHEMA_VERSION, text)
    session_id = document.get("session_id")
    if not isinstance(session_id, str) or not session_id:
        problem = f"$.session_id: expected a non-empty string, found {session_id!r}"
        raise refused(ErrorType.INVALID_INVOCATION, f"invalid invocation: {problem}")
    invocation = {name: value for name, value in upgrade_invocation(document, SPOKEN).items() if value is not None}
    blueprint = invocation.get("agent_blueprint")
    if isinstance(blueprint, dict):
        known = {name: value for name, value in blueprint.items() if value is not None}
        invocation["agent_blueprint"] = {"name": invocation.get("agent_name") or "agent", **known}
    project_dir = invocation.get("project_dir")
    if not isinstance(project_dir, str | None):
        raise refused(ErrorType.INVALID_INVOCATION, f"$.project_dir: expected a path, found {project_dir!r}")
    asked: JsonObject = {
        "schema_version": "3.0",
        "run_id": _new_run_id(),
        "project_dir": str(Path(project_dir or ".").absolute()),
        "control": {"stdin": "open", "turns": True},
    }
    return invocation | asked


def read_turn(received: bytes) -> OlderTurn | None:
    """Return the turn of a control line; None for a `shutdown`.

    Raises:
        RunFailed: The line is neither. It cannot be ignored, because the runner waits for an answer to it.
    """
    document = _object(received, "the line")
    kind, parameters, run_id = document.get("type"), document.get("parameters"), _text(document, "run_id")
    if kind == "shutdown":
        return None
    if kind != "turn" or not isinstance(parameters, dict):
        text = f"expected a turn with parameters, or shutdown; found type {kind!r} with parameters {parameters!r:.80}"
        raise refused(ErrorType.INVALID_INVOCATION, text)
    line: JsonObject = {"type": "turn", "run_id": run_id or _new_run_id(), "parameters": parameters}
    return OlderTurn(line, _text(parameters, "prompt"), {} if run_id is None else {"run_id": run_id})


def resumed(invocation: JsonObject, turn: OlderTurn, executor_session_id: str) -> JsonObject:
    """Return the `resume` invocation that performs a turn in another process."""
    found: JsonObject = {"mode": "resume", "executor_session_id": executor_session_id}
    return invocation | found | {name: turn.line[name] for name in ("run_id", "parameters")}


def prompt_of(invocation: JsonObject) -> str | None:
    """Return the user's message for the timeline; None for a procedural agent, which has no conversation."""
    blueprint, parameters = _dict(invocation, "agent_blueprint"), _dict(invocation, "parameters")
    if blueprint.get("type") == "procedural":
        return None
    if invocation.get("mode") == "start" and blueprint.get("parameters_schema") is not None:
        return format_inputs(parameters)
    return _text(parameters, "prompt")


def has_contract(invocation: JsonObject) -> bool:
    """Return whether the run has an output contract. Its messages are then not part of the timeline."""
    blueprint = _dict(invocation, "agent_blueprint")
    return "output_schema" in invocation or any(blueprint.get(name) is not None for name in _CONTRACTS)


def lacks_program(invocation: JsonObject) -> bool:
    """Return whether the agent may be procedural, with a program that only the coordinator knows."""
    blueprint = invocation.get("agent_blueprint")
    is_unknown = not isinstance(blueprint, dict) or blueprint.get("type") == "procedural"
    return is_unknown and "command" not in _dict(invocation, "agent_blueprint") and "agent_name" in invocation


def with_program(invocation: JsonObject, agent: JsonObject, scripts_dir: Path) -> JsonObject:
    """Return the invocation with the program of a procedural agent; for any other agent, return it unchanged.

    A script is a folder below `scripts_dir`, which the runner has written. Its `script.json` names the file.

    Raises:
        RunFailed: The script is missing or cannot be read.
    """
    if agent.get("type") != "procedural":
        return invocation
    fields: JsonObject = {"name": invocation["agent_name"], **_dict(invocation, "agent_blueprint")}
    fields |= {name: agent[name] for name in ("type", "command") if agent.get(name) is not None}
    script = agent.get("script")
    if not isinstance(script, str) or not script:
        return invocation | {"agent_blueprint": fields}
    folder = scripts_dir / script
    try:
        fields["command"] = decode_object((folder / "script.json").read_bytes())["script_file"]
    except (OSError, NotIJson, KeyError) as error:
        text = f"the script {script!r} cannot be read from {folder}: {error}; the runner syncs scripts when it polls"
        raise RunFailed(ErrorType.DEPENDENCY_MISSING, text, origin="environment") from error
    config: JsonValue = _dict(invocation, "executor_config") | {"commands_dir": str(folder.absolute())}
    return invocation | {"agent_blueprint": fields, "executor_config": config}


def _object(line: bytes, what: str) -> JsonObject:
    try:
        return decode_object(line)
    except NotIJson as error:
        raise refused(ErrorType.INVALID_JSON, f"{what} is not acceptable: {error}") from error


def _dict(document: JsonObject, name: str) -> JsonObject:
    value = document.get(name)
    return value if isinstance(value, dict) else {}


def _text(document: JsonObject, name: str) -> str | None:
    value = document.get(name)
    return value if isinstance(value, str) and value else None


def _new_run_id() -> str:
    return "run_" + os.urandom(12).hex()
