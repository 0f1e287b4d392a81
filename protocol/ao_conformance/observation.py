"""What the player observes: a process that works or waits, and files that changed or hold a secret."""

import contextlib
import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from ao_conformance.driver.leftovers import command_line
from ao_conformance.driver.process import Process
from ao_conformance.model_stand_in import StandIn

SILENCE_SECONDS: Final = 1.0
IDLE_SECONDS: Final = 0.05
"""The CPU time that a process may use in `SILENCE_SECONDS` of waiting; one that polls takes all that it can get."""
IDLE_LOOKS: Final = 4
LOOKS_FOR_SECONDS: Final = 3.0
BETWEEN_LOOKS_SECONDS: Final = 0.005
"""A program that is handed a secret may live for milliseconds only."""
SHARED_FOLDERS: Final = (Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"))  # noqa: S108  # nothing is written there
"""Where programs write that ask neither HOME nor TMPDIR."""
MAX_SEARCHED_BYTES: Final = 32 * 1024 * 1024


def observe(what: str, process: Process, model: StandIn, canary: str) -> Iterator[str]:
    """Look at a process as an action says; yield a sentence about each thing that is wrong."""
    match what:
        case "expect_silence":
            yield from _said_in_silence(process)
        case "expect_idle":
            yield from _used_while_idle(process)
        case "expect_no_model_request":
            if model.requests:
                yield f"the model was asked {model.requests} times"
        case "expect_no_request":
            if model.simulator and (received := model.simulator.all_requests):
                yield f"the provider received {received[0].method} {received[0].path}"
        case "expect_no_secret_in_arguments":
            yield from _secrets_in_arguments(process, canary)


def wait_until_idle(process: Process, looks: int) -> float:
    """Wait for a second without work, so many times at most: importing takes its time on a busy machine.

    Returns:
        The seconds of CPU that it used in the last second; 0 where it is idle, or where the machine does not tell.
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


def _said_in_silence(process: Process) -> Iterator[str]:
    lines = len(process.lines)
    process.pause(SILENCE_SECONDS)
    if len(process.lines) != lines:
        yield f"it wrote {process.lines[lines].raw[:200]!r}"


def _used_while_idle(process: Process) -> Iterator[str]:
    if used := wait_until_idle(process, IDLE_LOOKS):
        yield f"it used {used:.2f} s of CPU in {SILENCE_SECONDS:g} s, {IDLE_LOOKS} times in a row"


def _secrets_in_arguments(process: Process, canary: str) -> Iterator[str]:
    """Look at the arguments of the whole family for as long as it works, a few seconds at most."""
    limit = process.transcript.seconds() + LOOKS_FOR_SECONDS
    while not process.is_over and process.transcript.seconds() < limit:
        shown = next((text for pid in process.family() if canary in (text := command_line(pid))), None)
        if shown is not None:
            yield shown
            return
        process.pause(BETWEEN_LOOKS_SECONDS)


def files_with(needle: bytes, paths: Iterable[Path]) -> list[Path]:
    """Return which of the paths are those of files that hold some bytes."""
    found = []
    for path in paths:
        try:
            if (
                path.is_file()
                and not path.is_symlink()
                and path.stat().st_size <= MAX_SEARCHED_BYTES
                and needle in path.read_bytes()
            ):
                found.append(path)
        except OSError:
            continue
    return found


def shared_files(since: float) -> Iterator[Path]:
    """Yield what was changed since then in the folders that all programs share, and one level below."""
    for folder in SHARED_FOLDERS:
        for path in _changed(folder, since):
            yield path
            yield from _changed(path, since)


def _changed(folder: Path, since: float) -> list[Path]:
    changed = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:  # no folder, not for us, or gone meanwhile
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
