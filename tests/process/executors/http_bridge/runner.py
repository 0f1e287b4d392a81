"""The existing runner as the bridge sees it: a gateway over HTTP, and a process with lines in and answers out."""

import json
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.process.executors.driver import WAIT_SECONDS, bare_environment, installed
from tests.process.executors.http_serving import serving_http

NOBODY_LISTENS: Final = "http://127.0.0.1:1"


@dataclass
class Gateway:
    """What was asked of it, in order, as `(METHOD path, body)`; what it answers to a GET stands in `known`."""

    url: str = ""
    known: dict[str, dict[str, Any]] = field(default_factory=dict)
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    status: int = 200
    answers: threading.Event = field(default_factory=threading.Event)

    @property
    def requests(self) -> list[str]:
        return [request for request, _ in self.calls]

    @property
    def events(self) -> list[dict[str, Any]]:
        """The stored events, without their times."""
        stored = [body for request, body in self.calls if request == "POST /events"]
        return [{name: value for name, value in event.items() if name != "timestamp"} for event in stored]

    def bodies(self, request: str) -> list[dict[str, Any]]:
        return [body for asked, body in self.calls if asked == request]


@contextmanager
def serving() -> Iterator[Gateway]:
    """Serve a gateway; with `answers` cleared it takes requests and leaves them unanswered."""
    gateway = Gateway()
    gateway.answers.set()

    def answer(request: str, _headers: object, body: bytes) -> tuple[int, object]:
        method, path = request.split()
        gateway.calls.append((request, json.loads(body or b"{}")))
        gateway.answers.wait(WAIT_SECONDS)
        is_known = method != "GET" or path in gateway.known
        return gateway.status if is_known else 404, gateway.known.get(path, {})

    with serving_http(answer) as gateway.url:
        try:
            yield gateway
        finally:
            gateway.answers.set()


def older(**fields: object) -> dict[str, object]:
    """Return a 2.2 invocation with the prompt `Hi`; `fields` replace and add."""
    asked = {"schema_version": "2.2", "mode": "start", "session_id": "ses_1", "parameters": {"prompt": "Hi"}}
    return {**asked, **fields}


def turn(prompt: str, **fields: object) -> dict[str, object]:
    return {"type": "turn", "parameters": {"prompt": prompt}, **fields}


def bridge(executor: str, url: str, cwd: Path, env: Mapping[str, str] | None = None) -> "subprocess.Popen[str]":
    """Start the bridge as the runner does."""
    return subprocess.Popen(
        [installed("ao-http-exec"), executor],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env={**bare_environment(), "AGENT_ORCHESTRATOR_API_URL": url, **(env or {})},
    )


def one_shot(
    executor: str, url: str, cwd: Path, *lines: Mapping[str, object], env: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """Write lines, the last without an end, close stdin, and wait for the exit."""
    with bridge(executor, url, cwd, env) as process:
        try:
            stdout, stderr = process.communicate("\n".join(map(json.dumps, lines)), WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)


class Persistent:
    """A bridge that stays; leaving the block kills what is still there."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process

    def __enter__(self) -> "Persistent":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait(WAIT_SECONDS)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()

    def write(self, line: Mapping[str, object]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(line) + "\n")
        self.process.stdin.flush()

    def answer_to(self, line: Mapping[str, object]) -> Any:
        self.write(line)
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def close_stdin(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def wait(self) -> int:
        return self.process.wait(WAIT_SECONDS)

    def stderr_after_the_end(self) -> str:
        assert self.process.stderr is not None
        return self.process.stderr.read()


def as_program(folder: Path, argv: Sequence[str]) -> str:
    """Write a program into `folder` that is `argv`, and return its path."""
    path = folder / "ao-made-exec"
    path.write_text(f'#!/bin/sh\nexec {" ".join(argv)} "$@"\n', encoding="utf-8")
    path.chmod(0o755)
    return str(path)
