"""What a run has done, on its time axis: begin and end of a tool call are one entry, and each entry has its place."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from ao_runner.runs.narration import NOTHING, NarrationEntry, is_json_of
from ao_runner.store.records import RunState


@dataclass(frozen=True, slots=True)
class Bar:
    """The place of an entry on the time axis of its run.

    Args:
        begin: Milliseconds from the begin of the run.
        end: The same; None of a call that goes on.
        span: The length of the axis in milliseconds, at least 1.
    """

    begin: int
    end: int | None
    span: int

    @property
    def seconds(self) -> float | None:
        """How long it took; None if that is not known yet."""
        return None if self.end is None else (self.end - self.begin) / 1000


def seconds_between(begin: str, end: str) -> float:
    """Return the time between two timestamps, at least 0, since clocks step."""
    return max(0.0, (datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds())


def axes_of(states: Mapping[str, RunState], times: Sequence[tuple[str, str]]) -> dict[str, tuple[str, int]]:
    """Return by run when its time axis begins, and its length in milliseconds.

    Args:
        states: The runs, by their ids.
        times: The runs and timestamps of entries. The axis of a run that goes on ends at the last one.
    """
    found: dict[str, tuple[str, int]] = {}
    for run_id, time in times:
        state = states.get(run_id)
        if state is None or not time:
            continue
        begin, most = found.get(run_id, (state.run.started_at, 1))
        if run_id not in found and state.run.ended_at:
            most = max(most, _milliseconds(begin, state.run.ended_at))
        found[run_id] = begin, max(most, _milliseconds(begin, time))
    return found


def bar_of(axis: tuple[str, int], time: str, ended_at: str, is_call: bool) -> Bar:
    """Return the place of an entry: a point, or from the begin of a call to its end."""
    begin = _milliseconds(axis[0], time)
    end = max(begin, _milliseconds(axis[0], ended_at)) if ended_at else None if is_call else begin
    return Bar(begin, end, max(axis[1], begin, end or 0))


def without_repetition(told: NarrationEntry, said: str, is_run_page: bool, has_parameters: bool) -> NarrationEntry:
    """Return the end or the begin of a run without what the page shows above: the parameters, or the result.

    Args:
        told: The entry.
        said: The text of the last message of the run.
        is_run_page: Whether the page has panels for the parameters and the result of this run.
        has_parameters: Whether the run has parameters.
    """
    if told.kind == "start" and is_run_page and has_parameters:
        return NarrationEntry("start", told.title, told.text)
    if told.title != "Result" or told.kind != "end":
        return told
    is_said = told.text.strip() == said.strip() if told.value is NOTHING else is_json_of(said, told.value)
    if not is_run_page and not is_said:
        return told
    words = "The result stands at the top of this page." if is_run_page else "The result is the message above."
    return NarrationEntry("end", told.title, words, severity=told.severity)


def _milliseconds(begin: str, end: str) -> int:
    try:
        return int(seconds_between(begin, end) * 1000)
    except (ValueError, TypeError):  # an executor wrote something else, or no zone
        return 0
