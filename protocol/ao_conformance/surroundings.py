"""What a play happens in: environment, folders, network; and what is to be found there afterwards."""

import os
import shutil
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

from ao_conformance.driver.leftovers import named_processes
from ao_conformance.driver.process import Process
from ao_conformance.model_stand_in import MODEL_URL, StandIn
from ao_conformance.observation import files_with, shared_files
from ao_conformance.subject import Subject
from ao_conformance.vectors import ProcessVector

USUAL: Final = {"USER": "tester", "LOGNAME": "tester", "SHELL": "/bin/sh", "TERM": "dumb"}
"""What is there in most places: that an executor works without is tested by itself."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The same for every play at one executable."""

    subject: Subject
    stop: threading.Event = field(default_factory=threading.Event)
    """Set, it ends every play."""
    began_clock: float = field(default_factory=time.time)
    """By the machine's clock, as that of files."""

    def environment(self, vector: ProcessVector, scratch: Path, model: StandIn) -> dict[str, str]:
        """Return the variables of a process: what SPEC 10 grants, what the vector adds, where the model is."""
        granted = self.plain_environment(scratch)
        if vector.source.get("hermetic"):
            return granted
        if not vector.source.get("bare_environment"):
            granted = granted | USUAL
        # A token beside the key could change how a client authenticates: where there is a model, only its key is set.
        named = [] if model.simulator else self.subject.names_of("secrets")
        secrets = {name: self.subject.secret_of(name) for name in named}
        added = {
            (model.url_variable or name) if name == MODEL_URL else name: value
            for name, value in vector.source.get("environment", {}).items()
        }
        return {**granted, **secrets, **model.environment, **self.subject.environment, **added}

    def plain_environment(self, scratch: Path) -> dict[str, str]:
        """Return what every executor gets, with a HOME and a TMPDIR of its own that are made here."""
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
        """Return the processes that are left of one that has exited, as `pid: command line`."""
        return named_processes(lambda: [pid for pid in process.family() if pid != process.pid])

    def secrets_told(self, process: Process, environment: Mapping[str, str], scratch: Path) -> list[str]:
        """Return where the value of a secret variable was found: stdout, stderr or files."""
        found: list[str] = []
        canary = self.subject.canary.encode()
        if not any(self.subject.canary in value for value in environment.values()):
            return found
        for line in process.lines:
            if canary in line.raw:
                found.append(f"stdout, line {line.number}")
                break
        if canary in process.stderr:
            found.append("stderr")
        found += [f"the file {path.relative_to(scratch)}" for path in files_with(canary, sorted(scratch.rglob("*")))]
        return found + [f"the file {path}" for path in files_with(canary, shared_files(self.began_clock))]


def hermetic_command(command: Sequence[str]) -> list[str]:
    """Return a command that runs the same without a network, where the machine can take it away."""
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


def _works(command: list[str]) -> bool:
    from ao_conformance.driver.process import Start
    from ao_conformance.driver.transcript import Transcript

    transcript = Transcript()
    with Process(Start(command, Path.cwd(), dict(os.environ), "closed"), transcript) as process:
        process.wait_for(lambda: process.exit_code is not None, 5.0)
        return process.exit_code == 0
