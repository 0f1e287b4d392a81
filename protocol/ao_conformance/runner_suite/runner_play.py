"""Play one vector: give a hostile executor to the runner's command, and collect the observations."""

import base64
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ao_conformance.driver.leftovers import command_line, temporary_folder
from ao_conformance.driver.process import Process, Start
from ao_conformance.driver.transcript import OutputLine, Transcript
from ao_conformance.runner_suite.stage import RunnerVector, Stage, filled_command, set_stage
from ao_conformance.surroundings import files_with
from ao_conformance.verdict import TranscriptEntry

STOPS: Final = frozenset({"cancel", "eof", "TERM", "INT", "HUP"})
"""The ways to stop a player that it notices."""
NOTED_SECONDS: Final = 2.0
"""How long a process may take to record a signal."""
LOOK_SECONDS: Final = 0.02
PIPES_SECONDS: Final = 3.0
LEFT_SECONDS: Final = 1.0
"""How long after the end of the command a process may still be exiting."""


@dataclass(frozen=True, slots=True)
class Note:
    """An entry of the journal."""

    what: str
    """`describe`, `run`, `invocation`, `prepare`, `control`, `eof`, `signal`, `mark`, `descendant`, `leaves`, …"""
    at: float
    """Seconds of the machine's monotonic clock."""
    pid: int
    fields: dict[str, Any] = field(default_factory=dict)


def read_journal(folder: Path) -> list[Note]:
    """Return the notes so far; empty if the executor was never started."""
    try:
        lines = (folder / "journal.jsonl").read_bytes().splitlines(keepends=True)
    except FileNotFoundError:
        return []
    notes = [json.loads(line) for line in lines if line.endswith(b"\n")]
    return [Note(note.pop("what"), note.pop("at"), note.pop("pid"), note) for note in notes]


def starts_of(notes: Sequence[Note]) -> list[Note]:
    """Return the starts for a run, in order."""
    return [note for note in notes if note.what == "run"]


def invocations_of(notes: Sequence[Note]) -> list[dict[str, Any]]:
    """Return the invocations that the executor received, in order."""
    return [note.fields["line"] for note in notes if note.what == "invocation"]


def answers_of(notes: Sequence[Note]) -> list[dict[str, Any]]:
    """Return the `input_response` and `park` lines that the executor received, in order."""
    lines = [note.fields["line"] for note in notes if note.what == "control"]
    return [line for line in lines if line.get("type") in {"input_response", "park"}]


def stops_of(notes: Sequence[Note]) -> list[tuple[str, float]]:
    """Return the stops that the executor received in its runs: `cancel`, `eof` and signals, with their times."""
    pids = {note.pid for note in starts_of(notes)}
    found = []
    for note in notes:
        name = note.fields["line"].get("type") if note.what == "control" else note.fields.get("name", note.what)
        if note.what in {"control", "signal", "eof"} and name in STOPS and note.pid in pids:
            found.append((str(name), note.at))
    return found


def passed_by(notes: Sequence[Note]) -> list[int]:
    """Return processes that did not receive the SIGTERM that the leader of their group received.

    A leader counts only if it lived on long enough for the others to record the signal. The result is empty if an
    executor sent a signal to itself.
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
    """Return the living processes of a play, by id, with their command lines. Zombies do not count.

    Without /proc (macOS), only processes that recorded something are found.
    """
    if sys.platform != "linux":
        return {note.pid: str(executor) for note in read_journal(executor.parent) if _lives(note.pid)}
    lines = {
        int(entry.name): command_line(int(entry.name)) for entry in Path("/proc").iterdir() if entry.name.isdigit()
    }
    return {pid: line for pid, line in lines.items() if f" -IS {executor}" in line}


def end_players(executor: Path) -> None:
    """Kill the remaining processes of a play."""
    for pid in living_players(executor):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def places_of_secret(stage: Stage, lines: Sequence[OutputLine], stderr: bytes) -> list[str]:
    """Return the places where a form of the secret was found: stdout lines, stderr, and files that the runner kept."""
    needles = forms_of(stage.secret)
    found = []
    for form, needle in needles.items():
        found += [f"stdout, line {line.number} ({form})" for line in lines if needle in line.raw][:1]
        if needle in stderr:
            found.append(f"stderr ({form})")
        for folder in (stage.home, stage.project_dir):
            told = files_with(needle, sorted(folder.rglob("*")))
            found += [f"the file {path.relative_to(folder.parent)} ({form})" for path in told]
    return found


def forms_of(secret: str) -> dict[str, bytes]:
    """Return the bytes to search for, by form.

    The first part of the secret is the same plain, JSON-escaped and percent-encoded. The last character of base64
    depends on the text after the secret, so it is left out.
    """
    encoded = base64.b64encode(secret.encode()).rstrip(b"=")[:-1]
    return {"as it is or escaped": secret.partition("/")[0].encode(), "base64": encoded}


@dataclass(slots=True)
class RunnerPlayResult:
    """The observations of a play."""

    vector: RunnerVector
    began_at: float
    """Seconds of the machine's monotonic clock, as `signalled_at` and the notes."""
    runner_group: int = 0
    signalled_at: float | None = None
    exit_code: int | None = None
    """The exit code; None if the command did not end in time."""
    lines: list[OutputLine] = field(default_factory=list)
    unfinished_line: bytes = b""
    stderr: bytes = b""
    notes: list[Note] = field(default_factory=list)
    project_dir: Path = Path()
    invocation_lines: Sequence[bytes] = ()
    """The invocations as the executor read them, without line ends."""
    said: bytes = b""
    """The stdout of the executor in its first run, or the beginning of a long one."""
    left_behind: Sequence[str] = ()
    secret_found: Sequence[str] = ()
    peak_memory_mib: float | None = None
    """The peak memory of the command's own process; None if the machine does not report it, or no vector needs it."""
    transcript: tuple[TranscriptEntry, ...] = ()


