"""Runs one program for a task, to its end, and keeps a bounded part of what it writes."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from ao_executors.core.pipeline import CLEAN_UP_SHARE
from ao_executors.core.program import Captured, Program, capture
from ao_executors.core.task import Task
from ao_lifeline import CANNOT_START, COMPLAINT

MAX_ARGUMENT_BYTES: Final = 128 * 1024 - 1
"""Linux takes no longer single argument (MAX_ARG_STRLEN, with the closing NUL)."""
_ASKING_SHARE: Final = 0.7
"""How much of the time for cleaning up a program has after SIGTERM, before SIGKILL."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended. `return_code` is negative for the signal that ended it."""

    return_code: int
    stdout: Captured
    stderr: Captured

    @property
    def why_not_started(self) -> str | None:
        """Return the reason where the program could not even be started."""
        text = self.stderr.kept.decode(errors="replace")
        return text.strip() if self.return_code == -CANNOT_START and text.startswith(COMPLAINT) else None


@dataclass(frozen=True, slots=True)
class ProgramRun:
    """A program that is run for a task, in its project directory, with the executor's environment and `env` above it.

    `stdin` is what it reads; None is an empty stdin. The last `max_output_bytes` of each stream are kept.
    """

    argv: Sequence[str]
    max_output_bytes: int
    stdin: bytes | None = None
    env: Mapping[str, str] | None = None

    def started(self, task: Task) -> Program:
        """Start it.

        Raises:
            OSError: it cannot be started, where there is no lifeline to report it.
        """
        return Program(
            self.argv,
            cwd=task.project_dir,
            env={**os.environ, **(self.env or {})},
            stop_seconds=task.terms.cancel_grace_seconds * CLEAN_UP_SHARE * _ASKING_SHARE,
            max_stderr_bytes=self.max_output_bytes,
            takes_input=self.stdin is not None,
        )

    async def run_to_end(self, program: Program) -> Ended:
        """Bring what has been started to the end of both of its streams; a cancelled caller takes it along."""
        async with program:
            stdout, stderr, code, _ = await asyncio.gather(
                capture(program.stdout, self.max_output_bytes),
                program.stderr(),
                program.wait(),
                _feed(program, self.stdin or b""),
            )
        return Ended(code, stdout, stderr)


async def _feed(program: Program, data: bytes) -> None:
    with suppress(ConnectionError):  # it may end, or answer, without reading all of it
        if data:
            await program.write(data)
    program.close_stdin()
