"""The tools: seven have names, arguments and results of the existing runner. This module is independent of MCP.

A failure is a result `{"error": …}`, which the agent reads like any other result.
"""

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, Final, Protocol
from urllib.parse import quote, urlencode

from pydantic import BaseModel, JsonValue

from ao_protocol.wire import JsonObject
from ao_runner.coordinators.http.transport import Answer
from ao_runner.coordinators.port import CoordinatorUnavailable, CoordinatorUnusable
from ao_runner.orchestrator.run_arguments import RunArguments

MAX_DETAIL_CHARACTERS: Final = 20_000
"""A refusal of parameters contains the schema that they do not match, so that the agent can correct them."""
MAX_GENERATIONS: Final = 64
MARGIN_SECONDS: Final = 20.0
"""How much longer than it may hold back a server may take to answer."""
MOST_HELD: Final = 64
"""Half of the connections of an `Exchange`: other requests need some, too."""
_UNDER_WAY: Final = frozenset({"pending", "claimed", "running", "stopping"})
_SESSION_ID: Final = re.compile(r"(?!\.+\Z)[A-Za-z0-9._~:@-]{1,200}")
"""An id that is one path segment for any server."""


class ToolRefused(Exception):
    """The failure of a tool. `details` are fields of its result beside `error`."""

    def __init__(self, reason: str, **details: str) -> None:
        super().__init__(reason)
        self.details: Mapping[str, str] = details


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long a tool waits for a run, and how often it requests the status, in seconds."""

    hold_seconds: float = 25.0
    """How long a server may hold back the status of an open run. Those that cannot answer at once: see the pauses."""
    first_pause_seconds: float = 0.1
    longest_pause_seconds: float = 2.0
    growth: float = 1.5
    sync_seconds: float = 600.0


class Requests(Protocol):
    """The way to a server: an `Exchange`, or a server's own application."""

    async def ask(
        self, method: str, path: str, document: JsonObject | None = None, seconds: float | None = None
    ) -> Answer:
        """Return the response to one request, which may take `seconds`. See `Exchange.ask` for what is raised."""


