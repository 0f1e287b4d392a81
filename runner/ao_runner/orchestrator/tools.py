"""The tools: seven have names, arguments and results of the existing runner. This module is independent of MCP.

A failure is a result `{"error": …}`, which the MCP server marks with `isError`. What an argument means stands in the
schema of the arguments, what is returned in that of the result.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar, Final
from urllib.parse import quote, urlencode

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from ao_protocol.wire import JsonObject
from ao_runner.orchestrator.coordinator_client import CoordinatorClient, ToolRefused, objects_in, path_of
from ao_runner.orchestrator.tool_results import (
    AgentShown,
    Answered,
    Deleted,
    RequestShown,
    SchemaShown,
    SessionResult,
    SessionShown,
    SessionStatus,
    output_schema,
)
from ao_runner.runs.asked_in_json import AskedInJson

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
_ANSWERS: Final[Mapping[str, JsonValue]] = {"readOnlyHint": False, "destructiveHint": True, "openWorldHint": True}
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
    session_id: str = Field(description="Id of the session.")


class _OfSchema(BaseModel):
    name: str = Field(description="Name of the schema.")


class _Answer(BaseModel):
    model_config = ConfigDict(extra="forbid")

    run_id: str = Field(description="Id of the run that asks.")
    request_id: str = Field(description="Id of the request, from list_waiting_requests.")
    option_id: str | None = Field(None, description="`id` of one of the request's options.")
    value: JsonValue = Field(None, description="The value, if the request has a schema for one.")


class _NewRun(AskedInJson):
    model_config = ConfigDict(extra="forbid")

    profile: ClassVar[None] = None  # type: ignore[misc]  # an agent may not choose who performs a run
    parameters: dict[str, Any] = Field(
        description="What the agent's parameters_schema asks for; "
        '{"prompt": "..."} where it is null, and always for a session that is continued.'
    )
    mode: str = Field(
        "sync",
        json_schema_extra={"enum": list(MODES)},
        description="sync waits for the result, for 10 minutes at most; async_poll returns at once, and you ask for "
        "the status; async_callback returns at once, and your session is resumed with the result after you have ended "
        "your turn.",
    )

    _read_texts = model_validator(mode="before")(_read)


class _Start(_NewRun):
    agent_name: str | None = Field(None, description="Name of the agent, from list_agent_blueprints.")
    project_dir: str | None = Field(None, description="Folder that it works in.")


class _Resume(_NewRun):
    session_id: str = Field(description="Id of the session.")


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool: its definition for agents, and its function."""

    name: str
    description: str
    arguments: type[BaseModel]
    perform: Callable[[CoordinatorClient, Caller, Any], Awaitable[JsonObject | list[JsonObject]]]
    hints: Mapping[str, JsonValue]
    """The annotations of the tool (MCP, ToolAnnotations)."""
    result: type[BaseModel]
    """The result, or an item of it."""
    is_list: bool = False
    is_for_people: bool = False
    """Whether an agent in a session must not call it."""

    @property
    def input_schema(self) -> JsonObject:
        """The JSON Schema of the arguments."""
        return {**self.arguments.model_json_schema(), "title": f"{self.name}Arguments"}

    @property
    def output_schema(self) -> JsonObject:
        """The JSON Schema of the structured result: of a list `{result: [...]}`."""
        return output_schema(self.result, self.name, is_list=self.is_list)

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


async def _list_schemas(client: CoordinatorClient, _caller: Caller, _: _NoArguments) -> list[JsonObject]:
    return objects_in((await client.ask("GET", "/schemas")).body)


async def _schema(client: CoordinatorClient, _caller: Caller, given: _OfSchema) -> JsonObject:
    return (await client.ask("GET", f"/schemas/{quote(given.name, safe='')}")).document


async def _list_waiting(client: CoordinatorClient, _caller: Caller, _: _NoArguments) -> list[JsonObject]:
    return objects_in((await client.ask("GET", "/inputs")).document.get("inputs"))


async def _give_answer(client: CoordinatorClient, caller: Caller, given: _Answer) -> JsonObject:
    if caller.session_id is not None:
        raise ToolRefused("An agent must not answer in the place of a person")
    path = f"/runs/{quote(given.run_id, safe='')}/inputs/{quote(given.request_id, safe='')}"
    answer = given.model_dump(include={"option_id", "value"}, exclude_none=True)
    return (await client.ask("POST", path, answer)).document


async def _delete(client: CoordinatorClient, caller: Caller, given: _OfSession) -> JsonObject:
    await _check_own(client, caller, given.session_id, "deleted")
    if not await client.delete(given.session_id):
        raise ToolRefused(f"Session not found: {given.session_id}")
    return {"deleted_count": 1}


