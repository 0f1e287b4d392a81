"""How long the runner waits for what, and what a run has to be stopped for when that is over. Pure."""

from dataclasses import dataclass
from typing import Final

from ao_runner.runs.stopping import Cause

DEADLINE_MARGIN_SECONDS: Final = 1.0
"""How much longer than its limit a run may take, so that the executor can say `deadline_exceeded` itself."""

START_SECONDS: Final = 10.0
"""From the invocation to `run_started`, where nobody says (SPEC 11.2)."""
DRAIN_SECONDS: Final = 1.0
"""From the end of the process to the end of its pipes, where nobody says."""


@dataclass(frozen=True, slots=True)
class Since:
    """When a run was begun, last heard of, and last got on."""

    begun_at: float
    heard_at: float
    progress_at: float


@dataclass(frozen=True, slots=True)
class Patience:
    """How long the runner waits for what. None is for ever."""

    start_seconds: float = START_SECONDS
    """From the invocation to `run_started` (SPEC 11.2)."""
    run_seconds: float | None = None
    silence_seconds: float | None = None
    """From one event to the next, once a heartbeat has shown that the executor sends them."""
    idle_seconds: float | None = None
    """From one event that is progress to the next. Heartbeats and remarks are none."""
    drain_seconds: float = DRAIN_SECONDS
    """From the end of the process to the end of its pipes, which others may hold open."""

    def of_paused(self, since: Since) -> dict[Cause, float]:
        """Return when a run is stopped for what, while nobody reads what its executor says."""
        if self.run_seconds is None:
            return {}
        return {Cause.DEADLINE: since.begun_at + self.run_seconds + DEADLINE_MARGIN_SECONDS}

    def of_running(self, since: Since, has_started: bool, has_heartbeats: bool) -> dict[Cause, float]:
        """Return when a run is stopped for what, if nothing is heard until then."""
        timers = self.of_paused(since)
        if not has_started:
            timers[Cause.START_TIMEOUT] = since.begun_at + self.start_seconds
        if self.silence_seconds is not None and has_heartbeats:
            timers[Cause.STALLED] = since.heard_at + self.silence_seconds
        if self.idle_seconds is not None:
            timers[Cause.IDLE] = since.progress_at + self.idle_seconds
        return timers
