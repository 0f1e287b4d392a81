"""End a run whose output nobody reads any more: the program that started it was killed, say."""

import asyncio
import sys
from contextlib import AbstractContextManager, suppress
from typing import Final

from ao_runner.cli.options import Style
from ao_runner.processes.output_reader import on_reader_gone
from ao_runner.runs.run_request import StopRequests

LAST_SECONDS: Final = 1.5
"""How long the agent of a run without a reader has to stop before it is killed: nobody waits for its answer."""


class UnreadRun:
    """Stops a run without a reader of stdout, or of stderr where people read the progress there.

    With `parent` it also stops the run when that process ends.
    """

    def __init__(self, style: Style, stops: StopRequests, parent: int | None = None) -> None:
        self._parent = parent
        self._stops = stops
        self._is_stopped = False
        self._streams = [sys.stdout, sys.stderr] if style == "people" else [sys.stdout]

    def stop(self) -> None:
        """Ask the agent to stop, and kill it `LAST_SECONDS` later; nothing if that has begun."""
        if self._is_stopped:
            return
        self._is_stopped = True
        self._stops.request()
        with suppress(RuntimeError):  # the run has ended, and the rest of its output is written
            asyncio.get_running_loop().call_later(LAST_SECONDS, self._stops.request)

    def watched(self) -> AbstractContextManager[None]:
        """Return a context manager that notices this inside its block, while the event loop runs."""
        return on_reader_gone((stream.fileno() for stream in self._streams), self.stop, self._parent)
