"""One play: a hostile executor is given to the runner's command, and everything that shows is collected."""

import json
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ao_conformance.driver.process import Process
from ao_conformance.driver.starting import Start
from ao_conformance.driver.temporary_folder import temporary_folder
from ao_conformance.driver.transcript import OutputLine, Transcript
from ao_conformance.runner_suite.command import filled_command
from ao_conformance.runner_suite.journal import Note, end_players, living_players, read_journal
from ao_conformance.runner_suite.secrets_found import places_of_secret
from ao_conformance.runner_suite.stage import Stage, set_stage
from ao_conformance.runner_suite.vectors import RunnerVector
from ao_conformance.verdict import TranscriptEntry

LOOK_SECONDS: Final = 0.02
PIPES_SECONDS: Final = 3.0
LEFT_SECONDS: Final = 1.0
"""How long after the end of the command a process may still be on its way out."""


@dataclass(slots=True)
class Played:
    """What a play showed."""

    vector: RunnerVector
    began_at: float
    """By the machine's monotonic clock, as the other moments."""
    runner_group: int = 0
    signalled_at: float | None = None
    exit_code: int | None = None
    """None where the command had not ended in time."""
    lines: list[OutputLine] = field(default_factory=list)
    unfinished_line: bytes = b""
    stderr: bytes = b""
    notes: list[Note] = field(default_factory=list)
    project_dir: Path = Path()
    invocation_lines: Sequence[bytes] = ()
    """As the executor read them, without the line ends."""
    said: bytes = b""
    """What the executor wrote on stdout in its first run; the beginning of it where that is much."""
    left_behind: Sequence[str] = ()
    secret_found: Sequence[str] = ()
    peak_memory_mib: float | None = None
    """Of the command's own process; None where the machine does not tell, or no vector asks."""
    transcript: tuple[TranscriptEntry, ...] = ()


def play(vector: RunnerVector, command: Sequence[str], resume: Sequence[str] = ()) -> Played:
    """Play a vector at a command, in a folder that is gone afterwards, with all processes of the play.

    What the last command prints is what shows: that of the resume, where the vector resumes the session.

    Raises:
        OSError: the command cannot be started.
    """
    with temporary_folder("ao-runner-") as scratch:
        stage = set_stage(vector, scratch)
        try:
            commands = [command, resume] if vector.resumes else [command]
            return _perform(vector, [filled_command(each, stage.values) for each in commands], stage)
        finally:
            end_players(stage.executor)


def _perform(vector: RunnerVector, commands: Sequence[Sequence[str]], stage: Stage) -> Played:
    transcript = Transcript()
    played = Played(vector, time.monotonic(), project_dir=stage.project_dir)
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
            played.left_behind = _left_behind(stage)
        played.lines, played.unfinished_line = process.lines, process.unfinished_line
        played.stderr = process.stderr
    played.notes = read_journal(stage.folder)
    for note in played.notes:
        transcript.note("note", f"{note.at - played.began_at:.3f} s: executor: {note.what} {_shown(note)}")
    played.invocation_lines = [path.read_bytes() for path in sorted(stage.folder.glob("invocation-*"))]
    if (copy := stage.folder / "said-0").exists():
        played.said = copy.read_bytes()
    played.secret_found = places_of_secret(stage, played.lines, played.stderr)
    played.transcript = transcript.entries
    return played


def _follow(process: Process, played: Played, stage: Stage) -> None:
    """Wait for the end of the command; send the signal at its moment."""
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


def _left_behind(stage: Stage) -> list[str]:
    until = time.monotonic() + LEFT_SECONDS
    while (left := living_players(stage.executor)) and time.monotonic() < until:
        time.sleep(LOOK_SECONDS)
    return [f"{pid}: {line}" for pid, line in left.items()]


def _shown(note: Note) -> str:
    return json.dumps(note.fields) if note.fields else ""
