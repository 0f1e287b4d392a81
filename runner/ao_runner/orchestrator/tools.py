"""The tools: seven have names, arguments and results of the existing runner. This module is independent of MCP.

A failure is a result `{"error": …}`, which the MCP server marks with `isError`.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar, Final
from urllib.parse import urlencode

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from ao_protocol.wire import JsonObject
from ao_runner.orchestrator.coordinator_client import CoordinatorClient, ToolRefused, objects_in, path_of
from ao_runner.runs.submission import AskedInJson

MAX_PARAMETERS_CHARACTERS: Final = 100_000
MAX_RESULT_CHARACTERS: Final = 50_000
MODES: Final = ("sync", "async_poll", "async_callback")
BLUEPRINT_FIELDS: Final[Mapping[str, JsonValue]] = {
    "name": None, "description": "", "type": "autonomous", "tags": [], "parameters_schema": None,
}  # fmt: skip
SESSION_FIELDS: Final = ("session_id", "status", "agent_name", "created_at", "last_resumed_at")
_OBJECTS: Final = {"parameters", "attachments", "output_schema", "output_schema_options", "metadata", "labels"}
_VALIDATION: Final = ("validated_output", "schema_validation")
_READS: Final[Mapping[str, JsonValue]] = {"readOnlyHint": True, "openWorldHint": False}
_STARTS: Final[Mapping[str, JsonValue]] = {"readOnlyHint": False, "destructiveHint": False, "openWorldHint": True}
_ENDS: Final[Mapping[str, JsonValue]] = {
    "readOnlyHint": False, "destructiveHint": True, "idempotentHint": True, "openWorldHint": False,
}  # fmt: skip
_ENDED_WELL: Final = frozenset({"finished", "idle"})


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of a tool: an agent's session, or a client without one. Headers set the rest."""

    session_id: str | None
    tags: str | None
    demands: JsonObject
    gone: asyncio.Event
    """Set when the caller no longer waits for the response."""


def _read(value: Any) -> Any:  # noqa: ANN401  # arguments
    """Return arguments with objects in place of their JSON texts: models often write an object as a string."""
    if not isinstance(value, dict):
        return value
    found = dict(value)
    for name in _OBJECTS & value.keys():
        with suppress(ValueError, TypeError, RecursionError):  # it is an object already, or no JSON
            found[name] = json.loads(value[name])
    return found


class _NoArguments(BaseModel):
    pass


class _OfSession(BaseModel):
    session_id: str


class _NewRun(AskedInJson):
    model_config = ConfigDict(extra="forbid")

    profile: ClassVar[None] = None  # type: ignore[misc]  # an agent may not choose who performs a run
    parameters: dict[str, Any]
    mode: str = Field("sync", json_schema_extra={"enum": list(MODES)})

    _read_texts = model_validator(mode="before")(_read)


class _Start(_NewRun):
    agent_name: str | None = None
    project_dir: str | None = None


