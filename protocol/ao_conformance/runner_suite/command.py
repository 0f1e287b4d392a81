"""The command of a runner: an argv with placeholders (docs/conformance-runners.md)."""

import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from ao_conformance.runner_suite.vectors import RunnerVector

OUR_OPTIONS: Final = (
    *("run", "{blueprint}", "-p", "{prompt}", "--profile", "{profile}"),
    *("--project-dir", "{project_dir}", "--events", "--verify-results"),
)
PLACEHOLDERS: Final = (
    "executor",
    "blueprint",
    "prompt",
    "project_dir",
    "timeout_seconds",
    "idle_seconds",
    "config",
    "profile",
)
NO_LIMIT_SECONDS: Final = 600
"""What stands for a limit where the vector has none."""


def our_command() -> tuple[str, ...]:
    """Return the command of `ao run`, the runner of this installation."""
    return (str(Path(sysconfig.get_path("scripts")) / "ao"), *OUR_OPTIONS)


def filled_command(command: Sequence[str], values: Mapping[str, str]) -> list[str]:
    """Return the argv of a play. What is in braces and no placeholder stays as it is."""
    argv = []
    for argument in command:
        for name in PLACEHOLDERS:
            argument = argument.replace(f"{{{name}}}", values[name])  # noqa: PLW2901
        argv.append(argument)
    return argv


def uses(command: Sequence[str], *names: str) -> bool:
    """Say whether a command has at least one of the placeholders."""
    return any(f"{{{name}}}" in argument for argument in command for name in names)


def reason_against(command: Sequence[str], vector: RunnerVector) -> str | None:
    """Return why a vector cannot be played with a command, or None where it can."""
    for name in ("timeout_seconds", "idle_seconds"):
        if name in vector.given and not uses(command, name, "profile"):
            return f"the command has no {{{name}}}, so that the limit cannot be given"
    if "config" in vector.given and not uses(command, "config", "profile"):
        return "the command has no {config}, so that the executor cannot be configured"
    for name in ("blueprint", "project_dir"):
        if name in vector.given and not uses(command, name):
            return f"the command has no {{{name}}}"
    return None
