"""Find the CLI and what prevents a run, and start and end its process."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Final

from ao_executors import VERSION
from ao_executors.codex.codex_api_errors import delay_in
from ao_executors.codex.codex_arguments import server_arguments, server_environment
from ao_executors.codex.codex_config import KEYS
from ao_executors.core import Findings, RunContext
from ao_executors.core.foreign_json import text_of
from ao_executors.core.json_rpc import AgentEnded, Patience, Peer, running
from ao_executors.core.program import Program
from ao_executors.vendors.agent_cli import AgentCli, credential_problems, home_folder, temporary_folder
from ao_executors.vendors.agent_versions import refuse_too_old
from ao_protocol.framing import LineSplitter

CODEX: Final = AgentCli(
    "codex",
    wheel="codex_cli_bin",
    inside="bin/codex",
    called="the wheel openai-codex-cli-bin",
    install="pip install 'ao-executor-protocol[codex]'",
)
_STDERR_BYTES: Final = 4096
_MAX_LOG_BYTES: Final = 1024 * 1024
_LEAVE_SECONDS: Final = 1.0
"""How long an idle CLI may take to exit after its stdin is closed. It takes 0.05 s."""
_TERMINATE_SECONDS: Final = 2.0
_LATE_SECONDS: Final = 2.0
"""How long the log may lag behind the message about the same retry."""
_LOST_RACE: Final = "failed to initialize sqlite state runtime"
"""What CLI 0.163 ends with if another one creates the database of a new home in the same moment."""
_MOST_STARTS: Final = 5
START: Final = Patience(60.0, "try again, or use another version", origin="environment")
"""How long the CLI may be silent before the first prompt. It answers within 0.4 s."""
_MOST_DELAYS: Final = 1000
_CLIENT: Final = {"name": "ao-codex-exec", "title": None, "version": VERSION}
_CAPABILITIES: Final = {"experimentalApi": True}
"""For the model's calls as it wrote them, and for ending the terminals that a turn has left."""


class RetryLog:
    """The delays before retries, which the CLI writes to stderr only."""

    def __init__(self) -> None:
        self._lines = LineSplitter(_MAX_LOG_BYTES)
        self._delays: asyncio.Queue[float] = asyncio.Queue(_MOST_DELAYS)

    def feed(self, chunk: bytes) -> None:
        """Read a piece of stderr."""
        for line in self._lines.feed(chunk):
            delay = delay_in(line.decode(errors="replace")) if isinstance(line, bytes) else None
            if delay is not None and not self._delays.full():
                self._delays.put_nowait(delay)

    async def next_delay(self) -> float:
        """Return the delay of the next retry in seconds; 0 if the log does not tell it."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_LATE_SECONDS):
                return await self._delays.get()
        return 0.0


def find_problems() -> Findings:
    """Return what prevents a run, and the program that it starts."""
    login = home_folder("CODEX_HOME", ".codex") / "auth.json"
    remedy = f"set {KEYS[0]}, or run `codex login` once"
    return CODEX.findings().and_problems(credential_problems(KEYS, remedy, login))


@asynccontextmanager
async def started_codex(context: RunContext) -> AsyncIterator[tuple[Peer, RetryLog]]:
    """Start the app server for a run's context and initialize it. Leaving the block ends it and all its descendants.

    Raises:
        RunFailed: The program is missing (`dependency_missing`), it ended, is silent, or cannot be read.
    """
    codex, log = CODEX.find(context.config.get("codex_path")), RetryLog()
    async with temporary_folder("ao-codex-") as folder:
        environment = server_environment(context, folder)
        if home := environment.get("CODEX_HOME"):  # the CLI creates its usual home only
            await asyncio.to_thread(Path(home).mkdir, parents=True, exist_ok=True)
        for start in count(1):
            program = _program(context, codex, environment, log)
            async with running(program, "the codex CLI", header={}) as server:
                client = {"clientInfo": _CLIENT, "capabilities": _CAPABILITIES}
                try:
                    agent = await server.call("initialize", client, lambda told: text_of(told.get("userAgent")), START)
                except AgentEnded as error:
                    if start < _MOST_STARTS and _LOST_RACE in error.told:
                        continue
                    raise
                refuse_too_old(CODEX.name, agent.partition("/")[2].partition(" ")[0], CODEX.install)
                server.notify("initialized")
                yield server, log
                return


def _program(context: RunContext, codex: Path, environment: Mapping[str, str], log: RetryLog) -> Program:
    program = Program(
        [str(codex), *server_arguments(context)],
        cwd=context.project_dir,
        env=environment,
        stop_seconds=_TERMINATE_SECONDS,
        max_stderr_bytes=_STDERR_BYTES,
        takes_input=True,
    )
    program.on_stderr = log.feed
    program.leave_seconds = _LEAVE_SECONDS  # it exits by itself, so that its session can be resumed
    return program
