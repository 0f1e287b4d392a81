"""What a hostile executor noted of what was done to it, and which of its processes still live."""

import contextlib
import json
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

STOPS: Final = frozenset({"cancel", "eof", "TERM", "INT", "HUP"})
"""What a player may notice of being stopped."""
NOTED_SECONDS: Final = 2.0
"""How long a process may take to note a signal."""


@dataclass(frozen=True, slots=True)
class Note:
    """An entry of the journal."""

    what: str
    """`describe`, `run`, `invocation`, `prepare`, `control`, `eof`, `signal`, `mark`, `descendant`, `leaves`, …"""
    at: float
    """By the machine's monotonic clock."""
    pid: int
    fields: dict[str, Any] = field(default_factory=dict)


def read_journal(folder: Path) -> list[Note]:
    """Return the notes so far; none where the executor was never started."""
    try:
        lines = (folder / "journal.jsonl").read_bytes().splitlines(keepends=True)
    except FileNotFoundError:
        return []
    notes = [json.loads(line) for line in lines if line.endswith(b"\n")]
    return [Note(note.pop("what"), note.pop("at"), note.pop("pid"), note) for note in notes]


def starts_of(notes: Sequence[Note]) -> list[Note]:
    """Return the starts for a run, in their order."""
    return [note for note in notes if note.what == "run"]


def invocations_of(notes: Sequence[Note]) -> list[dict[str, Any]]:
    """Return what the executor was given to do, in its order."""
    return [note.fields["line"] for note in notes if note.what == "invocation"]


def stops_of(notes: Sequence[Note]) -> list[tuple[str, float]]:
    """Return how the executor was stopped in its runs: `cancel`, `eof` and signals, with their times."""
    pids = {note.pid for note in starts_of(notes)}
    found = []
    for note in notes:
        name = note.what
        if name == "control":
            name = str(note.fields["line"].get("type"))
        elif name == "signal":
            name = str(note.fields["name"])
        if name in STOPS and note.pid in pids:
            found.append((name, note.at))
    return found


def passed_by(notes: Sequence[Note]) -> list[int]:
    """Return processes that did not get the SIGTERM which the leader of their group got.

    Only where the leader lived on for a while, so that they had the time to note it, and had not sent it itself.
    """
    own = any(note.what == "signals_itself" for note in notes)
    terms = {note.pid: note.at for note in reversed(notes) if note.what == "signal" and note.fields["name"] == "TERM"}
    lived_on = {
        note.fields["group"]
        for note in starts_of(notes)
        if note.pid in terms
        and any(other.pid == note.pid and other.at > terms[note.pid] + NOTED_SECONDS for other in notes)
    }
    return [
        note.pid
        for note in notes
        if note.what == "descendant" and note.fields["group"] in lived_on and not own
        if note.pid not in terms and "TERM" not in note.fields["ignores"]
    ]


def living_players(executor: Path) -> dict[int, str]:
    """Return the processes of a play that live, by id, with their command lines; zombies do not live.

    Without /proc (macOS) only those are seen that noted something.
    """
    if sys.platform != "linux":
        return {note.pid: str(executor) for note in read_journal(executor.parent) if _lives(note.pid)}
    needle = f" -IS {executor}"
    return {pid: line for pid, line in _command_lines() if needle in line}


def end_players(executor: Path) -> None:
    """Kill what is left of a play."""
    for pid in living_players(executor):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _command_lines() -> list[tuple[int, str]]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                found.append((int(entry.name), line))
    return found
