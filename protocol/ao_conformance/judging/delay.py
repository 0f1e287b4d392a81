"""Whether events come while the work goes on, or are held back until its end (AOX-191)."""

from typing import Final

from ao_conformance.judging.reading import Output
from ao_conformance.verdict import Finding

LONG_WORK_SECONDS: Final = 4.0
AT_ONCE_SECONDS: Final = 0.2


def judge_delay(works_for_seconds: float, began_at: float, output: Output) -> Finding | None:
    """Return a finding where long work was done before the first event and all events then came together.

    Nothing else that such a play shows can be judged: whoever waits for an event acts when the run is over.
    """
    if works_for_seconds < LONG_WORK_SECONDS or not output.events or not output.events[-1].is_terminal:
        return None
    first, last = output.events[0], output.events[-1]
    if first.seconds - began_at < works_for_seconds or last.seconds - first.seconds > AT_ONCE_SECONDS:
        return None
    found = (
        f"all {len(output.events)} came together after {first.seconds - began_at:.1f} s; flush stdout behind each line"
    )
    return Finding("AOX-191", "run_started while the work goes on", found, line=first.line)
