"""A model simulator for a run: it is started before the run, configured as its model, and ended after it."""

import json
import selectors
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final

from ao_runner.errors import RunnerError
from ao_runner.home import private_folder
from ao_runner.processes.spawn import Child, Tail, read_available
from ao_runner.runs.run_request import Simulation, bare_environment

START_SECONDS: Final = 20.0
END_SECONDS: Final = 5.0
MAX_REPORT_BYTES: Final = 64 * 1024
MAX_SCRIPT_BYTES: Final = 8 * 1024 * 1024
HOME_NAME: Final = "model-script-home"
"""Replaces the user's home, to exclude their login; it is kept, so that a resume finds the session."""


class SimulatorFailed(RunnerError):
    """The simulator did not start."""

    def __init__(self, script: Path, report: str) -> None:
        super().__init__(f"the model script {script} cannot be played: {report or 'the simulator gave no reason'}")


@dataclass
class RunningSimulator:
    """A simulator process. Its complaints are available after its end."""

    simulation: Simulation
    report: str = ""


@contextmanager
def play_model_script(script: Path, home: Path, environ: Mapping[str, str]) -> Iterator[RunningSimulator]:
    """Run the simulator inside the `with` block. `home` is the store's folder.

    After the block, `report` lists the requests that the script did not expect; it is empty if there were none.

    Raises:
        SimulatorFailed: The script is invalid, or the simulator does not start.
    """
    stand_in = private_folder(home, HOME_NAME)
    argv = [sys.executable, "-P", "-m", "ao_model_simulator", str(script), "--exit-with-stdin"]
    with Child(argv, bare_environment(environ)) as child:
        announcement, stderr = _read_until(child, b"\n", START_SECONDS)
        if b"\n" not in announcement:
            raise SimulatorFailed(script, stderr.strip())
        ready = json.loads(announcement)
        running = RunningSimulator(Simulation(ready["url"], stand_in, ready["base_urls"]))
        yield running
        child.stdin.close()
        _, stderr = _read_until(child, None, END_SECONDS)
        if child.reap(END_SECONDS) != 0:
            running.report = stderr.strip()


def read_model_script(script: Path, environ: Mapping[str, str]) -> str:
    """Return a script as one line of JSON that refers to no other file.

    Raises:
        SimulatorFailed: The script is invalid or too large.
    """
    argv = [sys.executable, "-P", "-m", "ao_model_simulator", str(script), "--print"]
    with Child(argv, bare_environment(environ)) as child:
        stdout, stderr = _read_until(child, None, START_SECONDS, MAX_SCRIPT_BYTES)
        if child.reap(END_SECONDS) != 0 or not stdout.endswith(b"}\n"):
            raise SimulatorFailed(script, stderr.strip())
    if len(stdout) >= MAX_SCRIPT_BYTES:
        raise SimulatorFailed(script, f"it is larger than {MAX_SCRIPT_BYTES} bytes, the most that is stored")
    return stdout.decode().strip()


@contextmanager
def play_stored_script(script: str, home: Path, environ: Mapping[str, str]) -> Iterator[RunningSimulator]:
    """Run the simulator with a script that `read_model_script` returned; see `play_model_script`.

    Raises:
        SimulatorFailed: The simulator does not start.
        OSError: There is no space for the script, or no process for the simulator.
    """
    with ExitStack() as playing:
        with NamedTemporaryFile("w", encoding="utf-8", prefix="ao-", suffix=".json") as file:
            file.write(script)
            file.flush()
            running = playing.enter_context(play_model_script(Path(file.name), home, environ))
        yield running


def _read_until(
    child: Child, mark: bytes | None, timeout_seconds: float, max_bytes: int = MAX_REPORT_BYTES
) -> tuple[bytes, str]:
    """Read both streams until stdout contains the mark, or both end, or the timeout expires."""
    stdout, stderr = Tail(max_bytes), Tail(MAX_REPORT_BYTES)
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