async def _delete_all(client: CoordinatorClient, caller: Caller, _: _NoArguments) -> JsonObject:
    if caller.session_id is None:
        raise ToolRefused(
            "This tool deletes the sessions that the calling session has started, and this client has no session; "
            "delete single ones with delete_agent_session"
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
    text = found.get("result_text")
    text = text if text is None or isinstance(text, str) else json.dumps(text, ensure_ascii=False)
    if text is not None and len(text) > MAX_RESULT_CHARACTERS:
        text = f"{text[:MAX_RESULT_CHARACTERS]}\n\n[Result truncated at {MAX_RESULT_CHARACTERS} characters]"
    validation = {name: found.get(name) for name in _VALIDATION if found.get("schema_validation") is not None}
    return {"session_id": session_id, "result_text": text, "result_data": found.get("result_data"), **validation}


_ABOUT_RUNS: Final = """
In mode sync it returns the result: result_text, result_data and, with a schema, validated_output and schema_validation;
else {"session_id": "...", "status": "pending"}. If it fails: {"error": "..."}, with "session_id" if the session was
started."""

TOOLS: Final = (
    Tool(
        "list_agent_blueprints",
        "List the agents that can be started: name, description, type, tags and parameters_schema of each. "
        "The parameters of start_agent_session must match the schema exactly; where it is null, they are "
        '{"prompt": "..."}.',
        _NoArguments,
        _list_blueprints,
        _READS,
        AgentShown,
        is_list=True,
    ),
    Tool(
        "list_agent_sessions",
        "List all agent sessions.",
        _NoArguments,
        _list_sessions,
        _READS,
        SessionShown,
        is_list=True,
    ),
    Tool(
        "start_agent_session",
        f"Start a new session of an agent. It is a child of your session, if you have one.\n{_ABOUT_RUNS}",
        _Start,
        _start,
        _STARTS,
        SessionResult,
    ),
    Tool(
        "resume_agent_session",
        "Continue a session with another prompt. An agent can continue the sessions that it has started, directly or "
        f"through its children. Sessions of procedural agents cannot be continued.\n{_ABOUT_RUNS}",
        _Resume,
        _resume,
        _STARTS,
        SessionResult,
    ),
    Tool(
        "stop_agent_session",
        "Stop the current run of a session. An agent can stop the sessions that it has started, directly or through "
        "its children. The status is stopping until the run has ended.",
        _OfSession,
        _stop,
        _ENDS,
        SessionStatus,
    ),
    Tool(
        "get_agent_session_status",
        "Get the status of an agent session: pending, running, stopping, idle, finished, failed, stopped or "
        "not_existent.",
        _OfSession,
        _status,
        _READS,
        SessionStatus,
    ),
    Tool(
        "get_agent_session_result",
        "Get the result of the last run of a session: result_text, result_data, and, if the answer was validated, "
        "validated_output and schema_validation.",
        _OfSession,
        _result,
        _READS,
        SessionResult,
    ),
    Tool(
        "delete_agent_session",
        "Delete a session with its results. An agent can delete the sessions that it has started, directly or through "
        "its children. One that is running is not deleted.",
        _OfSession,
        _delete,
        _ENDS,
        Deleted,
    ),
    Tool(
        "delete_all_agent_sessions",
        "Delete all sessions that this one has started, directly or through its children, with their results. Use with "
        "caution. Sessions of others are not touched; one that is running is not deleted and listed in not_deleted.",
        _NoArguments,
        _delete_all,
        _ENDS,
        Deleted,
    ),
    Tool(
        "list_named_schemas",
        "List the schemas that output_schema_name can name, without their contents.",
        _NoArguments,
        _list_schemas,
        _READS,
        SchemaShown,
        is_list=True,
    ),
    Tool("get_named_schema", "Get a named JSON Schema.", _OfSchema, _schema, _READS, SchemaShown),
    Tool(
        "list_waiting_requests",
        "List the requests of runs that wait for a person, oldest first: what each asks and how it can be answered.",
        _NoArguments,
        _list_waiting,
        _READS,
        RequestShown,
        is_list=True,
    ),
    Tool(
        "answer_waiting_request",
        "Answer a request of a run in the name of the person who has told you what to answer. The first answer counts.",
        _Answer,
        _give_answer,
        _ANSWERS,
        Answered,
        is_for_people=True,
    ),
)
AGENT_TOOLS: Final = tuple(tool for tool in TOOLS if not tool.is_for_people)
