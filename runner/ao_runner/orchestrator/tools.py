"""The seven tools: their names, arguments and answers are those of the existing runner. MCP is not known here.

What cannot be done is an answer `{"error": …}`, which the agent reads as it reads any other.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, JsonValue

from ao_protocol.wire import JsonObject
from ao_runner.orchestrator.client import CoordinatorClient, ToolRefused

MAX_PARAMETERS_CHARACTERS: Final = 100_000
MAX_RESULT_CHARACTERS: Final = 50_000
MODES: Final = ("sync", "async_poll", "async_callback")
BLUEPRINT_FIELDS: Final[Mapping[str, JsonValue]] = {
    "name": None, "description": "", "type": "autonomous", "tags": [], "parameters_schema": None,
}  # fmt: skip
SESSION_FIELDS: Final = ("session_id", "status", "agent_name", "created_at", "last_resumed_at")
_ENDED_WELL: Final = frozenset({"finished", "idle"})


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls a tool: the session is its token's, the rest is what its blueprint has sent as headers."""

    session_id: str
    tags: str | None
    demands: JsonObject
    gone: asyncio.Event
    """Set when nobody waits for the answer any more."""


def _read(value: object) -> object:
    """Models like to write an object as a text of JSON."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


class _NoArguments(BaseModel):
    pass


class _OfSession(BaseModel):
    session_id: str


class _Start(BaseModel):
    parameters: Annotated[dict[str, Any], BeforeValidator(_read)]
    agent_name: str | None = None
    project_dir: str | None = None
    mode: str = "sync"


class _Resume(BaseModel):
    session_id: str
    parameters: Annotated[dict[str, Any], BeforeValidator(_read)]
    mode: str = "sync"


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool as agents see it, and what it does."""

    name: str
    description: str
    arguments: type[BaseModel]
    perform: Callable[[CoordinatorClient, Caller, Any], Awaitable[JsonObject | list[JsonObject]]]
    is_list: bool = False

    @property
    def input_schema(self) -> JsonObject:
        """The JSON Schema of its arguments."""
        return {**self.arguments.model_json_schema(), "title": f"{self.name}Arguments"}

    async def answer(
        self, client: CoordinatorClient, caller: Caller, arguments: JsonObject
    ) -> JsonObject | list[JsonObject]:
        """Return what the tool says.

        Raises:
            pydantic.ValidationError: the arguments do not match the schema.
        """
        given = self.arguments.model_validate(arguments)
        try:
            return await self.perform(client, caller, given)
        except ToolRefused as refusal:
            said: JsonObject = {"error": str(refusal), **refusal.details}
            return [said] if self.is_list else said


async def _list_blueprints(client: CoordinatorClient, caller: Caller, _: _NoArguments) -> list[JsonObject]:
    agents = await client.agents(caller.tags)
    return [{name: agent.get(name, usual) for name, usual in BLUEPRINT_FIELDS.items()} for agent in agents]


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
    if not await client.is_descendant(given.session_id, caller.session_id):
        raise ToolRefused(
            f"Session {given.session_id} was not started by this session; only sessions that it has started, "
            "or that those have started, can be resumed"
        )
    return await _begun(client, caller, run, "resume")


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
    deleted, kept = 0, list[JsonValue]()
    for session_id in await client.descendants(caller.session_id):
        try:
            deleted += await client.delete(session_id)
        except ToolRefused as refusal:
            kept.append({"session_id": session_id, "error": str(refusal)})
    return {"deleted_count": deleted, **({"not_deleted": kept} if kept else {})}


