"""A model simulator beside a run: started before it, pointed at, ended after it."""

import json
import selectors
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ao_runner.errors import RunnerError
from ao_runner.home import private_folder
from ao_runner.processes.spawn import Child, Tail, read_available
from ao_runner.runs.environment import Simulation, bare_environment

START_SECONDS: Final = 20.0
END_SECONDS: Final = 5.0
MAX_REPORT_BYTES: Final = 64 * 1024
HOME_NAME: Final = "model-script-home"
"""Stands in for the person's home, so that their login stays out; it is kept, so that a resume finds the session."""


@dataclass(eq=False)
class SimulatorFailed(RunnerError):
    """The simulator did not start."""

    script: Path
    report: str

    def __str__(self) -> str:
        return f"the model script {self.script} cannot be played: {self.report or 'the simulator gave no reason'}"


class RunningSimulator:
    """A simulator process. What it complains about is known after its end."""

    def __init__(self, child: Child, simulation: Simulation) -> None:
        self.child = child
        self.simulation = simulation
        self.report = ""


@contextmanager
def play_model_script(script: Path, home: Path, environ: Mapping[str, str]) -> Iterator[RunningSimulator]:
    """Run the simulator inside the `with` block. `home` is the store's folder.

    After the block, `report` says which requests the script did not expect; it is empty when all went to plan.

    Raises:
        SimulatorFailed: the script is wrong, or the simulator does not start.
    """
    stand_in = private_folder(home, HOME_NAME)
    argv = [sys.executable, "-m", "ao_conformance.model_sim", str(script), "--exit-with-stdin"]
    with Child(argv, bare_environment(environ)) as child:
        announcement, stderr = _read_until(child, b"\n", START_SECONDS)
        if b"\n" not in announcement:
            raise SimulatorFailed(script, stderr.strip())
        ready = json.loads(announcement)
        running = RunningSimulator(child, Simulation(ready["url"], stand_in, ready["base_urls"]))
        yield running
        child.stdin.close()
        _, stderr = _read_until(child, None, END_SECONDS)
        if child.reap(END_SECONDS) != 0:
            running.report = stderr.strip()


def _read_until(child: Child, mark: bytes | None, timeout_seconds: float) -> tuple[bytes, str]:
    """Read both streams until the mark stands in stdout, or both end, or the time is up."""
    stdout, stderr = Tail(MAX_REPORT_BYTES), Tail(MAX_REPORT_BYTES)
    streams = {child.stdout_fd: stdout, child.stderr_fd: stderr}
    ends_at = time.monotonic() + timeout_seconds
    with selectors.DefaultSelector() as selector:
        for fd in streams:
            selector.register(fd, selectors.EVENT_READ)
        while streams and (left := ends_at - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                if chunk := read_available(key.fd):
                    streams[key.fd].feed(chunk)
                elif chunk is not None:
                    selector.unregister(key.fd)
                    del streams[key.fd]
            if mark is not None and mark in stdout.kept():
                break
    return stdout.kept(), stderr.text()
