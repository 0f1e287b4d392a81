"""Starts the real executor with the real Codex CLI; only the model is replaced."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ao_model_simulator import ModelSimulator
from tests.process.executors.driver import ExecutorProcess, Run, installed, invocation, line_of, run

EXECUTOR = [installed("ao-codex-exec")]
KEY = "sk-canary-0123456789"


class Codex:
    """A home for the CLI, a project, and the simulated model that the CLI talks to."""

    def __init__(self, model: ModelSimulator, folder: Path, env: Mapping[str, str] | None = None) -> None:
        self.model = model
        self.home, self.project, self.temporary = folder / "home", folder / "project", folder / "tmp"
        for part in (self.home, self.project, self.temporary):
            part.mkdir(exist_ok=True)
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "TMPDIR": str(self.temporary),
            "OPENAI_BASE_URL": model.base_url("openai-responses"),
            "OPENAI_API_KEY": KEY,
            **(env or {}),
        }

    def run(self, **fields: object) -> Run:
        """Perform a whole run; `fields` replace and add to the invocation."""
        return run(EXECUTOR, self.invocation(**fields), env=self.env)

    def start(self, **fields: object) -> ExecutorProcess:
        """Start a run and leave its stdin open."""
        executor = ExecutorProcess(EXECUTOR, env=self.env)
        executor.write(line_of(self.invocation(**fields)))
        return executor

    def sent(self, number: int) -> Any:
        """Return the body of a request to the model, from 0."""
        return self.model.requests[number].body

    def invocation(self, **fields: object) -> dict[str, object]:
        """Return an invocation that works in the project."""
        return invocation(**{"project_dir": str(self.project), **fields})


def command(cmd: str, **fields: object) -> dict[str, Any]:
    """Return the answer of a model that runs a command."""
    return {"content": [{"type": "tool_use", "id": "call_1", "name": "exec_command", "input": {"cmd": cmd, **fields}}]}


def agent(**fields: object) -> dict[str, object]:
    """Return a blueprint."""
    return {"name": "reviewer", "system_prompt": "You review.", **fields}
