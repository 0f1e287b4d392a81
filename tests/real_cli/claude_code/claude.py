"""Starts the real executor with the real CLI; only the model is replaced."""

import os
from collections.abc import Mapping
from pathlib import Path

from ao_model_simulator import ModelSimulator, claude_environment
from tests.process.executors.driver import ExecutorProcess, Run, installed, invocation, line_of, run

EXECUTOR = [installed("ao-claude-code-exec")]

SEVERITY_SCHEMA: dict[str, object] = {
    "type": "object",
    "required": ["severity"],
    "properties": {"severity": {"enum": ["low", "high"]}},
}


class Claude:
    """A home for the CLI, and the simulated model that it talks to."""

    def __init__(self, model: ModelSimulator, home: Path, env: Mapping[str, str] | None = None) -> None:
        (home / "tmp").mkdir(exist_ok=True)
        self.model = model
        self.home = home
        # As root the CLI demands to be told that it is in a sandbox before it bypasses permissions.
        self.env = {"PATH": os.environ["PATH"], "IS_SANDBOX": "1", **claude_environment(model.url, home), **(env or {})}
        self.env.pop("CLAUDE_CODE_MAX_RETRIES")

    def run(self, **fields: object) -> Run:
        """Perform a whole run; `fields` replace and add to the invocation."""
        return run(EXECUTOR, self.invocation(**fields), env=self.env)

    def start(self, **fields: object) -> ExecutorProcess:
        """Start a run and leave its stdin open."""
        executor = ExecutorProcess(EXECUTOR, env=self.env)
        executor.write(line_of(self.invocation(**fields)))
        return executor

    def invocation(self, **fields: object) -> dict[str, object]:
        """Return an invocation that works in this home."""
        return invocation(**{"project_dir": str(self.home), **fields})


def agent(**fields: object) -> dict[str, object]:
    """Return a blueprint."""
    return {"name": "reviewer", "system_prompt": "You review.", **fields}
