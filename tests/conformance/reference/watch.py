"""The one place where the process waits: it hears SIGTERM, control lines and deadlines, and gives heartbeats."""

import os
import select
import signal
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

from control import Control
from errors import RunFailed
from events import Emitter
from stdin import Stdin

IN, OUT = select.POLLIN, select.POLLOUT
LONGEST_POLL_MILLISECONDS = 2.0**31 - 1


class Watch:
    """Waits for descriptors. During a run every wait ends in `RunFailed` when the run has to end."""

    def __init__(self, emitter: Emitter, stdin: Stdin, control: Control) -> None:
        self._emitter, self._stdin, self._control = emitter, stdin, control
        self.is_terminated = False
        self._deadline: float | None = None
        self._timeout_seconds: float | None = None
        self._heartbeat_seconds: float | None = None
        self.grace_seconds = 10.0
        self._wakeup, written = os.pipe()
        os.set_blocking(self._wakeup, False)
        os.set_blocking(written, False)
        signal.set_wakeup_fd(written, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, self._on_sigterm)

    def begin(self, limits: dict[str, Any]) -> None:
        """Begin the time of a run."""
        self._control.is_cancelled = False
        self._timeout_seconds = limits.get("timeout_seconds")
        self._deadline = None if self._timeout_seconds is None else time.monotonic() + self._timeout_seconds
        self._heartbeat_seconds = limits.get("heartbeat_interval_seconds")
        self.grace_seconds = limits.get("cancel_grace_seconds") or 10.0

    def attend(
        self,
        waits: dict[int, int],
        phase: str,
        seconds: float | None = None,
        is_enough: Callable[[], bool] = lambda: False,
    ) -> set[int]:
        """Wait during a run; return the descriptors that are ready, or none after `seconds` or once it is enough.

        Raises:
            RunFailed: the run was cancelled, or its time is up.
        """
        until = None if seconds is None else time.monotonic() + seconds
        while True:
            self._raise_if_ended()
            ready = self._poll(waits, _soonest(until, self._deadline, self._heartbeat_at()))
            self._give_heartbeat(phase)
            if ready:
                self._raise_if_ended()
                return ready
            if is_enough() or (until is not None and time.monotonic() >= until):
                return set()

    def idle(self) -> None:
        """Wait outside of a run until something has come on stdin, it has ended, or SIGTERM came."""
        if not self.is_terminated:
            self._poll({self._stdin.descriptor: IN}, None)

    def _poll(self, waits: dict[int, int], until: float | None) -> set[int]:
        poll = select.poll()
        for descriptor, mask in waits.items():
            poll.register(descriptor, mask)
        poll.register(self._wakeup, IN)
        if self._control.listens:
            poll.register(self._stdin.descriptor, IN)
        milliseconds = None if until is None else max(0.0, until - time.monotonic()) * 1000 + 1
        if milliseconds is not None:
            milliseconds = min(milliseconds, LONGEST_POLL_MILLISECONDS)
        ready = {descriptor for descriptor, _ in poll.poll(milliseconds)}
        if self._wakeup in ready:
            os.read(self._wakeup, 4096)
        if self._control.listens and self._stdin.descriptor in ready:
            self._stdin.fill()
        return ready & waits.keys()

    def _raise_if_ended(self) -> None:
        self._control.take_lines()
        if self.is_terminated:
            raise RunFailed("cancelled", "SIGTERM ended the run; start it again if it is still wanted")
        if self._control.is_cancelled:
            raise RunFailed("cancelled", "a cancel on stdin ended the run; start it again if it is still wanted")
        if self._control.runner_is_gone:
            raise RunFailed("cancelled", "stdin ended, so the runner is gone; start the run again")
        if self._deadline is not None and time.monotonic() >= self._deadline:
            raise RunFailed("deadline_exceeded", f"the run took longer than {self._timeout_seconds:g} s; allow more")

    def _heartbeat_at(self) -> float | None:
        return None if self._heartbeat_seconds is None else self._emitter.last_event_at + self._heartbeat_seconds

    def _give_heartbeat(self, phase: str) -> None:
        due = self._heartbeat_at()
        if due is not None and time.monotonic() >= due:
            self._emitter.emit("heartbeat", phase=phase, last_progress_seq=self._emitter.last_progress_seq)

    def _on_sigterm(self, number: int, frame: FrameType | None) -> None:
        self.is_terminated = True


def _soonest(*moments: float | None) -> float | None:
    return min((moment for moment in moments if moment is not None), default=None)