@dataclass(frozen=True, slots=True)
class CoordinatorClient:
    """The requests of the tools to the coordinator. Every method raises `ToolRefused`, whose text is for an agent."""

    exchange: Requests
    timeouts: Timeouts = Timeouts()  # immutable
    held: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MOST_HELD))
    """The requests that a server may hold back at a time. What waits beside them asks in intervals."""

    async def sessions(self) -> list[JsonObject]:
        """Return the sessions; of a server that lists no more than a thousand, the newest ones."""
        return _objects((await self.ask("GET", "/sessions")).document.get("sessions"))

    async def status(self, session_id: str) -> str:
        """Return the status of a session; `not_existent` if it does not exist."""
        if not _SESSION_ID.fullmatch(session_id):
            return "not_existent"
        status = (await self.ask("GET", f"{_path(session_id)}/status")).document.get("status")
        return status if isinstance(status, str) else "not_existent"

    async def is_descendant(self, session_id: str, ancestor: str) -> bool:
        """Return whether a session was started by `ancestor`, directly or through its descendants.

        Raises:
            ToolRefused: The session does not exist.
        """
        seen = {session_id}
        while len(seen) <= MAX_GENERATIONS:
            session = (await self.ask("GET", _path(session_id), missing=f"Session not found: {session_id}")).document
            known = session.get("session")
            parent = known.get("parent_session_id") if isinstance(known, dict) else None
            if parent == ancestor:
                return True
            if not isinstance(parent, str) or parent in seen:
                return False
            seen.add(parent)
            session_id = parent
        return False

    async def descendants(self, ancestor: str) -> list[str]:
        """Return the ids of all descendants of a session, each before its parent."""
        children: dict[JsonValue, list[str]] = {}
        after: JsonValue = ""
        while isinstance(after, str):  # a coordinator of the older contract lists all sessions at once
            page = (await self.ask("GET", f"/sessions?{urlencode({'after': after, 'limit': 200})}")).document
            for session in _objects(page.get("sessions")):
                session_id = session.get("session_id")
                if isinstance(session_id, str) and session_id != ancestor:
                    children.setdefault(session.get("parent_session_id"), []).append(session_id)
            after = page.get("next_after")
        found: list[str] = []
        waiting = [ancestor]
        while waiting:
            below = [one for one in children.pop(waiting.pop(), []) if _SESSION_ID.fullmatch(one)]
            found += below
            waiting += below
        return found[::-1]

    async def delete(self, session_id: str) -> bool:
        """Delete a session; return False if it does not exist."""
        try:
            await self.ask("DELETE", _path(session_id), missing="gone")
        except ToolRefused as refusal:
            if str(refusal) == "gone":
                return False
            raise
        return True

    async def until_completed(self, run_id: str, gone: asyncio.Event) -> None:
        """Wait until a run has completed, unless `gone` is set because the caller no longer waits.

        Raises:
            ToolRefused: The run failed or was stopped, took too long, or `gone` was set.
        """
        try:
            async with asyncio.timeout(self.timeouts.sync_seconds):
                await _unless(gone, self._followed(run_id))
        except TimeoutError:
            bound = f"{self.timeouts.sync_seconds:g} s"
            raise ToolRefused(f"Session timed out: run {run_id} did not complete within {bound}; it goes on") from None

    async def _followed(self, run_id: str) -> None:
        pause = self.timeouts.first_pause_seconds
        while True:
            hold, asked_at = 0.0 if self.held.locked() else self.timeouts.hold_seconds, time.monotonic()
            async with self.held if hold else nullcontext():
                if await self._has_completed(run_id, hold):
                    return
            if time.monotonic() - asked_at < max(pause, hold / 2):  # the server did not hold back
                await asyncio.sleep(pause)
                pause = min(self.timeouts.longest_pause_seconds, pause * self.timeouts.growth)

    async def _has_completed(self, run_id: str, hold: float) -> bool:
        path = f"/runs/{quote(run_id, safe='')}?wait={hold:g}"  # a server without this parameter ignores it
        try:
            answer = await self.exchange.ask("GET", path, seconds=hold + MARGIN_SECONDS)
        except CoordinatorUnavailable:
            return False  # the run continues meanwhile
        status = answer.document.get("status") if answer.is_success else None
        if status == "completed":
            return True
        if status in _UNDER_WAY:
            return False
        if status == "failed":
            raise ToolRefused(f"Session failed: Run failed: {answer.document.get('error') or 'no reason given'}")
        if status == "stopped":
            raise ToolRefused(f"Session stopped: run {run_id} was stopped before it completed")
        raise ToolRefused(f"Session failed: run {run_id} cannot be followed: {_reason(answer)}")

    async def ask(
        self, method: str, path: str, document: JsonObject | None = None, missing: str | None = None
    ) -> Answer:
        """Return the response of a successful request. `missing` is the reason for status 404.

        Raises:
            ToolRefused: The request failed; the text is for an agent.
        """
        try:
            answer = await self.exchange.ask(method, path, document)
        except (CoordinatorUnavailable, CoordinatorUnusable) as error:
            raise ToolRefused(str(error)) from error
        if answer.status == 404 and missing is not None:
            raise ToolRefused(missing)
        if not answer.is_success:
            raise ToolRefused(_reason(answer))
        return answer


