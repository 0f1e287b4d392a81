"""Writing the questions to a codec while reading what it answers. It knows neither what is asked nor what is right."""

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ao_conformance.driver.leftovers import end_processes
from ao_conformance.driver.process import Process
from ao_conformance.driver.starting import Start
from ao_conformance.driver.transcript import OutputLine, Transcript

LINGER_SECONDS: Final = 1.0
"""How long a codec is listened to after as many lines as there are questions, where it does not end."""
MAX_OUTPUT_BYTES: Final = 16 * 1024 * 1024
SPARE_LINES: Final = 1_000
STDERR_SHOWN_BYTES: Final = 1_500


@dataclass(frozen=True, slots=True)
class Exchange:
    """What went in and came out."""

    lines: tuple[OutputLine, ...]
    """Of stdout; the last one may lack its end."""
    asked_at: tuple[float, ...]
    """When each question was written, in seconds since the start; shorter than the questions where not all were."""
    ending: str
    """How it ended, as the rest of a sentence: `exited with 0`."""
    stderr: str
    """The end of it."""
    seconds: float


def exchange(command: Sequence[str], questions: Sequence[bytes], limit_seconds: float) -> Exchange:
    """Start a codec in this directory and environment, ask everything, close its stdin, and read to the end.

    Nothing of it is left afterwards. Time and memory are bounded whatever the codec does.

    Raises:
        OSError: it cannot be started.
    """
    transcript = Transcript()
    asked_at: list[float] = []

    def ask() -> None:
        for line in questions:
            asked_at.append(transcript.seconds())
            if not process.write(line, limit_seconds):
                return
        process.close_stdin()

    def is_too_much() -> bool:
        lines = process.lines
        size = len(process.unfinished_line) + sum(len(line.raw) for line in lines)
        return size > MAX_OUTPUT_BYTES or len(lines) > len(questions) + SPARE_LINES

    with Process(Start(command, Path.cwd(), os.environ), transcript) as process:
        writer = threading.Thread(target=ask, daemon=True)
        writer.start()
        try:
            process.wait_for(lambda: is_too_much() or len(process.lines) >= len(questions), limit_seconds)
            process.wait_for(is_too_much, min(limit_seconds, transcript.seconds() + LINGER_SECONDS))
            ending = _ending(process, is_too_much=is_too_much())
        finally:
            # The process ends before the pipe to it is closed, so that the writer never meets a closed file.
            end_processes(process.pid, process.family)
            writer.join()
        lines = process.lines
        if process.unfinished_line:
            lines.append(OutputLine(len(lines) + 1, transcript.seconds(), process.unfinished_line))
        stderr = process.stderr[-STDERR_SHOWN_BYTES:].decode(errors="backslashreplace").strip()
        return Exchange(tuple(lines), tuple(asked_at), ending, stderr, transcript.seconds())


def _ending(process: Process, *, is_too_much: bool) -> str:
    if is_too_much:
        return f"wrote too much (over {MAX_OUTPUT_BYTES:,} bytes, or {SPARE_LINES:,} lines too many), and was stopped"
    code = process.exit_code
    if code is None:
        return f"did not end, and was stopped after {process.transcript.seconds():.1f} seconds"
    return f"exited with {code}" if code >= 0 else f"was ended by signal {-code}"
