"""Starts our programs many times without importing them many times: a process has imported one, and forks for each.

What runs is the real program in a real process with descriptors, environment and folder of its own; only the imports,
most of the time of a short call, are done once. Run as a program it is the server: its stdin is the socket.
"""

import atexit
import gc
import importlib
import inspect
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import threading
import tomllib
import traceback
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

_IMPORTED: Final = {
    "ao_runner.cli": (
        "ao_protocol",
        "ao_protocol.contracts",
        "ao_runner.cli",
        "ao_runner.runs",
        "ao_runner.store",
        "ao_runner.blueprints",
        "ao_runner.processes",
    ),
    "ao_executors.acp.acp_executors": ("ao_executors.acp", "ao_protocol.contracts"),
    "ao_executors.claude_code.claude_executor": ("ao_executors.claude_code", "ao_protocol.contracts"),
    "ao_executors.codex.codex_executor": ("ao_executors.codex", "ao_protocol.contracts"),
}
"""By the module of a program: the packages whose modules it imports late."""
_MAX_REQUEST_BYTES: Final = 4 * 1024 * 1024
_PID_BYTES: Final = 10
_OF_INTERPRETERS: Final = ("PYTHON", "LD_")
"""The variables that an interpreter reads when it starts begin so."""
_ROOT: Final = Path(__file__).parents[2]
_BY_NAME: Final = inspect.signature(subprocess.Popen._execute_child)  # type: ignore[attr-defined]
"""The names of what `Popen` passes by position."""


def run_ao(
    argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], stdin: str | None, timeout: float
) -> "subprocess.CompletedProcess[str]":
    """Run `ao` with arguments, as `subprocess.run` with `capture_output` and `text` does.

    Raises:
        subprocess.TimeoutExpired: it has not ended in time; it is killed.
    """
    given, pipe = subprocess.DEVNULL if stdin is None else subprocess.PIPE, subprocess.PIPE
    with start_ao(argv, cwd=cwd, env=env, stdin=given, stdout=pipe, stderr=pipe, encoding="utf-8") as process:
        try:
            stdout, stderr = process.communicate(stdin, timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(list(argv), process.returncode, stdout, stderr)


def start_ao(arguments: Sequence[str], *, env: Mapping[str, str], **options: Any) -> "subprocess.Popen[Any]":
    """Start `ao` as `subprocess.Popen` does."""
    return start_program([str(Path(sys.executable).with_name("ao")), *arguments], env=env, **options)


def start_program(argv: Sequence[str], *, env: Mapping[str, str], **options: Any) -> "subprocess.Popen[Any]":
    """Start a program as `subprocess.Popen` does: forked if it is one of ours, and needs no interpreter of its own."""
    path = Path(argv[0])
    is_ours = path.name in _programs() and path.parent == Path(sys.executable).parent
    usual = {**os.environ, "PYTHONUNBUFFERED": env.get("PYTHONUNBUFFERED")}
    own = [name for name in env if name.startswith(_OF_INTERPRETERS) and env[name] != usual.get(name)]
    if not is_ours or own or options.get("preexec_fn") or options.get("pass_fds"):
        return subprocess.Popen(argv, env=env, **options)
    return _Forked(argv, env=env, **options)


@cache
def _programs() -> dict[str, str]:
    """Return the function of each program as `module:function`."""
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return dict(project["scripts"])


class _Forked(subprocess.Popen[Any]):
    """A program that is forked. It is no child of this process."""

    def _execute_child(self, *given: Any) -> None:
        asked = _BY_NAME.bind(self, *given).arguments
        argv, stdin, stdout, stderr = asked["args"], asked["p2cread"], asked["c2pwrite"], asked["errwrite"]
        program, cwd = _programs()[Path(argv[0]).name], str(asked["cwd"] or Path.cwd())
        request = {"argv": list(argv), "cwd": cwd, "env": dict(asked["env"]), "program": program}
        request["new_session"] = asked["start_new_session"]
        self._status, told = socket.socketpair()
        theirs = [own if given == -1 else given for own, given in enumerate((stdin, stdout, stderr))]
        _server(program).send(json.dumps(request), [*theirs, told.fileno()])
        passed = ((asked["p2cwrite"], stdin), (asked["c2pread"], stdout), (asked["errread"], stderr))
        devnull = [self._devnull] if hasattr(self, "_devnull") else []
        told.close()
        for descriptor in (*devnull, *(end for ours, end in passed if ours != -1)):
            os.close(descriptor)
        self.pid = int(self._status.recv(_PID_BYTES))
        self._child_created = True

    def _internal_poll(self, _deadstate: int | None = None) -> int | None:
        return self._ended_within(0)

    def _wait(self, timeout: float | None) -> int:
        if self._ended_within(None if timeout is None else timeout * 1000) is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        assert self.returncode is not None
        return self.returncode

    def _ended_within(self, milliseconds: float | None) -> int | None:
        if self.returncode is None:
            waiting = select.poll()
            waiting.register(self._status, select.POLLIN)
            if waiting.poll(milliseconds):
                self.returncode = int(self._status.recv(64))
                self._status.shutdown(socket.SHUT_WR)
                self._status.recv(1)
                self._status.close()
        return self.returncode


class _Server:
    """The process that forks. It ends with this one, which holds the other end of its stdin."""

    def __init__(self, program: str) -> None:
        self._here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._here.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _MAX_REQUEST_BYTES)
        kept = {name: text for name, text in os.environ.items() if name.startswith(("PATH", "HOME", *_OF_INTERPRETERS))}
        argv = [sys.executable, "-P", __file__, program.partition(":")[0]]
        self._process = subprocess.Popen(argv, stdin=there.fileno(), cwd=_ROOT, env={**kept, "LANG": "C.UTF-8"})
        there.close()

    def send(self, request: str, descriptors: list[int]) -> None:
        socket.send_fds(self._here, [request.encode()], descriptors)


