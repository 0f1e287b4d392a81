"""A CLI that is connected: what of it lasts from run to run."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ao_executors.claude_code.api_error_log import ApiErrorLog
from ao_executors.claude_code.api_errors import failure_of_sdk
from ao_executors.claude_code.arguments import budget_usd
from ao_executors.claude_code.conversation import ClaudeConversation
from ao_executors.claude_code.mcp_status import check_mcp_servers
from ao_executors.claude_code.process import ClaudeProcess
from ao_executors.claude_code.sdk import ClaudeAgentOptions, ClaudeSDKClient, ClaudeSDKError
from ao_executors.claude_code.session_lock import SessionLock
from ao_executors.claude_code.transport import ProcessTransport
from ao_executors.core.task import Setting, Task
from ao_protocol.events import Log


@asynccontextmanager
async def connection(setting: Setting, process: ClaudeProcess, lock: SessionLock) -> AsyncIterator["ClaudeConnection"]:
    """Connect to a CLI that is running.

    Raises:
        RunFailed: it ended, does not know the session, or an MCP server is not there.
    """
    transport = ProcessTransport(process)
    client = ClaudeSDKClient(ClaudeAgentOptions(verbatim_prompts=True), transport=transport)
    try:
        await client.connect()
        process.forget_texts()
        unavailable = await check_mcp_servers(client, setting)
        has_budget = budget_usd(setting) is not None
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
        transport: ProcessTransport,
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
