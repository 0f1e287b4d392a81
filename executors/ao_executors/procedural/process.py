"""Runs one program to its end and keeps a bounded part of what it writes."""

import asyncio
from dataclasses import dataclass

from ao_executors.core.program import Captured, Program, capture
from ao_lifeline import CANNOT_START, COMPLAINT


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
        return text if self.return_code == -CANNOT_START and text.startswith(COMPLAINT) else None


async def run_to_end(program: Program, max_output_bytes: int) -> Ended:
    """Run a program to the end of both of its streams; a cancelled caller takes it along."""
    async with program:
        stdout, stderr, code = await asyncio.gather(
            capture(program.stdout, max_output_bytes), program.stderr(), program.wait()
        )
    return Ended(code, stdout, stderr)
