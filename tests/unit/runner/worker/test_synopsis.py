"""What is remembered of a run's events is the same, however they come in blocks."""

import json
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from ao_runner.runs.lost_runs import RunSummary

TOOLS = st.tuples(st.sampled_from(["tool_started", "tool_finished", "message_delta"]), st.sampled_from(["t1", "t2"]))


@given(st.lists(TOOLS, max_size=8), st.lists(st.integers(0, 9), max_size=4))
def test_the_tools_that_are_open_and_the_executor_are_known_however_the_events_come(
    tools: list[tuple[str, str]], cuts: list[int]
) -> None:
    started = {"event_type": "run_started", "session_id": "ses_1", "executor": {"name": "x", "version": "1"}}
    events = [{"event_type": kind, "tool_call_id": call, "tool_name": f"name of {call}"} for kind, call in tools]
    lines = [json.dumps(event).encode() for event in (started, *events)]
    still_open: dict[str, str] = {}
    for kind, call in tools:
        if kind == "tool_started":
            still_open[call] = f"name of {call}"
        elif kind == "tool_finished":
            still_open.pop(call, None)

    synopsis = RunSummary(session_id="ses_1")
    for begin, end in pairwise([0, *sorted(cuts), len(lines)]):
        synopsis = RunSummary.from_note(synopsis.after(lines[begin:end]).to_note())

    assert synopsis == RunSummary("ses_1", "x", "1", still_open)


def test_thousands_of_open_tools_are_told_and_leave_the_synopsis_before_them_as_it_was() -> None:
    before = RunSummary("ses_1", "x", "1", {"first": "t"})
    calls = [f"call_{number}" for number in range(20_000)]
    lines = [
        json.dumps({"event_type": "tool_started", "tool_call_id": call, "tool_name": "t"}).encode() for call in calls
    ]
    assert before.after(lines) == RunSummary("ses_1", "x", "1", {"first": "t"} | dict.fromkeys(calls, "t"))
    assert before == RunSummary("ses_1", "x", "1", {"first": "t"})
