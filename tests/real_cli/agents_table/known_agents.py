"""The agents of the table: how each is started for a probe, and its own tools for a command and for a file."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from ao_model_simulator import claude_environment, environment_for
from tests.process.executors.driver import installed
from tests.real_cli.programs import CLAUDE_CLI

ROOT: Final = Path(__file__).parents[3]
PROGRAM: Final = Path(__file__).with_name("triage_program.py")
ASK_MODEL: Final = ROOT / "tests/process/executors/command/ask_model.py"
MODEL: Final = "claude-opus-4-6"
VERSION_SECONDS: Final = 60
ToolUse = dict[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Agent:
    """An executor, and the program behind it.

    Args:
        name: The executor.
        kind: The API of its model, as the simulator names it; empty without a model.
        version_argv: Prints the version of the program behind it.
        page: Its page in docs.
        model: The name of a model that it takes.
        config: `executor_config` of every probe.
        profile: Further fields of its profile.
        runs_command: Returns the call of its own tool for a command.
        writes_file: Returns the call of its own tool that writes a file.
        server_prefix: What precedes the name of a tool of an MCP server, where the simulator does not find it in the
            list of tools: a placeholder for the server.
        command_tool: The name of its tool for a command, as `allowed_tools` takes it.
    """

    name: str
    kind: str
    version_argv: Sequence[str]
    page: str
    model: str = MODEL
    config: Mapping[str, Any] = field(default_factory=dict)
    profile: Mapping[str, Any] = field(default_factory=dict)
    runs_command: Callable[[str], ToolUse] | None = None
    writes_file: Callable[[Path], ToolUse] | None = None
    command_tool: str = ""
    server_prefix: str = ""

    @property
    def executable(self) -> str:
        return installed(f"ao-{self.name}-exec")

    @property
    def is_installed(self) -> bool:
        return shutil.which(self.version_argv[0]) is not None

    @property
    def version(self) -> str:
        """Return what the program prints for its version: the first word with a digit of the first such line."""
        done = subprocess.run(
            self.version_argv,
            capture_output=True,
            text=True,
            timeout=VERSION_SECONDS,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        words = [word for line in done.stdout.splitlines() for word in line.split() if word[:1].isdigit()]
        return words[0] if words else "unknown"

    def environment(self, url: str, home: Path) -> dict[str, str]:
        """Return the variables of a runner whose agent asks the simulator at `url` and lives in `home`."""
        (home / "tmp").mkdir(parents=True, exist_ok=True)
        ours = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "AO_HOME": str(home / "ao"),
            "AO_STORE": "local",
            "LANG": "C.UTF-8",
            "IS_SANDBOX": "1",  # as root, the Claude CLI demands it before it bypasses permissions
            "CLAUDE_CODE_EXECUTABLE": str(CLAUDE_CLI),
        }
        if self.name.startswith("claude"):
            return claude_environment(url, home) | ours
        return {**(environment_for(self.kind, url) if self.kind else {}), **ours}


def _call(tool: str, **given: object) -> ToolUse:
    return {"type": "tool_use", "name": tool, "input": given}


def _claude_runs(command: str) -> ToolUse:
    return _call("Bash", command=command)


def _claude_writes(path: Path) -> ToolUse:
    return _call("Write", file_path=str(path), content="new\n")


def _codex_runs(command: str) -> ToolUse:
    reason = {"sandbox_permissions": "require_escalated", "justification": "I want to"}
    return _call("exec_command", cmd=command, **reason)


def _codex_writes(path: Path) -> ToolUse:
    return _call("exec_command", cmd=f"echo new > {path}")


def _gemini_runs(command: str) -> ToolUse:
    return _call("run_shell_command", command=command)


def _gemini_writes(path: Path) -> ToolUse:
    return _call("write_file", file_path=str(path), content="new\n")


def _opencode_runs(command: str) -> ToolUse:
    return _call("bash", command=command, description="one command")


def _opencode_writes(path: Path) -> ToolUse:
    return _call("write", filePath=str(path), content="new\n")


def _qwen_runs(command: str) -> ToolUse:
    return _call("run_shell_command", command=command, is_background=False)


def _qwen_writes(path: Path) -> ToolUse:
    return _call("edit", file_path=str(path), old_string="", new_string="new\n")


def _codex_program() -> str:
    wheel = "codex_cli_bin"  # has no types
    return "codex" if find_spec(wheel) is None else str(import_module(wheel).bundled_codex_path())


PYTHON: Final = (sys.executable, "--version")
AGENTS: Final = (
    Agent(
        "claude-code", "anthropic", (str(CLAUDE_CLI), "--version"), "claude-code.md",
        runs_command=_claude_runs, writes_file=_claude_writes, command_tool="Bash",
    ),
    Agent(
        # A model that the CLI does not know calls tools directly, and not from a script.
        "codex", "openai-responses", (_codex_program(), "--version"), "codex-executor.md", model="plain",
        runs_command=_codex_runs, writes_file=_codex_writes, command_tool="exec_command",
        server_prefix="mcp__{server}__",
    ),
    Agent(
        "claude-acp", "anthropic", ("claude-agent-acp", "--version"), "acp-executors.md",
        runs_command=_claude_runs, writes_file=_claude_writes, command_tool="Bash", server_prefix="mcp__{server}__",
    ),
    Agent(
        "gemini", "gemini", ("gemini", "--version"), "acp-executors.md", model="gemini-2.5-pro",
        runs_command=_gemini_runs, writes_file=_gemini_writes, command_tool="run_shell_command",
    ),
    Agent(
        "opencode", "anthropic", ("opencode", "--version"), "acp-executors.md",
        runs_command=_opencode_runs, writes_file=_opencode_writes, command_tool="bash",
    ),
    Agent(
        "qwen", "openai-chat", ("qwen", "--version"), "acp-executors.md", model="qwen3-coder-plus",
        runs_command=_qwen_runs, writes_file=_qwen_writes, command_tool="run_shell_command",
    ),
    Agent(
        "command", "anthropic", PYTHON, "command-executor.md", model="",
        config={
            "argv": [sys.executable, str(ASK_MODEL), "--system", "{system_prompt}", "{session_id}.json"],
            "resume_argv": [sys.executable, str(ASK_MODEL), "{session_id}.json"],
            "session_file": "{session_id}.json",
        },
        profile={"secrets": ["ANTHROPIC_API_KEY"], "environment": {"pass": ["ANTHROPIC_BASE_URL"]}},
    ),
    Agent("procedural", "", PYTHON, "decisions/procedural.md", model=""),
)  # fmt: skip
