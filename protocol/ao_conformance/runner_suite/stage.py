"""Prepare a play of the runner suite: its vector, the runner's command, and files, folders and variables."""

import copy
import json
import os
import re
import secrets
import shlex
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from ao_conformance.vectors import Document, Vector

PROMPT: Final = "Play."
OUR_OPTIONS: Final = (
    *("run", "{blueprint}", "-p", "{prompt}", "--profile", "{profile}"),
    *("--project-dir", "{project_dir}", "--events", "--verify-results"),
)
OUR_RESUME_OPTIONS: Final = ("resume", "last", "-p", "{prompt}", "--events", "--verify-results")
OUR_ATTACH_OPTIONS: Final = ("--attach", "{file}:{media_type}")
PLACEHOLDERS: Final = (
    *("executor", "blueprint", "prompt", "project_dir", "timeout_seconds", "idle_seconds", "config", "profile"),
)
NO_LIMIT_SECONDS: Final = 600
"""The value of a limit that the vector does not set."""
SECRET_NAME: Final = "AO_CONFORM_SECRET"  # noqa: S105  # the name of a variable
LONG_TEXT: Final = re.compile(r"\$\{text:(\d+)\}")
OF_THE_PERSON: Final = re.compile(r"XDG_|AO_")
"""Variables of the tester that would lead a runner to the tester's own files or change its behaviour."""


DESCRIPTION: Final[Document] = {
    "schema_versions": ["3.0"],
    "executor": {"name": "hostile", "version": "1"},
    "agent_types": ["autonomous"],
    "capabilities": {},
}
"""The description of a hostile executor, unless its vector has another."""
BLUEPRINT: Final[Document] = {"name": "conformance", "system_prompt": "You are asked by a conformance suite."}


class RunnerVector(Vector):
    """A vector for a runner: a hostile executor, the runner's input, and the required report."""

    __slots__ = ()

    @property
    def executor(self) -> Document:
        """The hostile executor: its files, its steps and its description."""
        found: Document = self.source["executor"]
        return found

    @property
    def given(self) -> Document:
        """The other input of the runner."""
        found: Document = self.source.get("given", {})
        return found

    @property
    def attachments(self) -> Sequence[Document]:
        """The files beside the prompt: `name`, `media_type`, and the `text` of the file, if there is a file."""
        found: Sequence[Document] = self.given.get("attachments", ())
        return found

    @property
    def resumes(self) -> bool:
        """Whether the session of the run is resumed; the resumed run is judged."""
        return bool(self.given.get("resume", False))

    @property
    def description(self) -> Document:
        """The description of the executor, unless it plays `describe`."""
        return {**DESCRIPTION, **self.executor.get("description", {})}

    @property
    def takes_long(self) -> bool:
        """Whether the vector is played only on request."""
        return bool(self.source.get("long", False))

    @property
    def may_start(self) -> int:
        """The maximum number of starts of the executor for the run."""
        return max(int(expected.get("starts", 1)) for expected in self.expectations)


def load_runner_vectors() -> list[RunnerVector]:
    """Return all runner vectors, in the order of their files."""
    return RunnerVector.load({"runner"})


def our_command() -> tuple[str, ...]:
    """Return the command of `ao run`, the runner of this installation."""
    return (str(Path(sysconfig.get_path("scripts")) / "ao"), *OUR_OPTIONS)


def our_resume_command() -> tuple[str, ...]:
    """Return the command of `ao resume`."""
    return (our_command()[0], *OUR_RESUME_OPTIONS)


def filled_command(command: Sequence[str], values: Mapping[str, str]) -> list[str]:
    """Return the argv of a play. Braces that are not a placeholder stay as they are."""
    argv = []
    for argument in command:
        for name in PLACEHOLDERS:
            argument = argument.replace(f"{{{name}}}", values[name])  # noqa: PLW2901
        argv.append(argument)
    return argv


def attaching(command: Sequence[str], attach: Sequence[str], vector: RunnerVector) -> tuple[str, ...]:
    """Return a command with the words that attach each file of a vector. The files are in the project directory."""
    files = [(f"{{project_dir}}/{one['name']}", one["media_type"]) for one in vector.attachments]
    words = (word.replace("{file}", file).replace("{media_type}", of) for file, of in files for word in attach)
    return (*command, *words)


def uses(command: Sequence[str], *names: str) -> bool:
    """Return whether a command has at least one of the placeholders."""
    return any(f"{{{name}}}" in argument for argument in command for name in names)


def reason_against(command: Sequence[str], vector: RunnerVector) -> str | None:
    """Return why a vector cannot be played with a command; None if it can."""
    for name in ("timeout_seconds", "idle_seconds"):
        if name in vector.given and not uses(command, name, "profile"):
            return f"the command has no {{{name}}}, so that the limit cannot be given"
    if "config" in vector.given and not uses(command, "config", "profile"):
        return "the command has no {config}, so that the executor cannot be configured"
    for name in ("blueprint", "project_dir"):
        if name in vector.given and not uses(command, name):
            return f"the command has no {{{name}}}"
    return None


