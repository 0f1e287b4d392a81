"""Records which functions of the product the processes of a command call, and in which order.

The processes are started from a virtual environment of its own, whose `.pth` file loads a recorder before the program
begins. So an executor is recorded, too, although its environment is a list of what goes in. A call is a function,
comprehension or lambda that begins or continues, as a coroutine does after an `await`. What an import calls is left
out.
"""

import json
import os
import subprocess
import sys
import sysconfig
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from tests.benchmarks.code_lines import FOLDERS, ROOT

_RECORDER: Final = '''"""Appends a line to a file of this process for each call of a function of the product."""

import inspect
import json
import os
import sys
import threading

FOLDER = {folder!r}
PLACES = {places!r}
START = len({root!r}) + 1


def record(frame, event, _):
    if event != "call":
        return
    code = frame.f_code
    if not code.co_filename.startswith(PLACES) or not code.co_flags & inspect.CO_OPTIMIZED:
        return  # elsewhere, or the body of a module or class
    above = frame.f_back
    while above:
        if above.f_code.co_filename == "<frozen importlib._bootstrap>":
            return
        above = above.f_back
    with open(f"{{FOLDER}}/{{os.getpid()}}", "a") as file:
        if not file.tell():
            file.write(json.dumps(sys.orig_argv) + "\\n")
        file.write(f"{{code.co_filename[START:]}}\\t{{code.co_qualname}}\\n")


threading.setprofile(record)
sys.setprofile(record)
'''


class Call(NamedTuple):
    """A call of a function of the product. The file is relative to the root, such as runner/ao_runner/home.py."""

    file: str
    function: str


@dataclass(frozen=True, slots=True)
class TracedProcess:
    """What one process called, in order."""

    argv: tuple[str, ...]
    """Without the interpreter and its options."""
    calls: tuple[Call, ...]

    def before(self, function: str) -> tuple[Call, ...]:
        """Return the calls before the first of a function, such as StdinWriter.send.

        Raises:
            ValueError: The process did not call it.
        """
        return self.calls[: [call.function for call in self.calls].index(function)]


class TracingEnvironment:
    """A virtual environment in a folder whose Python records what it calls, with the programs of this one."""

    def __init__(self, folder: Path) -> None:
        self.bin = folder / "venv" / "bin"
        self._traces = folder / "traces"
        self._traces.mkdir(parents=True)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True, timeout=100)
        packages = next((folder / "venv" / "lib").glob("python*/site-packages"))
        recorder = _RECORDER.format(
            folder=str(self._traces), root=str(ROOT), places=tuple(f"{ROOT}/{name}/" for name in FOLDERS)
        )
        (packages / "product_recorder.py").write_text(recorder)
        installed = sysconfig.get_path("purelib")
        (packages / "product.pth").write_text(f"import site; site.addsitedir({installed!r}); import product_recorder\n")
        for script in Path(sys.executable).parent.glob("ao*"):
            (self.bin / script.name).write_text(f"#!{self.bin / 'python'}\n" + script.read_text().partition("\n")[2])
            (self.bin / script.name).chmod(0o700)

    def start(self, *argv: str, at: Path, environment: Mapping[str, str]) -> "subprocess.Popen[str]":
        """Start a program of the environment."""
        return subprocess.Popen(
            [self.bin / argv[0], *argv[1:]],
            cwd=at,
            env={**environment, "PATH": f"{self.bin}:{os.environ['PATH']}"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *argv: str, at: Path, environment: Mapping[str, str]) -> str:
        """Run a program of the environment to its end and return its stdout."""
        return finish(self.start(*argv, at=at, environment=environment))

    def take(self, *words: str, count: int | None = None) -> TracedProcess:
        """Return what the process whose arguments begin so called, such as ao, worker; count is that of its arguments.

        Raises:
            LookupError: There was none, or more than one.
        """
        read = [_read(file) for file in self._traces.iterdir()]
        found = [one for one in read if one.argv[: len(words)] == words and count in (None, len(one.argv))]
        if len(found) != 1:
            raise LookupError(f"{len(found)} processes are {' '.join(words)!r}, expected one")
        return found[0]


def finish(process: "subprocess.Popen[str]") -> str:
    """Return the stdout of a process at its end.

    Raises:
        RuntimeError: It failed; the text has its stderr.
    """
    with process:
        try:
            stdout, stderr = process.communicate(timeout=300)
        finally:
            process.kill()
    if process.returncode != 0:
        raise RuntimeError(f"{process.args!r} ended with {process.returncode}: {stderr[-4000:]}")
    return stdout


def _read(file: Path) -> TracedProcess:
    argv, *lines = file.read_text().splitlines()
    words = [word for word in json.loads(argv)[1:] if not word.startswith("-")]
    return TracedProcess((Path(words[0]).name, *words[1:]), tuple(Call(*line.split("\t")) for line in lines))


def files_of(calls: Iterable[Call]) -> list[str]:
    """Return the files that were entered, in the order of their first call."""
    return list(dict.fromkeys(call.file for call in calls))


def moves_of(calls: Sequence[Call]) -> Counter[tuple[str, str]]:
    """Return how often a call in one file was followed by a call in another one."""
    return Counter((one.file, other.file) for one, other in pairwise(calls) if one.file != other.file)