def _run(kind: str, caller: Caller, given: _Start | _Resume) -> JsonObject:
    length = len(json.dumps(given.parameters))
    if length > MAX_PARAMETERS_CHARACTERS:
        raise ToolRefused(f"Parameters too large: {length} characters (max {MAX_PARAMETERS_CHARACTERS})")
    if given.mode not in MODES:
        raise ToolRefused(f"Invalid mode: {given.mode[:100]}. Must be one of: {', '.join(MODES)}")
    run: JsonObject = {
        "type": kind,
        "parameters": given.parameters,
        "parent_session_id": caller.session_id,
        "execution_mode": given.mode,
    }
    return run | ({"additional_demands": caller.demands} if caller.demands else {})


async def _begun(client: CoordinatorClient, caller: Caller, run: JsonObject, verb: str) -> JsonObject:
    try:
        run_id, session_id = await client.begin(run)
    except ToolRefused as refusal:
        raise ToolRefused(f"Failed to {verb} session: {refusal}") from refusal
    if run["execution_mode"] != "sync":
        return {"session_id": session_id, "status": "pending"}
    try:
        await client.until_completed(run_id, caller.gone)
        return await _result_of(client, session_id)
    except ToolRefused as refusal:
        raise ToolRefused(str(refusal), session_id=session_id) from refusal


async def _result_of(client: CoordinatorClient, session_id: str) -> JsonObject:
    try:
        found = await client.result(session_id)
    except ToolRefused as refusal:
        raise ToolRefused(f"Failed to get result: {refusal}") from refusal
    text = found.get("result_text") or ""
    text = text if isinstance(text, str) else json.dumps(text, ensure_ascii=False)
    if len(text) > MAX_RESULT_CHARACTERS:
        text = f"{text[:MAX_RESULT_CHARACTERS]}\n\n[Result truncated at {MAX_RESULT_CHARACTERS} characters]"
    return {"session_id": session_id, "result_text": text, "result_data": found.get("result_data")}


_ABOUT_MODES: Final = """\
    mode: "sync" waits for the result (10 minutes at most), "async_poll" returns at once and the status can be asked
        for, "async_callback" returns at once and this session is resumed with the result

Returns:
    sync: {"session_id": "...", "result_text": "...", "result_data": ...}
    async_poll, async_callback: {"session_id": "...", "status": "pending"}
    if it fails: {"error": "..."}"""

_listing = partial(Tool, arguments=_NoArguments, is_list=True)
_reading = partial(Tool, arguments=_OfSession)

TOOLS: Final = (
    _listing(
        "list_agent_blueprints",
        "List the agents that can be started: name, description, type, tags and parameters_schema of each. "
        "The parameters of start_agent_session must match the schema exactly; where it is null, they are "
        '{"prompt": "..."}.',
        perform=_list_blueprints,
    ),
    _listing("list_agent_sessions", "List all agent sessions.", perform=_list_sessions),
    Tool(
        "start_agent_session",
        "Start a new agent session as a child of this one.\n\nArgs:\n"
        "    parameters: What the agent's parameters_schema asks for; "
        '{"prompt": "..."} where it is null\n'
        "    agent_name: Name of the agent (optional)\n"
        f"    project_dir: Folder that it works in (optional)\n{_ABOUT_MODES}",
        _Start,
        _start,
    ),
    Tool(
        "resume_agent_session",
        "Continue a session that this one has started, directly or through its children. "
        "Sessions of procedural agents cannot be continued.\n\nArgs:\n"
        "    session_id: The session\n"
        '    parameters: Always {"prompt": "..."}, whatever the agent\'s parameters_schema is\n'
        f"{_ABOUT_MODES}",
        _Resume,
        _resume,
    ),
    _reading(
        "get_agent_session_status",
        "Get the status of an agent session: pending, running, idle, finished, failed, stopped or not_existent.",
        perform=_status,
    ),
    _reading("get_agent_session_result", "Get the result of a completed agent session.", perform=_result),
    Tool(
        "delete_all_agent_sessions",
        "Delete all sessions that this one has started, directly or through its children, with their results. Use with "
        "caution. Sessions of others are not touched; one that is running is not deleted and listed in not_deleted.",
        _NoArguments,
        _delete_all,
    ),
)
