"""The folder of a play: the hostile executor with its play, and what the runner is given."""

import copy
import json
import os
import re
import secrets
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from ao_conformance.runner_suite.command import NO_LIMIT_SECONDS
from ao_conformance.runner_suite.vectors import BLUEPRINT, PROMPT, Document, RunnerVector

SECRET_NAME: Final = "AO_CONFORM_SECRET"  # noqa: S105  # the name of a variable
LONG_TEXT: Final = re.compile(r"\$\{text:(\d+)\}")
OF_THE_PERSON: Final = re.compile(r"XDG_|AO_")
"""Variables of whoever runs the suite that would lead a runner to their own files or change how it works."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Where a play happens."""

    folder: Path
    """Of the executor: its play, its journal, copies of what it said."""
    executor: Path
    home: Path
    project_dir: Path
    secret: str
    values: Mapping[str, str]
    """What the placeholders of the command stand for."""
    environment: Mapping[str, str]
    """Of the runner."""


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
    profile = {"executor": str(executor), "limits": _limits(vector), **({"config": config} if config else {})}
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
    # The interpreter itself and not the one of an environment: it starts faster and needs no more.
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
