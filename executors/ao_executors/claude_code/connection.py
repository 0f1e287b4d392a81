"""A CLI that is connected by the SDK: what of it lasts from run to run."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from ao_executors.claude_code.arguments import budget_usd
from ao_executors.claude_code.cli_files import ApiErrorLog, SessionLock
from ao_executors.claude_code.conversation import ClaudeConversation, failure_of_sdk
from ao_executors.claude_code.process import ClaudeProcess
from ao_executors.claude_code.sdk import ClaudeAgentOptions, ClaudeSDKClient, ClaudeSDKError, ProcessError, Transport
from ao_executors.core import RunContext, RunFailed, Task
from ao_protocol.errors import ErrorType
from ao_protocol.events import Log

_CONNECT_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.05


@asynccontextmanager
async def connection(
    context: RunContext, process: ClaudeProcess, lock: SessionLock
) -> AsyncIterator["ClaudeConnection"]:
    """Connect to a CLI that is running.

    Raises:
        RunFailed: it ended, does not know the session, or an MCP server is not there.
    """
    transport = ProcessTransport(process)
    client = ClaudeSDKClient(ClaudeAgentOptions(verbatim_prompts=True), transport=transport)
    try:
        await client.connect()
        process.forget_texts()
        unavailable = await _unavailable_servers(client, context)
        has_budget = budget_usd(context) is not None
        yield ClaudeConnection(client, transport, lock, process.api_errors, unavailable, has_budget=has_budget)
    except ClaudeSDKError as error:
        raise failure_of_sdk(error) from error
    finally:
        await client.disconnect()


class ClaudeConnection:
    """The connected CLI, for one conversation at a time."""

    def __init__(
        self,
        client: ClaudeSDKClient,
        transport: "ProcessTransport",
        lock: SessionLock,
        api_errors: ApiErrorLog,
        unavailable: dict[str, str],
        *,
        has_budget: bool,
    ) -> None:
        self._client = client
        self._transport = transport
        self._lock = lock
        self._api_errors = api_errors
        self._unavailable = unavailable
        self._has_budget = has_budget
        self._spent_usd = 0.0
        self._is_lost = False

    @property
    def is_alive(self) -> bool:
        """False once the CLI has ended, does not react or has spoken unasked, and after a run with a budget.

        What it says unasked would be taken for the next answer. And it counts what it spends from its start on, while a
        limit is one of each run.
        """
        return self._transport.is_running and not self._transport.spoke_unasked and not self._is_lost

    @asynccontextmanager
    async def conversation(self, task: Task) -> AsyncIterator[ClaudeConversation]:
        """Begin a run's conversation in the session.

        Raises:
            RunFailed: the CLI ended.
        """
        for name, why in self._unavailable.items():
            message = f"MCP server {name} is not available, and the run continues without it: {why}"
            task.events.emit(Log(level="warning", message=message))
        claude = ClaudeConversation(self._client, task, self._lock, self._api_errors, spent_before_usd=self._spent_usd)
        self._transport.is_asked = True
        try:
            yield claude
        except ClaudeSDKError as error:
            raise failure_of_sdk(error) from error
        finally:
            self._transport.is_asked = False
            self._spent_usd = claude.spent_usd
            self._is_lost = claude.is_lost or self._has_budget


async def _unavailable_servers(client: ClaudeSDKClient, context: RunContext) -> dict[str, str]:
    """Wait until every MCP server of the blueprint is connected, and return what is wrong with those that need not be.

    Raises:
        RunFailed: `mcp_server_unavailable`, naming the required servers and what the CLI says of them.
    """
    blueprint = context.invocation.agent_blueprint
    wanted = (blueprint.mcp_servers or {}) if blueprint is not None else {}
    if not wanted:
        return {}
    broken = dict.fromkeys(wanted, "did not connect in time")
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            while broken:
                status = await client.get_mcp_status()
                states = {server["name"]: server for server in status["mcpServers"]}
                broken = {
                    name: str(states[name].get("error") or states[name]["status"]) if name in states else "is unknown"
                    for name in wanted
                    if name not in states or states[name]["status"] != "connected"
                }
                if not any(name in states and states[name]["status"] == "pending" for name in broken):
                    break
                await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError:
        pass
    missing = {name: why for name, why in broken.items() if wanted[name].required}
    if missing:
        told = "; ".join(f"{name}: {why}" for name, why in sorted(missing.items()))
        raise RunFailed(
            ErrorType.MCP_SERVER_UNAVAILABLE,
            f"MCP servers of the blueprint are not available: {told}",
            origin="environment",
            extra={"details": {"servers": dict(sorted(missing.items()))}},
        )
    return dict(sorted(broken.items()))


class ProcessTransport(Transport):
    """Carries the SDK's messages to a process that somebody else started and will end."""

    def __init__(self, process: ClaudeProcess) -> None:
        self.is_asked = False
        """True while a question is open; whoever asks says so."""
        self.spoke_unasked = False
        """True once the CLI has begun a turn of its own, as it does for a command in the background that has ended."""
        self._process = process

    @property
    def is_running(self) -> bool:
        """False once the process has ended."""
        return self._process.is_running

    async def connect(self) -> None:
        """Do nothing: the process runs."""

    def is_ready(self) -> bool:
        """Return True: whether the process still reads, writing will tell."""
        return True

    async def write(self, data: str) -> None:
        """Write one message.

        Raises:
            ProcessError: the process has ended.
        """
        try:
            await self._process.write(data.encode())
        except ConnectionError as error:
            raise await self._ended() from error

    async def read_messages(self) -> AsyncIterator[dict[str, Any]]:
        """Yield its messages up to its end; other output, such as a debug line, is passed over.

        Raises:
            ProcessError: it ended with another code than 0.
        """
        async for line in self._process.lines():
            message = _message_on(line)
            if message is not None:
                self.spoke_unasked |= not self.is_asked and _is_of_a_turn(message)
                yield message
        ended = await self._ended()
        if ended.exit_code != 0:
            raise ended

    async def end_input(self) -> None:
        """Close its stdin."""
        self._process.close_stdin()

    async def close(self) -> None:
        """Close its stdin; its end is waited for by who started it."""
        self._process.close_stdin()

    async def _ended(self) -> ProcessError:
        code, stderr = await self._process.end()
        return ProcessError("the claude CLI ended", exit_code=code, stderr=stderr or None)


def _message_on(line: bytes) -> dict[str, Any] | None:
    if line.startswith(b"{"):
        with suppress(ValueError):  # node prints an object that is debugged as `{ a: 1 }`
            message: dict[str, Any] = json.loads(line)
            return message
    return None


def _is_of_a_turn(message: dict[str, Any]) -> bool:
    """Say whether a message is of a turn; each begins with an `init`, before the model is asked."""
    return message.get("type") in {"assistant", "user", "result"} or message.get("subtype") == "init"