def reproduce_line(
    vector: RunnerVector, command: Sequence[str] = (), resume: Sequence[str] = (), attach: Sequence[str] = ()
) -> str:
    """Return a shell command that plays the vector again; without `command` it tests `ao run`."""
    long = ["--long"] if vector.takes_long else []
    resumed = ["--resume", shlex.join(resume)] if vector.resumes and resume else []
    attached = ["--attach", shlex.join(attach)] if vector.attachments and attach else []
    behind = ["--", *command] if command else []
    return shlex.join(["ao", "conformance", "runner", *long, *resumed, *attached, "--only", vector.id, *behind])


@dataclass(frozen=True, slots=True)
class Stage:
    """The folders, values and variables of one play."""

    folder: Path
    """The folder of the executor, with its play, its journal and copies of its output."""
    executor: Path
    home: Path
    project_dir: Path
    secret: str
    values: Mapping[str, str]
    """The values of the placeholders in the command."""
    environment: Mapping[str, str]
    """The environment of the runner."""


def set_stage(vector: RunnerVector, scratch: Path) -> Stage:
    """Write everything that a play needs into an empty folder."""
    folder = scratch / vector.executor.get("folder", "executor")
    home, project_dir, temporary = scratch / "home", scratch / "project", scratch / "tmp"
    for path in (folder, home, temporary):
        path.mkdir()
    _make_project_dir(vector, project_dir)
    executor = folder / "ao-hostile-exec"
    _write_executor(vector, executor)
    secret = f'{secrets.token_hex(12)}/"+\\ &='
    config = vector.given.get("config", {})
    said = {"config": config, "input": vector.given.get("input")}
    profile = {
        "executor": str(executor),
        "limits": _limits(vector),
        **{name: value for name, value in said.items() if value},
    }
    values = {
        "executor": str(executor),
        "blueprint": str(_written(scratch / "blueprint.json", _filled(vector.given.get("blueprint", BLUEPRINT)))),
        "prompt": vector.given.get("prompt", PROMPT),
        "project_dir": str(project_dir),
        "config": str(_written(scratch / "config.json", config)),
        "profile": str(_written(scratch / "profile.json", profile)),
        **{name: str(vector.given.get(name, NO_LIMIT_SECONDS)) for name in ("timeout_seconds", "idle_seconds")},
    }
    environment = {
        **{name: value for name, value in os.environ.items() if not OF_THE_PERSON.match(name)},
        "HOME": str(home),
        "TMPDIR": str(temporary),
        SECRET_NAME: secret,
        **vector.given.get("environment", {}),
    }
    return Stage(folder, executor, home, project_dir, secret, values, environment)


def _make_project_dir(vector: RunnerVector, path: Path) -> None:
    match vector.given.get("project_dir"):
        case "missing":
            pass
        case "file":
            path.touch()
        case _:
            path.mkdir()
            for one in vector.attachments:
                if "text" in one:
                    (path / one["name"]).write_text(one["text"], encoding="utf-8")


def _limits(vector: RunnerVector) -> dict[str, float]:
    return {name: vector.given[name] for name in ("timeout_seconds", "idle_seconds") if name in vector.given}


def _write_executor(vector: RunnerVector, executor: Path) -> None:
    how = vector.executor.get("file", "as_usual")
    if how == "missing":
        return
    description = json.dumps(vector.description)
    steps = copy.deepcopy(vector.executor.get("describe", [{"raw": "${description}\n"}]))
    for step in steps:
        if "raw" in step:
            step["raw"] = step["raw"].replace("${description}", description)
    play = {
        "secret_name": SECRET_NAME,
        "deaf": vector.executor.get("deaf", False),
        "describe": steps,
        "plays": [vector.executor["play"], *vector.executor.get("then", [])],
    }
    _written(executor.parent / "play.json", play)
    # The base interpreter, not that of a virtual environment: it starts faster and is sufficient.
    interpreter = "/no/such/interpreter" if how == "no_interpreter" else os.path.realpath(sys.executable)
    player = (files("ao_conformance.runner_suite") / "player.py").read_text(encoding="utf-8")
    executor.write_text(f"#!{interpreter} -IS\n{player}", encoding="utf-8")
    executor.chmod(0o644 if how == "not_executable" else 0o755)


def _written(path: Path, document: Document) -> Path:
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def _filled(value: Any) -> Any:  # noqa: ANN401  # any JSON
    if isinstance(value, Mapping):
        return {name: _filled(inner) for name, inner in value.items()}
    return LONG_TEXT.sub(lambda found: "x" * int(found[1]), value) if isinstance(value, str) else value