@cache
def _server(program: str) -> _Server:
    return _Server(program)


def serve(module_of_program: str) -> None:
    """Fork for each request, until the other end of the socket is closed."""
    importlib.import_module(module_of_program)
    for package in _IMPORTED.get(module_of_program, ()):
        for module in pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}."):
            importlib.import_module(module.name)
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    here = socket.socket(fileno=os.dup(0))
    while True:
        request, descriptors, _, _ = socket.recv_fds(here, _MAX_REQUEST_BYTES, 4)
        if not request:
            return
        asked = json.loads(request)
        if asked["argv"][1:2] == ["serve"]:
            importlib.import_module("ao_server.application")
        if os.fork() == 0:
            here.close()
            _call(asked, *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _call(request: Mapping[str, Any], stdin: int, stdout: int, stderr: int, status: int) -> None:
    """Run a call in a child, and tell how it ended; its own parent does not wait for it."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if pid:
        for descriptor in (0, stdin, stdout, stderr):
            os.close(descriptor)
        ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        assert ended is not None
        code = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
        os.write(status, str(code).encode())
        os.read(status, 1)  # the end: who started it has taken notice, until which its id is its own
        os.waitpid(pid, 0)
        os._exit(0)
    if request["new_session"]:
        os.setsid()
    os.write(status, f"{os.getpid():{_PID_BYTES}}".encode())
    os.close(status)
    for number, descriptor in enumerate((stdin, stdout, stderr)):
        os.dup2(descriptor, number)
        os.close(descriptor)
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
    if "PYTHONUNBUFFERED" in os.environ:
        sys.stdout.reconfigure(write_through=True)
    module, _, function = request["program"].partition(":")
    sys.argv = request["argv"]
    code: Any = 0
    try:
        code = getattr(importlib.import_module(module), function)()
    except SystemExit as left:
        code = left.code
    except BaseException:  # noqa: BLE001  # what Python does with it at the end of a program
        traceback.print_exc()
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]  # as at the end of a program
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    if isinstance(code, str):
        os.write(2, f"{code}\n".encode())
        return 1
    return int(code or 0)


if __name__ == "__main__":
    serve(sys.argv[1])
