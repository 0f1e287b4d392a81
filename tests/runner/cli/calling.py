"""How the tests call `ao`: as a person would, as a process of its own."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.runner.cli.fork_server import run_forked

MINIATURES = Path(__file__).parents[2] / "miniatures"
SECONDS = 60


@dataclass(frozen=True)
class Called:
    """What a call wrote and how it left."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def document(self) -> Any:
        return json.loads(self.stdout)


@dataclass(frozen=True)
class Ao:
    """The command line with a home and a working folder of its own."""

    folder: Path

    def __call__(self, *arguments: str, stdin: str | None = None, **variables: str) -> Called:
        environment = self.environment() | variables
        if any(name.startswith("PYTHON") for name in variables):  # for the interpreter, so it has to be a new one
            done = subprocess.run(
                self.argv(*arguments),
                cwd=self.folder,
                env=environment,
                input=stdin,
                stdin=subprocess.DEVNULL if stdin is None else None,
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=False,
            )
        else:
            done = run_forked(arguments, cwd=self.folder, env=environment, stdin=stdin, timeout=SECONDS)
        return Called(done.returncode, done.stdout, done.stderr)

    def argv(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "ao_runner", *arguments]

    def environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        return kept | {"AO_HOME": str(self.folder / "ao-home"), "LANG": "C.UTF-8"}

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path


def miniature(name: str) -> str:
    return str(MINIATURES / f"{name}.py")
