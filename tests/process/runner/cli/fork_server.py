"""Calls `ao` many times without importing it many times: a process that has imported it, and forks for each call.

What runs is the real command in a real process with descriptors, environment and folder of its own; only the imports,
half of the time of a short call, are done once. Run as a program it is the server: its stdin is the socket.
"""

import importlib
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

_IMPORTED: Final = ("ao_runner.cli", "ao_runner.runs", "ao_runner.store", "ao_runner.blueprints", "ao_runner.processes")
_MAX_REQUEST_BYTES: Final = 4 * 1024 * 1024
_ROOT: Final = Path(__file__).parents[4]


def run_forked(
    argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], stdin: str | None, timeout: float
) -> "subprocess.CompletedProcess[str]":
    """Run `ao` with arguments, as `subprocess.run` with `capture_output` and `text` does.

    Raises:
        subprocess.TimeoutExpired: it has not ended in time; it is killed.
    """
    given, taken = os.pipe()
    pipes = [os.pipe() for _ in range(3)]  # stdout, stderr, and the exit status
    request = json.dumps({"argv": list(argv), "cwd": str(cwd), "env": dict(env), "has_stdin": stdin is not None})
    _server().send(request, [given, *(writing for _, writing in pipes)])
    for descriptor in (given, *(writing for _, writing in pipes)):
        os.close(descriptor)
    read: list[bytes] = [b"", b"", b""]

    def drain(number: int) -> None:
        with os.fdopen(pipes[number][0], "rb") as stream:
            read[number] = stream.read()

    def feed() -> None:
        with os.fdopen(taken, "wb") as stream:
            try:
                stream.write((stdin or "").encode())
                stream.flush()
            except BrokenPipeError:
                pass  # as for a process that does not read: its own matter

    threads = [threading.Thread(target=drain, args=(number,)) for number in range(3)]
    threads.append(threading.Thread(target=feed))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout)
    if any(thread.is_alive() for thread in threads):
        _server().kill()
        raise subprocess.TimeoutExpired(list(argv), timeout, read[0], read[1])
    return subprocess.CompletedProcess(list(argv), int(read[2]), read[0].decode(), read[1].decode())


class _Server:
    """The process that forks. It ends with this one, which holds the other end of its stdin."""

    def __init__(self) -> None:
        self._here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._here.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _MAX_REQUEST_BYTES)
        environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=there.fileno(), cwd=_ROOT, env={**environment, "LANG": "C.UTF-8"}
        )
        there.close()

    def send(self, request: str, descriptors: list[int]) -> None:
        socket.send_fds(self._here, [request.encode()], descriptors)

    def kill(self) -> None:
        self._process.kill()
        _server.cache_clear()


@cache
def _server() -> _Server:
    return _Server()


def serve() -> None:
    """Fork for each request, until the other end of the socket is closed."""
    for package in _IMPORTED:
        for module in pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}."):
            importlib.import_module(module.name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    here = socket.socket(fileno=os.dup(0))
    while True:
        request, descriptors, _, _ = socket.recv_fds(here, _MAX_REQUEST_BYTES, 4)
        if not request:
            return
        if os.fork() == 0:
            here.close()
            _call(json.loads(request), *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _call(request: Mapping[str, Any], stdin: int, stdout: int, stderr: int, status: int) -> None:
    """Run a call in a child, and tell how it ended; its own parent does not wait for it."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if pid:
        for descriptor in (0, stdin, stdout, stderr):
            os.close(descriptor)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        os.write(status, str(code).encode())
        os._exit(0)
    os.close(status)
    for number, descriptor in enumerate((stdin, stdout, stderr)):
        os.dup2(descriptor, number)
        os.close(descriptor)
    if not request["has_stdin"]:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os._exit(_perform(request))


def _perform(request: Mapping[str, Any]) -> int:
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.stdin, sys.stdout, sys.stderr = (
        os.fdopen(0, "r", encoding="utf-8", closefd=False),
        os.fdopen(1, "w", encoding="utf-8", closefd=False),
        os.fdopen(2, "w", encoding="utf-8", buffering=1, closefd=False),
    )
    from ao_runner import cli

    sys.argv = [str(Path(cli.__file__).parents[2] / "__main__.py"), *request["argv"]]
    code: Any = 0
    try:
        cli.main()
    except SystemExit as left:
        code = left.code
    except BaseException:  # noqa: BLE001  # what Python does with it at the end of a program
        traceback.print_exc()
        code = 1
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    if isinstance(code, str):
        os.write(2, f"{code}\n".encode())
        return 1
    return int(code or 0)


if __name__ == "__main__":
    serve()
