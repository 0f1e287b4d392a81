"""Whether the events of a run make one, and come in time (SPEC 5.1)."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any, Final

from ao_conformance.judging.output import Event, Output
from ao_conformance.play_result import PlayResult
from ao_conformance.verdict import Finding

NO_PROGRESS: Final = frozenset({"heartbeat", "log"})
USAGE_FIGURES: Final = (
    "input_tokens",
    "output_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
    "cost_usd",
)
HEARTBEAT_SLACK_SECONDS: Final = 1.0
"""The machine of a tester may be busy."""
CLOCK_SECONDS: Final = 120.0
"""Suite and executor run on one machine: a larger difference is another clock, or another time zone."""
LATE_SECONDS: Final = 0.8
"""The rule says 250 ms; a busy machine may be slower to read."""
START_SECONDS: Final = 10.0
LONG_WORK_SECONDS: Final = 4.0
AT_ONCE_SECONDS: Final = 0.2


def judge_runs(
    output: Output, expected_runs: int, invocation: Mapping[str, Any] | None, *, end: str = ""
) -> Iterator[Finding]:
    """Find what is wrong with the runs that stdout tells of; `end` says how the process ended, for people."""
    runs = output.runs
    if not runs:
        yield Finding("AOX-090", "run_started as the first event", "no event came")
        return
    for number, run in enumerate(runs):
        if not (run is runs[-1] and output.ends_unreadably):
            yield from _judge_end(run, end)
        yield from _judge_order(run, is_turn=number > 0, is_whole=not output.unreadable)
        yield from _judge_names(run)
        yield from _judge_tools(run)
        yield from _judge_figures(run)
        yield from _judge_messages(run)
    if len(runs) > expected_runs and not output.takes_turns:
        yield Finding(
            "AOX-092",
            f"{expected_runs} terminal event{'s' * (expected_runs > 1)}",
            f"{len(runs)} runs",
            line=runs[expected_runs][0].line,
        )
    yield from _judge_given_names(runs[0], invocation, ("run_id", "session_id"))
    for run in runs[1:expected_runs]:
        yield from _judge_given_names(run, invocation, ("session_id",))
        yield from _judge_made_name(run, runs[0], invocation)
    for event in output.between_runs[:1]:
        broken = "AOX-092" if event.is_terminal else "AOX-066"
        yield Finding(broken, "nothing between two runs", f"a {event.type}", line=event.line)


def _judge_end(run: Sequence[Event], end: str) -> Iterator[Finding]:
    terminals = [event for event in run if event.is_terminal]
    if not terminals:
        found = f"the last event is {run[-1].type}" + (f"; then {end}" if end else "")
        yield Finding("AOX-092", "a terminal event: result or failure", found, line=run[-1].line)
    elif terminals[0] is not run[-1]:
        after = run[run.index(terminals[0]) + 1]
        yield Finding(
            "AOX-092",
            "nothing of the run behind its terminal event",
            f"{after.type} follows {terminals[0].type}",
            line=after.line,
        )


def _judge_order(run: Sequence[Event], *, is_turn: bool, is_whole: bool) -> Iterator[Finding]:
    first = run[0]
    if first.type != "run_started":
        yield Finding("AOX-090", "run_started as the first event", f"it is {first.type}", line=first.line)
    for event in run[1:]:
        if event.type == "run_started":
            yield Finding("AOX-094", "one run_started in a run", "another one", line=event.line)
    expected = 1
    if is_turn and isinstance(begun := run[0].document.get("seq"), int) and begun > 1:
        yield Finding("AOX-065", "seq 1 on the first event of a turn's run", f"seq {begun}", line=run[0].line)
        expected = begun
    for event in run:
        seq = event.document.get("seq")
        if isinstance(seq, int) and seq > expected and not is_whole:
            expected = seq
        if isinstance(seq, int) and seq != expected:
            yield Finding("AOX-071", f"seq {expected}", f"seq {seq}", line=event.line)
            break
        expected += 1


def _judge_names(run: Sequence[Event]) -> Iterator[Finding]:
    first = run[0].document
    for event in run[1:]:
        for name in ("run_id", "session_id"):
            if name in event.document and name in first and event.document[name] != first[name]:
                yield Finding(
                    "AOX-073",
                    f"{name} {first[name]!r} on every event of the run",
                    f"{event.document[name]!r}",
                    line=event.line,
                )
                return


def _judge_given_names(
    run: Sequence[Event], invocation: Mapping[str, Any] | None, names: Sequence[str]
) -> Iterator[Finding]:
    if invocation is None or run[-1].error.get("type") == "invocation_too_large":
        return
    for name in names:
        given, found = invocation.get(name), run[0].document.get(name)
        if isinstance(given, str) and given and name in run[0].document and found != given:
            yield Finding("AOX-043", f"{name} {given!r}, as the invocation has it", f"{found!r}", line=run[0].line)
        elif given is None and name in run[0].document and not found:
            yield Finding(
                "AOX-043",
                f"a {name} that the executor makes, where the invocation has none",
                f"{found!r}",
                line=run[0].line,
            )


def _judge_made_name(
    turn: Sequence[Event], first: Sequence[Event], invocation: Mapping[str, Any] | None
) -> Iterator[Finding]:
    """Find a turn in another session than the one whose name the executor made for the first run."""
    made, found = first[0].document.get("session_id"), turn[0].document.get("session_id")
    if invocation is not None and invocation.get("session_id") is None and made and found and found != made:
        wanted = f"session_id {made!r}, as the executor made it: a turn is a run of the same session"
        yield Finding("AOX-043", wanted, f"{found!r}", line=turn[0].line)


def _judge_tools(run: Sequence[Event]) -> Iterator[Finding]:
    open_calls: dict[str, Event] = {}
    for event in run:
        call = event.document.get("tool_call_id")
        if event.type == "tool_started" and isinstance(call, str):
            if call in open_calls:
                yield Finding(
                    "AOX-093", "a tool call that is started once", f"{call!r} is started twice", line=event.line
                )
            open_calls[call] = event
        elif event.type == "tool_finished" and isinstance(call, str) and open_calls.pop(call, None) is None:
            yield Finding(
                "AOX-093", "a tool_started before every tool_finished", f"{call!r} was not open", line=event.line
            )
    for call, started in open_calls.items() if run[-1].is_terminal else ():
        yield Finding("AOX-093", "a tool_finished for every tool_started", f"{call!r} was left open", line=started.line)


def _judge_figures(run: Sequence[Event]) -> Iterator[Finding]:
    highest: dict[str, float] = {}
    progress = 0
    for event in run:
        usage = event.document if event.type == "usage" else event.document.get("usage")
        if isinstance(usage, Mapping):
            for name in USAGE_FIGURES:
                value = usage.get(name)
                if isinstance(value, int | float) and value < highest.get(name, 0):
                    yield Finding("AOX-078", f"{name} of at least {highest[name]:g}", f"{value:g}", line=event.line)
                elif isinstance(value, int | float):
                    highest[name] = value
        if (
            event.type == "heartbeat"
            and isinstance(said := event.document.get("last_progress_seq"), int)
            and said != progress
        ):
            yield Finding("AOX-081", f"last_progress_seq {progress}", f"{said}", line=event.line)
        if event.type not in NO_PROGRESS and isinstance(seq := event.document.get("seq"), int):
            progress = seq


def _judge_messages(run: Sequence[Event]) -> Iterator[Finding]:
    whole: set[str] = set()
    for event in run:
        name = event.document.get("message_id")
        if event.type == "message" and isinstance(name, str):
            if name in whole:
                yield Finding("AOX-083", "a message_id of its own", f"{name!r} for the second time", line=event.line)
            whole.add(name)
    if run[-1].type != "result":
        return
    for event in run:
        name = event.document.get("message_id")
        if event.type == "message_delta" and name not in whole:
            yield Finding("AOX-079", "the whole message behind its deltas", f"none for {name!r}", line=event.line)
            return


def judge_heartbeats(invocation: Mapping[str, Any] | None, output: Output) -> Iterator[Finding]:
    """Find the first silence that was too long; an interval that is not above 0 asks for no heartbeats."""
    limits = (invocation or {}).get("limits")
    interval = limits.get("heartbeat_interval_seconds") if isinstance(limits, Mapping) else None
    if not isinstance(interval, int | float) or isinstance(interval, bool) or interval <= 0:
        return
    for run in output.runs:
        for before, after in pairwise(run):
            silence = after.seconds - before.seconds
            if silence > 2 * interval + HEARTBEAT_SLACK_SECONDS:
                yield Finding(
                    "AOX-080",
                    f"an event at least every {2 * interval:g} s",
                    f"{silence:.1f} s of silence",
                    line=after.line,
                )
                return


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


def judge_delay(played: PlayResult, output: Output) -> Finding | None:
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
