"""Start an agent and open a session in it: initialize, then a new session or an earlier one.

Leaving the block of `opened_session` ends the agent and everything that it has started.
"""

import asyncio
import difflib
import os
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Final

from ao_executors import VERSION
from ao_executors.acp.agent_attachments import attached_blocks
from ao_executors.acp.agent_failures import failure_of_refusal, patience_of, unfit
from ao_executors.acp.agent_log import RetryLog
from ao_executors.acp.agent_rows import DEFAULT_START_SECONDS, AgentRow
from ao_executors.acp.launch import Launch, named_with_provider
from ao_executors.acp.mcp_check import usable_servers
from ao_executors.core import RunFailed, Task
from ao_executors.core.answer_tool import SERVER, AnswerTool, served_by_program
from ao_executors.core.conversation import occupy
from ao_executors.core.executor import refused
from ao_executors.core.foreign_json import JsonDocument, as_object, objects_in, shown
from ao_executors.core.json_rpc import UNKNOWN_METHOD, AgentEnded, AgentRefused, Peer, Take, running
from ao_executors.core.program import Program
from ao_executors.vendors.agent_cli import earlier_session, temporary_folder
from ao_executors.vendors.agent_versions import refuse_too_old
from ao_executors.vendors.mcp_servers import blueprint_servers
from ao_executors.vendors.provider_errors import RetryPolicy
from ao_protocol.errors import ErrorType
from ao_protocol.events import Log, SessionBound

PROTOCOL_VERSION: Final = 1
"""In the draft of version 2 the response to `session/prompt` does not end the turn."""
_STDERR_BYTES: Final = 16 * 1024
_MOST_STARTS: Final = 5
_LIST_SECONDS: Final = 5.0
"""How long an agent may take to ask for `submit_answer`."""
_CONNECT_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.05
_LEAVE_SHARE: Final = 0.1
_TERMINATE_SHARE: Final = 0.3
"""Parts of the clean-up time: until SIGTERM after the end of stdin, and until SIGKILL after that."""
_INITIALIZE: Final[JsonDocument] = {
    "protocolVersion": PROTOCOL_VERSION,
    # No fs and no terminal: an agent works in the project directory with its own tools.
    "clientCapabilities": {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False},
    "clientInfo": {"name": "ao-acp-exec", "version": VERSION},
}


@dataclass(frozen=True, slots=True)
class AgentSession:
    """An open session.

    Args:
        peer: The connection to the agent.
        session_id: The agent's id of the session.
        preface: The text that precedes the first message; empty if none does.
        attached: The content blocks that precede it.
        answer_tool: The server of `submit_answer`.
        log: The retries in the agent's log; None if it writes none.
    """

    peer: Peer
    session_id: str
    preface: str
    attached: list[dict[str, Any]]
    answer_tool: AnswerTool
    log: RetryLog | None


@asynccontextmanager
async def opened_session(agent: AgentRow, task: Task, take: Take) -> AsyncIterator[AgentSession]:
    """Open a session for a task, and emit `session_bound` if it can be continued.

    Args:
        agent: The row.
        task: The task.
        take: Receives the agent's notifications until the session is open. A loaded session replays its messages then.

    Raises:
        RunFailed: The agent cannot be started, is not logged in, differs from its row, does not know the session, or
            cannot keep a setting; or an MCP server is not available.
    """
    answer_tool = AnswerTool(task)
    async with temporary_folder("ao-acp-") as folder, served_by_program(answer_tool) as answering:
        launch = Launch.of(agent, task, Path(folder))
        with ExitStack() as held:
            earlier = earlier_session(task, "the agent")
            if earlier is not None:
                held.enter_context(occupy(f"acp {agent.name}", earlier))
            for start in count(1):
                program, log = _program(launch, task), _log_of(agent, task)
                if log is not None:
                    program.on_stderr = log.feed
                async with running(program) as peer:
                    if log is not None:
                        log.peer = peer
                    peer.lines.note = lambda note: task.events.emit(Log(level="info", message=note))
                    peer.take = take
                    opening = _Opening(agent, task, peer, answering)
                    try:
                        capabilities = await _initialize(opening)
                    except AgentEnded as error:
                        if start < _MOST_STARTS and agent.lost_race and agent.lost_race in error.told:
                            continue
                        raise
                    session_id, attached = await _open(opening, launch, earlier, capabilities, held)
                    if answering and not await answer_tool.is_listed_within(_LIST_SECONDS):
                        task.events.warn("the agent has not asked for submit_answer, and its first request may lack it")
                    preface = launch.preface if earlier is None else ""
                    yield AgentSession(peer, session_id, preface, attached, answer_tool, log)
                    return