def play(vector: RunnerVector, command: Sequence[str], resume: Sequence[str] = ()) -> RunnerPlayResult:
    """Play a vector with a command, in a temporary folder. Afterwards no folder and no process of the play is left.

    The observations are of the last command: of the resume, if the vector resumes the session.

    Raises:
        OSError: The command cannot be started.
    """
    with temporary_folder("ao-runner-") as scratch:
        stage = set_stage(vector, scratch)
        try:
            commands = [command, resume] if vector.resumes else [command]
            return _perform(vector, [filled_command(each, stage.values) for each in commands], stage)
        finally:
            end_players(stage.executor)


def _perform(vector: RunnerVector, commands: Sequence[Sequence[str]], stage: Stage) -> RunnerPlayResult:
    transcript = Transcript()
    played = RunnerPlayResult(vector, time.monotonic(), project_dir=stage.project_dir)
    *before, argv = commands
    for earlier in before:
        with Process(Start(earlier, stage.folder.parent, stage.environment, "closed"), transcript) as process:
            _follow(process, played, stage)
    with Process(Start(argv, stage.folder.parent, stage.environment, "closed"), transcript) as process:
        played.runner_group = process.pid
        _follow(process, played, stage)
        played.exit_code = process.exit_code
        if process.exit_code is not None:
            process.wait_for(lambda: False, transcript.seconds() + PIPES_SECONDS)
            until = time.monotonic() + LEFT_SECONDS
            while (left := living_players(stage.executor)) and time.monotonic() < until:
                time.sleep(LOOK_SECONDS)
            played.left_behind = [f"{pid}: {line}" for pid, line in left.items()]
        played.lines, played.unfinished_line = process.lines, process.unfinished_line
        played.stderr = process.stderr
    played.notes = read_journal(stage.folder)
    for note in played.notes:
        shown = json.dumps(note.fields) if note.fields else ""
        transcript.note("note", f"{note.at - played.began_at:.3f} s: executor: {note.what} {shown}")
    played.invocation_lines = [path.read_bytes() for path in sorted(stage.folder.glob("invocation-*"))]
    if (copy := stage.folder / "said-0").exists():
        played.said = copy.read_bytes()
    played.secret_found = places_of_secret(stage, played.lines, played.stderr)
    played.transcript = transcript.entries
    return played


def _follow(process: Process, played: RunnerPlayResult, stage: Stage) -> None:
    """Wait for the end of the command, and send the signal at its moment."""
    cancel = played.vector.given.get("cancel")
    until = time.monotonic() + played.vector.within_seconds
    is_measured = any("max_memory_mib" in expected for expected in played.vector.expectations)
    while process.exit_code is None and time.monotonic() < until:
        if cancel and played.signalled_at is None and _is_marked(stage.folder, cancel["at"]):
            played.signalled_at = time.monotonic()
            process.signal(signal.Signals[f"SIG{cancel['signal']}"])
        if is_measured:
            peak = _peak_memory_mib(process.pid)
            played.peak_memory_mib = max(filter(None, (peak, played.peak_memory_mib)), default=None)
        process.wait_for(lambda: process.exit_code is not None, process.transcript.seconds() + LOOK_SECONDS)


def _is_marked(folder: Path, name: str) -> bool:
    return any(note.what == "mark" and note.fields["name"] == name for note in read_journal(folder))


def _peak_memory_mib(pid: int) -> float | None:
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:")), None)
