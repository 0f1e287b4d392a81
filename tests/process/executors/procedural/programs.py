"""A project directory with commands in it, and runs of them."""

from pathlib import Path
from typing import Any

from tests.process.executors.driver import installed, invocation

PROCEDURAL = [installed("ao-procedural-exec")]
ANY_OBJECT = {"type": "object"}


def write_command(folder: Path, name: str, script: str) -> Path:
    """Write an executable shell script."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def start_of(
    folder: Path,
    command: str,
    parameters: dict[str, Any] | None = None,
    *,
    blueprint: dict[str, Any] | None = None,
    **fields: object,
) -> dict[str, object]:
    """Return an invocation of a procedural agent whose project directory is `folder`."""
    agent = {
        "name": "a",
        "type": "procedural",
        "command": command,
        "parameters_schema": ANY_OBJECT,
        **(blueprint or {}),
    }
    return invocation(agent_blueprint=agent, parameters=parameters or {}, project_dir=str(folder), **fields)
