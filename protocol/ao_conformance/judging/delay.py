"""Whether events come as things happen, when the work or stdin has ended, or late (AOX-040, AOX-091, AOX-191)."""

from typing import Final

from ao_conformance.judging.reading import Output
from ao_conformance.played import Played
from ao_conformance.verdict import Finding

START_SECONDS: Final = 10.0
LONG_WORK_SECONDS: Final = 4.0
AT_ONCE_SECONDS: Final = 0.2


def judge_delay(played: Played, output: Output) -> Finding | None:
    """Return a finding where the first event came late.

    Nothing else that such a play shows can be judged: whoever waits for an event acts when the run is over.
    """
    if not output.events:
        return None
    first, waited = output.events[0], output.events[0].seconds - played.began_at
    if _is_held_back(played.vector.works_for_seconds, waited, output):
        found = f"all {len(output.events)} came together after {waited:.1f} s; flush stdout behind each line"
        return Finding("AOX-191", "run_started while the work goes on", found, line=first.line)
    if waited <= START_SECONDS:
        return None
    if played.model_asked_at is not None and first.seconds - played.model_asked_at > LONG_WORK_SECONDS:
        found = f"the first came {first.seconds - played.model_asked_at:.1f} s after the model was asked; flush stdout"
        return Finding("AOX-191", "events while the work goes on", found, line=first.line)
    if played.closed_at is not None and 0 < first.seconds - played.closed_at < LONG_WORK_SECONDS:
        found = f"nothing came until stdin was closed after {played.closed_at - played.began_at:.1f} s"
        return Finding("AOX-040", "events while stdin is open, as soon as the line is complete", found, line=first.line)
    return Finding("AOX-091", "run_started within 10 s", f"it came after {waited:.1f} s", line=first.line)


def _is_held_back(works_for_seconds: float, waited: float, output: Output) -> bool:
    """Whether long work was done before the first event, and all events then came together."""
    if works_for_seconds < LONG_WORK_SECONDS or not output.events[-1].is_terminal:
        return False
    together = output.events[-1].seconds - output.events[0].seconds <= AT_ONCE_SECONDS
    return together and works_for_seconds <= waited <= works_for_seconds + LONG_WORK_SECONDS