async def _open(
    opening: "_Opening", launch: Launch, earlier: str | None, capabilities: JsonDocument, held: ExitStack
) -> tuple[str, list[dict[str, Any]]]:
    """Open the session, and set it up. Return its id, and the content blocks that precede the first message."""
    agent, task = opening.agent, opening.task
    takes = as_object(capabilities.get("promptCapabilities"))
    attached = await asyncio.to_thread(attached_blocks, agent, task, takes)
    session_id, state = await _session_of(opening, launch, earlier, capabilities)
    _refuse_other_model(opening, state)
    if earlier is None:
        held.enter_context(occupy(f"acp {agent.name}", session_id))
    if agent.resumes:
        task.events.emit(SessionBound(executor_session_id=session_id, project_dir=str(task.project_dir)))
    await _set_mode(opening, session_id, state)
    await _set_effort(opening, session_id, state)
    await _wait_for_servers(opening, session_id)
    return session_id, attached


def _log_of(agent: AgentRow, task: Task) -> RetryLog | None:
    if not agent.told_error:
        return None
    return RetryLog(agent.told_error, RetryPolicy.of(task.config, agent.usual_retries), task.events)


def _program(launch: Launch, task: Task) -> Program:
    seconds = task.limits.clean_up_seconds
    program = Program(
        launch.argv,
        cwd=task.project_dir,
        env=launch.env,
        stop_seconds=seconds * _TERMINATE_SHARE,
        max_stderr_bytes=_STDERR_BYTES,
        takes_input=True,
    )
    program.leave_seconds = seconds * _LEAVE_SHARE  # it exits by itself, so that its session is complete
    return program


@dataclass(frozen=True, slots=True)
class _Opening:
    """The requests before the first prompt."""

    agent: AgentRow
    task: Task
    peer: Peer
    answering: list[str]
    """The command of the server of `submit_answer`; empty: there is none."""

    async def ask(self, method: str, params: JsonDocument, *, continues: bool = False) -> JsonDocument:
        """Return the result of a request, empty if it is null. Raises RunFailed for an error or silence."""
        seconds = self.task.config.get("start_seconds", DEFAULT_START_SECONDS)
        try:
            return await self.peer.call(method, params, as_object, patience_of("start_seconds", seconds))
        except AgentRefused as error:
            if error.code == UNKNOWN_METHOD:
                raise self.cannot(f"does not know {method}", continues=continues) from error
            raise failure_of_refusal(self.agent, error, continues=continues) from error

    def cannot(self, what: str, *, continues: bool) -> RunFailed:
        """Return the failure for an agent that cannot do what the run needs, such as to continue a session."""
        if not continues:
            return self.differs(what)
        message = f"the agent {what}, so the session cannot be continued; start a new one"
        return refused(ErrorType.UNSUPPORTED_CAPABILITY, message, {"missing": ["resume"]})

    def differs(self, what: str) -> RunFailed:
        """Return the failure for an agent that cannot do what the run needs."""
        message = f"the agent {what}; install the version that the documentation of ao-{self.agent.name}-exec names"
        return RunFailed(ErrorType.DEPENDENCY_MISSING, message, origin="environment")


async def _initialize(opening: _Opening) -> JsonDocument:
    """Return the `agentCapabilities`."""
    told = await opening.ask("initialize", _INITIALIZE)
    if told.get("protocolVersion") != PROTOCOL_VERSION:
        version = told.get("protocolVersion")
        raise opening.differs(f"answers with protocolVersion {shown(version)}, and {PROTOCOL_VERSION} is expected")
    if opening.agent.is_known:
        version = as_object(told.get("agentInfo")).get("version")
        refuse_too_old(opening.agent.argv[0], version, opening.agent.install_hint)
    return as_object(told.get("agentCapabilities"))


async def _session_of(
    opening: _Opening, launch: Launch, earlier: str | None, capabilities: JsonDocument
) -> tuple[str, JsonDocument]:
    """Return the id of a new session or of the `earlier` one, and its state."""
    agent, task = opening.agent, opening.task
    servers = await usable_servers(agent, task, as_object(capabilities.get("mcpCapabilities")))
    if opening.answering:
        program, *arguments = opening.answering
        servers = [server for server in servers if server["name"] != SERVER]
        servers.append({"name": SERVER, "command": program, "args": arguments, "env": []})
    params: JsonDocument = {"cwd": str(task.project_dir), "mcpServers": servers}
    folders = task.config.get("additional_folders")
    if folders and agent.folders_in_session:
        if as_object(capabilities.get("sessionCapabilities")).get("additionalDirectories") is None:
            raise unfit("additional_folders", "the agent does not declare the capability additionalDirectories")
        params["additionalDirectories"] = folders
    if launch.meta is not None:
        params["_meta"] = launch.meta
    continuing = _method_to_continue(capabilities)
    if earlier is not None:
        return earlier, await _continued(opening, earlier, continuing, params)
    state = await opening.ask("session/new", params)
    session_id = state.get("sessionId")
    if not isinstance(session_id, str) or not session_id:
        raise opening.differs(f"answered session/new without a sessionId, but with {shown(state)}")
    if agent.resumes and continuing is None:
        task.events.warn("the agent can neither resume nor load a session: this one cannot be continued")
    return session_id, state


