"""Whether times are told as they are: in UTC, and of now (AOX-072, AOX-191)."""

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from ao_conformance.judging.reading import Output
from ao_conformance.verdict import Finding

CLOCK_SECONDS: Final = 120.0
"""Suite and executor run on one machine: a larger difference is another clock, or another time zone."""
LATE_SECONDS: Final = 0.8
"""The rule says 250 ms; a busy machine may be slower to read."""


def judge_clock(output: Output, began_clock: float) -> Iterator[Finding]:
    """Find the first event whose time is not now, or that came long after the time that it tells."""
    for event in output.events:
        try:
            told = datetime.fromisoformat(str(event.document.get("timestamp"))).timestamp()
        except ValueError:
            continue
        precision = 0.0 if "." in str(event.document["timestamp"]) else 1.0
        late = began_clock + event.seconds - told - precision
        if abs(late) > CLOCK_SECONDS:
            shown = event.document["timestamp"]
            yield Finding("AOX-072", "the time in UTC", f"{shown}, which is {late / 3600:+.1f} h off", line=event.line)
            return
        if late > LATE_SECONDS:
            found = f"it tells of a moment {late:.1f} s before it came"
            yield Finding("AOX-191", "an event within 250 ms of what it tells of", found, line=event.line)
            return