async def _unless(gone: asyncio.Event, waiting: Coroutine[Any, Any, None]) -> None:
    """Await a coroutine, unless `gone` is set before its end."""
    tasks = [asyncio.ensure_future(waiting), asyncio.ensure_future(gone.wait())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if not tasks[0].done():
            raise ToolRefused("nobody waits for the answer any more")
        await tasks[0]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


def _path(session_id: str) -> str:
    if not _SESSION_ID.fullmatch(session_id):
        raise ToolRefused(f"Session not found: {session_id[:200]}")
    return f"/sessions/{quote(session_id, safe='')}"


def _objects(value: JsonValue) -> list[JsonObject]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _reason(answer: Answer) -> str:
    detail = answer.document.get("detail")
    text = detail if isinstance(detail, str) else json.dumps(detail, ensure_ascii=False)
    return f"{answer.status}: {text[:MAX_DETAIL_CHARACTERS]}"


MAX_PARAMETERS_CHARACTERS: Final = 100_000
MAX_RESULT_CHARACTERS: Final = 50_000
MODES: Final = ("sync", "async_poll", "async_callback")
BLUEPRINT_FIELDS: Final[Mapping[str, JsonValue]] = {
    "name": None, "description": "", "type": "autonomous", "tags": [], "parameters_schema": None,
}  # fmt: skip
SESSION_FIELDS: Final = ("session_id", "status", "agent_name", "created_at", "last_resumed_at")
_VALIDATION: Final = ("validated_output", "schema_validation")
_ENDED_WELL: Final = frozenset({"finished", "idle"})


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of a tool: an agent's session, or a client without one. Headers set the rest."""

    session_id: str | None
    tags: str | None
    demands: JsonObject
    gone: asyncio.Event
    """Set when the caller no longer waits for the response."""


class _NoArguments(BaseModel):
    pass


class _OfSession(BaseModel):
    session_id: str


class _Start(RunArguments):
    agent_name: str | None = None
    project_dir: str | None = None


class _Resume(RunArguments):
    session_id: str


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool: its definition for agents, and its function."""

    name: str
    description: str
    arguments: type[BaseModel]
    perform: Callable[[CoordinatorClient, Caller, Any], Awaitable[JsonObject | list[JsonObject]]]
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
        """
        given = self.arguments.model_validate(arguments)
        try:
            return await self.perform(client, caller, given)
        except ToolRefused as refusal:
            said: JsonObject = {"error": str(refusal), **refusal.details}
            return [said] if self.is_list else said


async def _list_blueprints(client: CoordinatorClient, caller: Caller, _: _NoArguments) -> list[JsonObject]:
    query = f"?{urlencode({'tags': caller.tags})}" if caller.tags else ""  # an agent must have all of the tags
    agents = _objects((await client.ask("GET", f"/agents{query}")).body)
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
    path = f"{_path(given.session_id)}/stop"
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


def _run(kind: str, caller: Caller, given: RunArguments) -> JsonObject:
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
    run |= given.model_dump(include=given.asked, exclude_unset=True, exclude_none=True)
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
        found = (await client.ask("GET", f"{_path(session_id)}/result")).document
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
        is_list=True,
    ),
    Tool("list_agent_sessions", "List all agent sessions.", _NoArguments, _list_sessions, is_list=True),
    Tool(
        "start_agent_session",
        "Start a new session of an agent. It is a child of your session, if you have one.\n\nArgs:\n"
        "    parameters: What the agent's parameters_schema asks for; "
        '{"prompt": "..."} where it is null\n'
        "    agent_name: Name of the agent (optional)\n"
        f"    project_dir: Folder that it works in (optional)\n{_ABOUT_RUNS}",
        _Start,
        _start,
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
    ),
    Tool(
        "stop_agent_session",
        "Stop the current run of a session. An agent can stop the sessions that it has started, directly or through "
        'its children. Returns {"session_id": "...", "status": "..."}; the status is stopping until the run has ended.',
        _OfSession,
        _stop,
    ),
    Tool(
        "get_agent_session_status",
        "Get the status of an agent session: pending, running, stopping, idle, finished, failed, stopped or "
        "not_existent.",
        _OfSession,
        _status,
    ),
    Tool(
        "get_agent_session_result",
        "Get the result of the last run of a session: result_text, result_data, and, if the answer was validated, "
        "validated_output and schema_validation.",
        _OfSession,
        _result,
    ),
    Tool(
        "delete_all_agent_sessions",
        "Delete all sessions that this one has started, directly or through its children, with their results. Use with "
        "caution. Sessions of others are not touched; one that is running is not deleted and listed in not_deleted.",
        _NoArguments,
        _delete_all,
    ),
)
