"""How the fault tests call `ao run`: as a process of its own, with its memory measured."""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.process.lifeline.leftovers import processes_in
from tests.process.runner.cli.calling import Ao, Called, miniature

ROOT = Path(__file__).parents[2]
SECONDS = 100


@dataclass(frozen=True)
class Measured:
    """An `ao run` that is over: what it wrote, and the most memory that it had."""

    called: Called
    memory_bytes: int
    ao: Ao

    def events(self) -> list[dict[str, Any]]:
        """Return the events as the store has them."""
        return [json.loads(line) for line in self.ao("events", "last").stdout.splitlines()]


def run_measured(folder: Path, name: str, parameters: Mapping[str, Any]) -> Measured:
    """Run a miniature in a folder of its own, and check that no process is left of it."""
    ao = Ao(folder)
    (folder / "project").mkdir()
    ao.write("agent.yaml", "name: agent\n")
    ao.write("parameters.json", json.dumps(dict(parameters)))
    arguments = ["run", "agent.yaml", "--params", "parameters.json", "--executor", miniature(name), "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.measured", str(folder / "memory"), *arguments, "--project-dir", "project"],
        cwd=folder,
        env=ao.environment() | {"PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert processes_in(folder / "project", 2.0) == []
    called = Called(done.returncode, done.stdout, done.stderr)
    return Measured(called, int((folder / "memory").read_text()), ao)
