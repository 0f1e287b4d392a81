"""How the tests call `ao`: as a person would, as a process of its own."""

import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tests.process.fork_server import run_ao

MINIATURES = Path(__file__).parents[3] / "miniatures"
SECONDS = 60
NO_VARIABLES: Mapping[str, str] = MappingProxyType({})
NO_STREAMS: Mapping[str, int | None] = MappingProxyType({})


@dataclass(frozen=True)
class Called:
    """What a call wrote and how it left."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def document(self) -> Any:
        return json.loads(self.stdout)


@dataclass(frozen=True)
class Ao:
    """The command line with a home and a working folder of its own."""

    folder: Path

    def __call__(self, *arguments: str, stdin: str | None = None, **variables: str) -> Called:
        environment = self.environment() | variables
        done = run_ao(arguments, cwd=self.folder, env=environment, stdin=stdin, timeout=SECONDS)
        return Called(done.returncode, done.stdout, done.stderr)

    def argv(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "ao_runner", *arguments]

    def environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        return kept | {"AO_HOME": str(self.folder / "ao-home"), "LANG": "C.UTF-8"}

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path


@contextmanager
def at_a_terminal(
    ao: Ao,
    *arguments: str,
    streams: Mapping[str, int | None] = NO_STREAMS,
    starter: Sequence[str] = (),
    columns: int = 80,
    variables: Mapping[str, str] = NO_VARIABLES,
) -> Iterator[tuple["subprocess.Popen[bytes]", int]]:
    """Start `ao` at a terminal, but for `streams`, and give the process and our end of the terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = ao.environment() | {"TERM": "xterm-256color"} | dict(variables)
    ends: Any = {"stdin": theirs, "stdout": theirs, "stderr": theirs} | dict(streams)
    with subprocess.Popen([*starter, *ao.argv(*arguments)], cwd=ao.folder, env=environment, **ends) as process:
        os.close(theirs)
        try:
            yield process, ours
        except BaseException:
            process.kill()
            raise
        finally:
            with suppress(OSError):  # a test may have closed it
                os.close(ours)


def read_until(descriptor: int, mark: bytes | None = None) -> bytes:
    """Return what is written to a terminal until a mark is in it, or until nobody writes there any more."""
    read = b""
    while mark is None or mark not in read:
        assert select.select([descriptor], [], [], SECONDS)[0], read
        try:
            chunk = os.read(descriptor, 65536)
        except OSError:  # Linux says so when the other side is closed
            chunk = b""
        if not chunk:
            assert mark is None, read
            break
        read += chunk
    return read


def miniature(name: str) -> str:
    return str(MINIATURES / f"{name}.py")
