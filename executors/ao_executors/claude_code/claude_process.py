"""Find the CLI and what prevents a run, and start and end its process.

This module does not import the SDK, so that the CLI boots while the SDK is imported: each takes about half a second.
"""

import json
import os
import re
import shlex
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Final

from ao_executors.claude_code.claude_arguments import Files, claude_arguments, mcp_config
from ao_executors.claude_code.claude_config import CLOUDS, CREDENTIALS, SECRETS
from ao_executors.claude_code.cli_files import LOG_ENVIRONMENT, ApiErrorLog, PrivateText
from ao_executors.core import Findings, RunContext
from ao_executors.core.program import Program
from ao_executors.vendors.agent_cli import AgentCli, credential_problems, home_folder, temporary_folder
from ao_executors.vendors.claude_retries import RETRIES_VARIABLE, retries_of
from ao_protocol.wire import JsonObject

CLAUDE: Final = AgentCli(
    "claude",
    wheel="claude_agent_sdk",
    inside="_bundled/claude",
    called="the SDK's wheel",
    install="pip install 'ao-executor-protocol[claude]'",
)
_STDERR_BYTES: Final = 4096
_LEAVE_SECONDS: Final = 1.0
"""How long an idle CLI may take to exit after its stdin is closed. It writes its session file, in 0.04 s."""
_TERMINATE_SECONDS: Final = 2.0

_BEFORE_COMMANDS: Final = "CLAUDE_ENV_FILE"
"""The variable with the path of a file whose text the CLI puts before every Bash command."""

_OWN_FILES: Final = "CLAUDE_CODE_TMPDIR"
"""The variable with the folder for temporary files of the CLI: sockets, probes, output of commands."""
_WITHOUT_BACKGROUND: Final = {"CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1"}
"""Because no run outlives its turn: a background task would be lost, or ask the model at its end, outside a run."""
_TRACEPARENT: Final = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
"""A W3C trace context, whose ids are not all zeros. Any other value is left out, because it could inject a header."""
_HEADERS: Final = "ANTHROPIC_CUSTOM_HEADERS"
"""The variable with extra headers, one `name: value` a line. The CLI reads it once, at its start."""


def find_problems() -> Findings:
    """Return what prevents a run, and the program that it starts."""
    if find_spec(CLAUDE.wheel) is None:
        found = Findings([f"the Claude Agent SDK is not installed; {CLAUDE.install}"])
    else:
        found = CLAUDE.findings()
    login = home_folder("CLAUDE_CONFIG_DIR", ".claude") / ".credentials.json"
    remedy = f"set {CREDENTIALS[0]}, or install Claude Code and log in with `claude`"
    return found.and_problems(credential_problems((*CREDENTIALS, *CLOUDS), remedy, login))


@asynccontextmanager
async def started_claude(context: RunContext) -> AsyncIterator["ClaudeProcess"]:
    """Start the CLI for a run's context. Leaving the block ends it and all its descendants.

    Raises:
        RunFailed: The program is missing (`dependency_missing`).
    """
    prompt = PrivateText("system-prompt", context.system_prompt or "")
    servers = PrivateText("mcp-config", json.dumps(mcp_config(context)))
    own = context.config.get("env", {}).get(_BEFORE_COMMANDS) or os.environ.get(_BEFORE_COMMANDS)
    # Tools inherit the CLI's environment without its secrets (AOX-198).
    unset = f"{f'. {shlex.quote(own)}; ' if own else ''}unset {' '.join(SECRETS)}\n"
    before_commands = PrivateText("before-commands", unset)
    api_errors = ApiErrorLog()
    files = Files(prompt.path, servers.path, api_errors.path)
    try:
        async with temporary_folder("ao-claude-") as folder:
            program = Program(
                [str(CLAUDE.find(context.config.get("cli_path"))), *claude_arguments(context, files)],
                cwd=context.project_dir,
                env={_OWN_FILES: folder, **_environment(context), _BEFORE_COMMANDS: str(before_commands.path)},
                stop_seconds=_TERMINATE_SECONDS,
                max_stderr_bytes=_STDERR_BYTES,
                takes_input=True,
            )
            program.leave_seconds = _LEAVE_SECONDS  # it exits by itself, so that its session can be resumed
            async with program:
                yield ClaudeProcess(program, (prompt, servers), api_errors)
    finally:
        for text in (prompt, servers, before_commands, api_errors):
            text.forget()


def _environment(context: RunContext) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if name != "CLAUDECODE"}
    environment = {
        **inherited,
        "CLAUDE_CODE_ENTRYPOINT": "sdk-py",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        **_WITHOUT_BACKGROUND,
        **context.config.get("env", {}),
        **LOG_ENVIRONMENT,
        RETRIES_VARIABLE: str(retries_of(context.config).cli_retries),
    }
    return environment | trace_headers(context.invocation.metadata, environment)


def trace_headers(metadata: JsonObject, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variable that makes the CLI send the header `traceparent`, in addition to its other extra headers.

    The value is that of the run's metadata, else that of the variable TRACEPARENT. Empty if neither is valid.
    """
    candidates = (metadata.get("traceparent"), environment.get("TRACEPARENT"))
    valid = (given for given in candidates if isinstance(given, str) and _TRACEPARENT.fullmatch(given))
    traceparent = next(valid, None)
    if traceparent is None:
        return {}
    others = environment.get(_HEADERS)
    header = f"traceparent: {traceparent}"
    return {_HEADERS: f"{others}\n{header}" if others else header}


@dataclass(frozen=True, slots=True)
class ClaudeProcess:
    """A running CLI, the texts that it reads at its start, and its log."""

    program: Program
    texts: Sequence[PrivateText]
    api_errors: ApiErrorLog
