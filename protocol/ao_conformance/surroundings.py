"""The environment of a play, and observations in it: silence, idleness, and places of secrets."""

import contextlib
import hashlib
import os
import shutil
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

from ao_conformance.driver.leftovers import command_line, named_processes
from ao_conformance.driver.process import Process, Start
from ao_conformance.driver.transcript import Transcript
from ao_conformance.model_stand_in import MODEL_URL, StandIn
from ao_conformance.subject import Subject
from ao_conformance.vectors import ProcessVector
from ao_protocol.redaction import NO_SECRETS, Redactor

USUAL: Final = {"USER": "tester", "LOGNAME": "tester", "SHELL": "/bin/sh", "TERM": "dumb"}
"""Variables that most systems set. A separate vector tests that an executor works without them."""
SILENCE_SECONDS: Final = 1.0
IDLE_SECONDS: Final = 0.05
"""The CPU seconds that an idle process may use in `SILENCE_SECONDS`; one that polls uses many more."""
IDLE_LOOKS: Final = 4
LOOKS_FOR_SECONDS: Final = 3.0
BETWEEN_LOOKS_SECONDS: Final = 0.005
"""Short, because a program that gets a secret may live for milliseconds only."""
SHARED_FOLDERS: Final = (Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"))  # noqa: S108  # searched, never written
"""Folders of programs that use neither HOME nor TMPDIR."""
MAX_SEARCHED_BYTES: Final = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The parts of the environment that are the same for every play with one executable."""

    subject: Subject
    redactor: Redactor = NO_SECRETS
    """It removes the secrets of the tester from what is kept of a play."""
    stop: threading.Event = field(default_factory=threading.Event)
    """A flag that ends every play when it is set."""
    began_clock: float = field(default_factory=time.time)
    """When the suite began, in seconds since 1970, as the times of files."""

    def environment(self, vector: ProcessVector, scratch: Path, model: StandIn) -> dict[str, str]:
        """Return the variables of a process: those that SPEC 10 grants, the vector's own, and the model's address."""
        granted = self.plain_environment(scratch)
        if vector.source.get("hermetic"):
            return granted
        if not vector.source.get("bare_environment"):
            granted = granted | USUAL
        # A token beside the key could change how a client authenticates, so with a model only its key is set.
        named = [] if model.simulator else self.subject.names_of("secrets")
        secrets = {name: self.subject.secret_of(name) for name in named}
        added = {
            (model.url_variable or name) if name == MODEL_URL else name: value
            for name, value in vector.source.get("environment", {}).items()
        }
        return {**granted, **secrets, **model.environment, **self.subject.environment, **added}

    def plain_environment(self, scratch: Path) -> dict[str, str]:
        """Return the variables that every executor gets, and create its HOME and its TMPDIR."""
        home, temporary = scratch / "home", scratch / "tmp"
        home.mkdir()
        temporary.mkdir()
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "TMPDIR": str(temporary),
        }

    def survivors(self, process: Process) -> list[str]:
        """Return the processes that outlive a process that has exited, as `pid: command line`."""
        return named_processes(lambda: [pid for pid in process.family() if pid != process.pid])

    def secrets_told(self, process: Process, environment: Mapping[str, str], scratch: Path) -> list[str]:
        """Return the places where the value of a secret variable was found: stdout, stderr or files."""
        canary = self.subject.canary.encode()
        if not any(self.subject.canary in value for value in environment.values()):
            return []
        found = [f"stdout, line {line.number}" for line in process.lines if canary in line.raw][:1]
        if canary in process.stderr:
            found.append("stderr")
        found += [f"the file {path.relative_to(scratch)}" for path in files_with(canary, sorted(scratch.rglob("*")))]
        return found + [f"the file {path}" for path in files_with(canary, shared_files(self.began_clock))]


def hermetic_command(command: Sequence[str]) -> list[str]:
    """Return a command that runs without a network, if the machine can take the network away."""
    return [*_without_network(), *command]


@cache
def _without_network() -> tuple[str, ...]:
    unshare = shutil.which("unshare")
    if unshare is None:
        return ()
    for options in (("--net",), ("--user", "--map-root-user", "--net")):
        if _works([unshare, *options, "true"]):
            return (unshare, *options)
    return ()


def _works(command: Sequence[str]) -> bool:
    with Process(Start(command, Path.cwd(), os.environ, "closed"), Transcript()) as process:
        process.wait_for(lambda: process.exit_code is not None, 5.0)
        return process.exit_code == 0


def observe(what: str, process: Process, model: StandIn, canary: str) -> Iterator[str]:
    """Check a process as an action demands; yield a sentence about each problem."""
    match what:
        case "expect_silence":
            lines = len(process.lines)
            process.pause(SILENCE_SECONDS)
            if len(process.lines) != lines:
                yield f"it wrote {process.lines[lines].raw[:200]!r}"
        case "expect_idle":
            if used := wait_until_idle(process, IDLE_LOOKS):
                yield f"it used {used:.2f} s of CPU in {SILENCE_SECONDS:g} s, {IDLE_LOOKS} times in a row"
        case "expect_no_model_request":
            if model.requests:
                yield f"the model was asked {model.requests} times"
        case "expect_no_request":
            if model.simulator and (received := model.simulator.all_requests):
                yield f"the provider received {received[0].method} {received[0].path}"
        case "expect_no_secret_in_arguments":
            yield from _secrets_in_arguments(process, canary)


def wait_until_idle(process: Process, looks: int) -> float:
    """Wait for a second without work, at most `looks` times: imports are slow on a busy machine.

    Returns:
        The CPU time of the last second, in seconds; 0 if the process is idle or the machine does not report it.
    """
    used = 0.0
    for _ in range(looks):
        before = process.cpu_seconds()
        process.pause(SILENCE_SECONDS)
        after = process.cpu_seconds()
        if before is None or after is None or after - before <= IDLE_SECONDS:
            return 0.0
        used = after - before
    return used


def _secrets_in_arguments(process: Process, canary: str) -> Iterator[str]:
    """Yield the first command line of the family that contains a secret; look until it ends, a few seconds at most."""
    limit = process.transcript.seconds() + LOOKS_FOR_SECONDS
    while not process.is_over and process.transcript.seconds() < limit:
        shown = next((text for pid in process.family() if canary in (text := command_line(pid))), None)
        if shown is not None:
            yield shown
            return
        process.pause(BETWEEN_LOOKS_SECONDS)


def files_with(needle: bytes, paths: Iterable[Path]) -> list[Path]:
    """Return the paths of files that contain some bytes."""
    found = []
    for path in paths:
        with contextlib.suppress(OSError):
            is_own = path.is_file() and not path.is_symlink() and path.stat().st_size <= MAX_SEARCHED_BYTES
            if is_own and needle in path.read_bytes():
                found.append(path)
    return found


def shared_files(since: float) -> Iterator[Path]:
    """Yield what was changed since then in the folders that all programs share, and one level below."""
    for folder in SHARED_FOLDERS:
        for path in _changed(folder, since):
            yield path
            yield from _changed(path, since)


def _changed(folder: Path, since: float) -> list[Path]:
    changed = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:  # not a folder, not readable, or gone meanwhile
        for entry in entries:
            with contextlib.suppress(OSError):
                if entry.stat(follow_symlinks=False).st_mtime >= since:
                    changed.append(Path(entry.path))
    return changed


def snapshot(folder: Path) -> dict[str, str]:
    """Return a digest of every file below a folder, by its relative path."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "other"
        for path in sorted(folder.rglob("*"))
        if not path.is_dir()
    }
