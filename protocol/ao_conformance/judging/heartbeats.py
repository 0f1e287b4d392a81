"""Whether a run that was asked for heartbeats shows in time that it lives (AOX-080)."""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, Final

from ao_conformance.judging.reading import Output
from ao_conformance.verdict import Finding

SLACK_SECONDS: Final = 1.0
"""The machine of a tester may be busy."""


def judge_heartbeats(invocation: Mapping[str, Any] | None, output: Output) -> Iterator[Finding]:
    """Find the first silence that was too long; an interval that is not above 0 asks for no heartbeats."""
    limits = (invocation or {}).get("limits")
    interval = limits.get("heartbeat_interval_seconds") if isinstance(limits, Mapping) else None
    if not isinstance(interval, int | float) or isinstance(interval, bool) or interval <= 0:
        return
    for run in output.runs:
        for before, after in pairwise(run):
            silence = after.seconds - before.seconds
            if silence > 2 * interval + SLACK_SECONDS:
                yield Finding(
                    "AOX-080",
                    f"an event at least every {2 * interval:g} s",
                    f"{silence:.1f} s of silence",
                    line=after.line,
                )
                return