async def _continued(opening: _Opening, session_id: str, method: str | None, params: JsonDocument) -> JsonDocument:
    """Continue a session by a method of the agent, and return its state."""
    if method is None:
        raise opening.cannot("can neither resume nor load a session; a newer one may", continues=True)
    is_here = not opening.agent.stays_in_folder or await _began_here(opening, session_id)
    state = await opening.ask(method, {**params, "sessionId": session_id}, continues=True)
    if not is_here:
        raise opening.cannot(f"would work where the session began, and not in {params['cwd']}", continues=True)
    return state


def _refuse_other_model(opening: _Opening, state: JsonDocument) -> None:
    """Refuse a model that OpenCode does not know: it would ask one of opencode.ai in its place."""
    agent = opening.agent
    wanted = named_with_provider(agent, opening.task.config.get("model"), os.environ)
    option = _option(state, "model")
    used = option.get("currentValue")
    if agent.providers and wanted and used and not f"{used}/".startswith(f"{wanted}/"):
        near = difflib.get_close_matches(wanted, [str(one.get("value")) for one in objects_in(option.get("options"))])
        message = f"the agent does not know the model {wanted}; name one that it knows"
        message += f", such as {', '.join(near)}," if near else ""
        raise RunFailed(
            ErrorType.MODEL_NOT_FOUND, f"{message} or define it in the agent's own configuration", origin="caller"
        )


async def _began_here(opening: _Opening, session_id: str) -> bool:
    """Return whether a session began in the project directory. Ask before it is continued: later the agent says so."""
    cursor: JsonDocument = {}
    while True:
        told = await opening.ask("session/list", {"cwd": str(opening.task.project_dir), **cursor})
        if session_id in (one.get("sessionId") for one in objects_in(told.get("sessions"))):
            return True
        if not told.get("nextCursor"):
            return False
        cursor = {"cursor": told["nextCursor"]}


async def _wait_for_servers(opening: _Opening, session_id: str) -> None:
    """Wait until the agent has tried to connect to its MCP servers, if it tells that."""
    method = opening.agent.server_status
    if not method or not (blueprint_servers(opening.task.invocation) or opening.answering):
        return
    with suppress(AgentRefused, TimeoutError):  # an older version does not know the method
        async with asyncio.timeout(_CONNECT_SECONDS):
            while True:
                if not await opening.peer.call(method, {"sessionId": session_id}, _is_connecting):
                    break
                await asyncio.sleep(_POLL_SECONDS)


def _is_connecting(told: JsonDocument) -> bool:
    return as_object(told.get("mcp")).get("discoveryState") == "in_progress"


def _method_to_continue(capabilities: JsonDocument) -> str | None:
    if as_object(capabilities.get("sessionCapabilities")).get("resume") is not None:
        return "session/resume"
    return "session/load" if capabilities.get("loadSession") is True else None


async def _set_mode(opening: _Opening, session_id: str, state: JsonDocument) -> None:
    """Switch to the configured mode, else to the mode of the row: in others an agent may decide permissions itself."""
    wanted = opening.task.config.get("mode", opening.agent.mode)
    if wanted is None:
        return
    modes = as_object(state.get("modes"))
    if wanted in (one.get("id") for one in objects_in(modes.get("availableModes"))):
        if modes.get("currentModeId") != wanted:
            await opening.ask("session/set_mode", {"sessionId": session_id, "modeId": wanted})
    elif not await _choose(opening, session_id, _option(state, "mode"), wanted):
        raise opening.differs(f"has no session mode {wanted!r}")


async def _set_effort(opening: _Opening, session_id: str, state: JsonDocument) -> None:
    """Choose the configured `reasoning_effort` in the session, unless the row passes it on otherwise."""
    wanted = opening.task.config.get("reasoning_effort")
    if wanted is None or "reasoning_effort" in opening.agent.translations:
        return
    option = _option(state, "thought_level")
    if not await _choose(opening, session_id, option, wanted):
        offered = ", ".join(str(one.get("value")) for one in objects_in(option.get("options")))
        raise unfit("reasoning_effort", f"the agent does not offer {wanted} for this model, but {offered or 'none'}")


def _option(state: JsonDocument, category: str) -> JsonDocument:
    return next((one for one in objects_in(state.get("configOptions")) if one.get("category") == category), {})


async def _choose(opening: _Opening, session_id: str, option: JsonDocument, wanted: str) -> bool:
    """Set an option of the session to a value; return False if it does not have the value."""
    if wanted not in (one.get("value") for one in objects_in(option.get("options"))):
        return False
    if option.get("currentValue") != wanted:
        params = {"sessionId": session_id, "configId": option.get("id"), "value": wanted}
        await opening.ask("session/set_config_option", params)
    return True
