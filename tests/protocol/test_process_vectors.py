"""The process vectors, played at an executor of this project; the wire's rules are checked by the driver."""

import json
import signal
import time
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

from ao_protocol.vector_store import Vector, load_vectors
from tests.executors.driver import ExecutorProcess, installed

ECHO = [installed("ao-echo-exec")]


def perform(executor: ExecutorProcess, action: dict[str, Any]) -> None:
    match action["do"]:
        case "close_stdin":
            executor.close_stdin()
        case "write_line":
            executor.write_line(action["line"])
        case "send_sigterm":
            executor.signal(signal.SIGTERM)


def stdin_of(vector: Vector, project_dir: Path) -> bytes:
    if "stdin_base64" in vector:
        return b64decode(vector["stdin_base64"])
    return json.dumps(vector["invocation"]).replace("${project_dir}", str(project_dir)).encode() + b"\n"


def holds(expected: Any, found: Any) -> bool:
    """Say whether every expected field is there; objects may have others."""
    if isinstance(expected, dict) and isinstance(found, dict):
        return all(name in found and holds(value, found[name]) for name, value in expected.items())
    return bool(expected == found)


def is_in_order(expected: list[str], found: list[str]) -> bool:
    """Say whether event types stand as expected, where `*` stands for any number of others."""
    if not expected:
        return not found
    first, *rest = expected
    if first == "*":
        return any(is_in_order(rest, found[skipped:]) for skipped in range(len(found) + 1))
    return bool(found) and found[0] == first and is_in_order(rest, found[1:])


@pytest.mark.parametrize("vector", load_vectors("process"), ids=lambda vector: vector["id"])
def test_ao_echo_exec_does_what_the_vector_expects(vector: Vector, tmp_path: Path) -> None:
    expect = vector["expect"]
    began = time.monotonic()
    with ExecutorProcess.start(ECHO, cwd=tmp_path) as executor:
        executor.write(stdin_of(vector, tmp_path))
        for action in vector["actions"]:
            if action["at"] != "begin":
                executor.read_until(action["at"].removeprefix("event:"))
            perform(executor, action)
        ended = executor.finish(expect["within_seconds"])
    took_seconds = time.monotonic() - began

    assert ended.exit_code in expect["exit"]
    assert is_in_order(expect.get("events", ["*"]), ended.types)
    assert holds(expect.get("first", {}), ended.events[0])
    assert holds(expect.get("terminal", {}), ended.terminal)
    assert took_seconds < expect["within_seconds"]
