"""A job of the code host, in which the step of `.github/actions/run` runs: its files, its log and what it leaves."""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[4]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / ".github/actions/run/action.yml").read_text())
INSTALL, STEP = ACTION["runs"]["steps"][-2:]
GIT = shutil.which("git") or "git"
SCHEMA = {"type": "object", "required": ["approval", "comments"]}
EVENT = {"${{ github.event.pull_request.base.sha }}": "base", "${{ github.event.pull_request.head.sha }}": "head"}


@dataclass(frozen=True)
class Left:
    """What a step leaves: its exit code, what the code host reads from its log, outputs and the summary."""

    exit_code: int
    log: str
    commands: list[str]
    outputs: dict[str, str]
    summary: str


def commands_in(log: str) -> list[str]:
    """Return the commands in a log as the code host understands them."""
    found, token = [], None
    for line in map(str.strip, log.splitlines()):
        if token is not None:
            token = None if line == f"::{token}::" else token
        elif line.startswith("::stop-commands::"):
            token = line.removeprefix("::stop-commands::")
        elif line.startswith("::"):
            found.append(line)
    assert token is None
    return found


def outputs_in(text: str) -> dict[str, str]:
    parts = re.findall(r"(?s)([^\n<]+)<<([^\n]+)\n(.*?)\n\2\n", text)
    assert "".join(f"{name}<<{mark}\n{value}\n{mark}\n" for name, mark, value in parts) == text
    return {name: value for name, _, value in parts}


@dataclass(frozen=True)
class Job:
    """A clone with a change, and what the inputs of the step are."""

    folder: Path

    @property
    def clone(self) -> Path:
        return self.folder / "clone"

    def git(self, *arguments: str) -> str:
        argv = [GIT, "-c", "user.name=a", "-c", "user.email=a@example.org", *arguments]
        return subprocess.run(argv, cwd=self.clone, capture_output=True, text=True, check=True).stdout.strip()

    def commit(self, **files: str) -> str:
        for name, text in files.items():
            (self.clone / name.replace("_", ".", 1)).write_text(text)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "x")
        return self.git("rev-parse", "HEAD")

    def answer(self, *answers: dict[str, Any]) -> None:
        (self.folder / "config.json").write_text(json.dumps({"script": {"answers": list(answers), "repeat": True}}))

    def step(self, **inputs: str) -> Left:
        """Run the script of the step with the environment that the action gives it."""
        event = {"base": self.git("rev-parse", "main"), "head": self.git("rev-parse", "HEAD")}
        given: dict[str, str] = {name: told.get("default", "") for name, told in ACTION["inputs"].items()}
        given |= {name: event[EVENT[text]] for name, text in given.items() if text in EVENT}
        given |= {"agent": str(self.folder / "agent.yaml"), "executor": "scripted"}
        given |= {"options": f"--config {self.folder / 'config.json'}"}
        given |= {name.replace("_", "-"): value for name, value in inputs.items()}
        values = {variable: given[text[len("${{ inputs.") : -len(" }}")]] for variable, text in STEP["env"].items()}
        files = {f"GITHUB_{name}": str(self.folder / name) for name in ("OUTPUT", "STEP_SUMMARY")}
        for file in files.values():
            Path(file).write_text("")
        machine = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "RUNNER_TEMP": str(self.folder)}
        script = self.folder / "step.sh"
        script.write_text(STEP["run"])
        done = subprocess.run(
            ["/bin/bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
            cwd=self.clone,
            env=machine | values | files,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=100, check=False,
        )  # fmt: skip
        log = done.stdout.decode()
        outputs = outputs_in((self.folder / "OUTPUT").read_text())
        return Left(done.returncode, log, commands_in(log), outputs, (self.folder / "STEP_SUMMARY").read_text())


def make_job(folder: Path) -> Job:
    """Return a job in a clone with a change to one file."""
    job = Job(folder)
    job.clone.mkdir()
    (folder / "ao-run").symlink_to(Path(sys.executable).parent.parent)
    (folder / "agent.yaml").write_text(f"name: reviewer\noutput_schema: {json.dumps(SCHEMA)}\n")
    job.git("init", "-q", "-b", "main")
    job.commit(a_py="def mean(items):\n    return sum(items) / len(items)\n")
    job.git("checkout", "-q", "-b", "change")
    job.commit(a_py="def mean(items):\n    return sum(items) / 0\n")
    return job
