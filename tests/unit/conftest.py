"""Tests in this folder start no process: `pytest tests/unit` takes seconds and needs no program of the machine."""

import sys
from collections.abc import Iterator
from typing import Any

import pytest

STARTS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "os.system"}
running: set[str] = set()


def refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if running and event in STARTS:
        raise AssertionError(f"{event} in {running}: a test that starts a process belongs into tests/process")


sys.addaudithook(refuse)


@pytest.fixture(autouse=True)
def _no_process(request: pytest.FixtureRequest) -> Iterator[None]:
    running.add(request.node.nodeid)
    yield
    running.discard(request.node.nodeid)