class _Resume(_NewRun):
    session_id: str


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool: its definition for agents, and its function."""

    name: str
    description: str
    arguments: type[BaseModel]
    perform: Callable[[CoordinatorClient, Caller, Any], Awaitable[JsonObject | list[JsonObject]]]
    hints: Mapping[str, JsonValue]
    """The annotations of the tool (MCP, ToolAnnotations)."""
    is_list: bool = False

    @property
    def input_schema(self) -> JsonObject:
        """The JSON Schema of the arguments."""
        return {**self.arguments.model_json_schema(), "title": f"{self.name}Arguments"}

    async def answer(
        self, client: CoordinatorClient, caller: Caller, arguments: JsonObject
    ) -> JsonObject | list[JsonObject]:
        """Perform the tool and return its result.

        Raises:
            pydantic.ValidationError: The arguments do not match the schema.
            ToolRefused: The tool cannot do what is asked.
        """
        return await self.perform(client, caller, self.arguments.model_validate(arguments))


async def _list_blueprints(client: CoordinatorClient, caller: Caller, _: _NoArguments) -> list[JsonObject]:
    query = f"?{urlencode({'tags': caller.tags})}" if caller.tags else ""  # an agent must have all of the tags
    agents = objects_in((await client.ask("GET", f"/agents{query}")).body)
    return [
        {name: agent.get(name, usual) for name, usual in BLUEPRINT_FIELDS.items()}
        for agent in agents
        if agent.get("status") == "active"
    ]


async def _list_sessions(client: CoordinatorClient, _caller: Caller, _: _NoArguments) -> list[JsonObject]:
    return [{name: session.get(name) for name in SESSION_FIELDS} for session in await client.sessions()]


async def _start(client: CoordinatorClient, caller: Caller, given: _Start) -> JsonObject:
    project_dir = given.project_dir or caller.demands.get("project_dir")
    run = _run("start_session", caller, given)
    run |= {"agent_name": given.agent_name} if given.agent_name else {}
    run |= {"project_dir": project_dir} if project_dir else {}
    return await _begun(client, caller, run, "start")


async def _resume(client: CoordinatorClient, caller: Caller, given: _Resume) -> JsonObject:
    run = _run("resume_session", caller, given) | {"session_id": given.session_id}
    await _check_own(client, caller, given.session_id, "resumed")
    return await _begun(client, caller, run, "resume")


async def _stop(client: CoordinatorClient, caller: Caller, given: _OfSession) -> JsonObject:
    await _check_own(client, caller, given.session_id, "stopped")
    path = f"{path_of(given.session_id)}/stop"
    stopped = await client.ask("POST", path, missing=f"Session not found: {given.session_id}")
    return {"session_id": given.session_id, "status": stopped.document.get("status") or "stopping"}


async def _check_own(client: CoordinatorClient, caller: Caller, session_id: str, what: str) -> None:
    if caller.session_id is not None and not await client.is_descendant(session_id, caller.session_id):
        raise ToolRefused(
            f"Session {session_id} was not started by this session; only sessions that it has started, "
            f"or that those have started, can be {what}"
        )


async def _status(client: CoordinatorClient, _caller: Caller, given: _OfSession) -> JsonObject:
    return {"session_id": given.session_id, "status": await client.status(given.session_id)}


async def _result(client: CoordinatorClient, _caller: Caller, given: _OfSession) -> JsonObject:
    status = await client.status(given.session_id)
    if status == "not_existent":
        raise ToolRefused(f"Session not found: {given.session_id[:200]}")
    if status not in _ENDED_WELL:
        raise ToolRefused(f"Session not finished: {given.session_id} (status: {status})")
    return await _result_of(client, given.session_id)


async def _delete_all(client: CoordinatorClient, caller: Caller, _: _NoArguments) -> JsonObject:
    if caller.session_id is None:
        raise ToolRefused(
            "This tool deletes the sessions that the calling session has started, and this client has no session; "
            "delete single ones with DELETE /sessions/SESSION_ID or `ao sessions delete`"
        )
    deleted, kept = 0, list[JsonValue]()
    for session_id in await client.descendants(caller.session_id):
        try:
            deleted += await client.delete(session_id)
        except ToolRefused as refusal:
            kept.append({"session_id": session_id, "error": str(refusal)})
    return {"deleted_count": deleted, **({"not_deleted": kept} if kept else {})}


def _run(kind: str, caller: Caller, given: _NewRun) -> JsonObject:
    length = len(json.dumps(given.parameters))
    if length > MAX_PARAMETERS_CHARACTERS:
        raise ToolRefused(f"Parameters too large: {length} characters (max {MAX_PARAMETERS_CHARACTERS})")
    if given.mode not in MODES:
        raise ToolRefused(f"Invalid mode: {given.mode[:100]}. Must be one of: {', '.join(MODES)}")
    if given.mode == "async_callback" and caller.session_id is None:
        raise ToolRefused(
            "Mode async_callback resumes the calling session with the result, and this client has no session; "
            "use sync, or async_poll and get_agent_session_status"
        )
    run: JsonObject = {"type": kind, "parameters": given.parameters, "execution_mode": given.mode}
    run |= given.model_dump(include=set(AskedInJson.model_fields), exclude_unset=True, exclude_none=True)
    run |= {"parent_session_id": caller.session_id} if caller.session_id is not None else {}
    return run | ({"additional_demands": caller.demands} if caller.demands else {})


async def _begun(client: CoordinatorClient, caller: Caller, run: JsonObject, verb: str) -> JsonObject:
    try:
        created = (await client.ask("POST", "/runs", run)).document  # not retried: a run must not start twice
    except ToolRefused as refusal:
        raise ToolRefused(f"Failed to {verb} session: {refusal}") from refusal
    run_id, session_id = str(created.get("run_id")), str(created.get("session_id"))
    if run["execution_mode"] != "sync":
        return {"session_id": session_id, "status": "pending"}
    try:
        await client.until_completed(run_id, caller.gone)
        return await _result_of(client, session_id)
    except ToolRefused as refusal:
        raise ToolRefused(str(refusal), session_id=session_id) from refusal


async def _result_of(client: CoordinatorClient, session_id: str) -> JsonObject:
    try:
        found = (await client.ask("GET", f"{path_of(session_id)}/result")).document
    except ToolRefused as refusal:
        raise ToolRefused(f"Failed to get result: {refusal}") from refusal
    text = found.get("result_text") or ""
    text = text if isinstance(text, str) else json.dumps(text, ensure_ascii=False)
    if len(text) > MAX_RESULT_CHARACTERS:
        text = f"{text[:MAX_RESULT_CHARACTERS]}\n\n[Result truncated at {MAX_RESULT_CHARACTERS} characters]"
    validation = {name: found.get(name) for name in _VALIDATION if found.get("schema_validation") is not None}
    return {"session_id": session_id, "result_text": text, "result_data": found.get("result_data"), **validation}


_ABOUT_RUNS: Final = """\
    mode: "sync" waits for the result, for 10 minutes at most; "async_poll" returns at once, and you ask for the status;
        "async_callback" returns at once, and your session is resumed with the result after you have ended your turn
    attachments: Files beside the prompt (optional), for example
        [{"name": "invoice.pdf", "media_type": "application/pdf", "path": "/work/invoice.pdf"}]; `data` in base64
        instead of a path
    output_schema: JSON Schema of the answer (optional). The answer is validated, and the agent is asked again if it
        does not match; without it, the agent's own schema applies, if it has one
    output_schema_name: Name of a schema that the server knows, instead of output_schema (optional)
    output_schema_options: How the schema is enforced (optional), for example {"max_retries": 2}
    no_schema: true asks for free text, although the agent has a default schema (optional)
    keep_rejected: false does not store answers that do not match the schema (optional)
    timeout_seconds: The most that the run may take (optional)
    labels: Short texts by name, by which people find the run (optional), for example {"team": "docs"}
    metadata: Facts for the executor (optional)

Returns:
    sync: {"session_id": "...", "result_text": "...", "result_data": ...}; with a schema also "validated_output" and
        "schema_validation": {"valid": true, "schema_name": ..., "retry_count": 0}
    async_poll, async_callback: {"session_id": "...", "status": "pending"}
    if it fails: {"error": "..."}, with "session_id" if the session was started"""

TOOLS: Final = (
    Tool(
        "list_agent_blueprints",
        "List the agents that can be started: name, description, type, tags and parameters_schema of each. "
        "The parameters of start_agent_session must match the schema exactly; where it is null, they are "
        '{"prompt": "..."}.',
        _NoArguments,
        _list_blueprints,
        _READS,
        is_list=True,
    ),
    Tool("list_agent_sessions", "List all agent sessions.", _NoArguments, _list_sessions, _READS, is_list=True),
    Tool(
        "start_agent_session",
        "Start a new session of an agent. It is a child of your session, if you have one.\n\nArgs:\n"
        "    parameters: What the agent's parameters_schema asks for; "
        '{"prompt": "..."} where it is null\n'
        "    agent_name: Name of the agent (optional)\n"
        f"    project_dir: Folder that it works in (optional)\n{_ABOUT_RUNS}",
        _Start,
        _start,
        _STARTS,
    ),
    Tool(
        "resume_agent_session",
        "Continue a session with another prompt. An agent can continue the sessions that it has started, directly or "
        "through its children. Sessions of procedural agents cannot be continued.\n\nArgs:\n"
        "    session_id: The session\n"
        '    parameters: Always {"prompt": "..."}, whatever the agent\'s parameters_schema is\n'
        f"{_ABOUT_RUNS}",
        _Resume,
        _resume,
        _STARTS,
    ),
    Tool(
        "stop_agent_session",
        "Stop the current run of a session. An agent can stop the sessions that it has started, directly or through "
        'its children. Returns {"session_id": "...", "status": "..."}; the status is stopping until the run has ended.',
        _OfSession,
        _stop,
        _ENDS,
    ),
    Tool(
        "get_agent_session_status",
        "Get the status of an agent session: pending, running, stopping, idle, finished, failed, stopped or "
        "not_existent.",
        _OfSession,
        _status,
        _READS,
    ),
    Tool(
        "get_agent_session_result",
        "Get the result of the last run of a session: result_text, result_data, and, if the answer was validated, "
        "validated_output and schema_validation.",
        _OfSession,
        _result,
        _READS,
    ),
    Tool(
        "delete_all_agent_sessions",
        "Delete all sessions that this one has started, directly or through its children, with their results. Use with "
        "caution. Sessions of others are not touched; one that is running is not deleted and listed in not_deleted.",
        _NoArguments,
        _delete_all,
        _ENDS,
    ),
)
