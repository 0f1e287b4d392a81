"""Judge whether the events form runs and come in time, and whether the process ends accordingly (SPEC 5.1, 6.4, 10)."""

import signal
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain, pairwise
from typing import Any, Final

from ao_conformance.driver.transcript import exit_text
from ao_conformance.judging.output import Event, Evidence, Output
from ao_conformance.play_result import PlayResult
from ao_conformance.verdict import Finding, Lateness
from ao_protocol.errors import exit_code_of_failure

PARTS: Final = frozenset({"message", "message_delta", "tool_started"})
"""The event types that may be part of a tool call."""
NO_PROGRESS: Final = frozenset({"heartbeat", "log"})
USAGE_FIGURES: Final = (
    *("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"),
    *("reasoning_tokens", "cost_usd"),
)
HEARTBEAT_SLACK_SECONDS: Final = 1.0
"""Added because the tester's machine may be busy."""
CLOCK_SECONDS: Final = 120.0
"""Suite and executor run on one machine, so a larger difference is a wrong clock or time zone."""
LATE_SECONDS: Final = 0.8
"""The rule allows 250 ms; a busy machine may be slower to read."""
START_SECONDS: Final = 10.0
LONG_WORK_SECONDS: Final = 4.0
AT_ONCE_SECONDS: Final = 0.2
EXIT_SECONDS: Final = 5.0
DIED_OF_SIGTERM: Final = (-signal.SIGTERM, 128 + signal.SIGTERM)
OWN_FILES: Final = "what an executor keeps for itself belongs below HOME or TMPDIR"


def judge_runs(
    output: Output, expected_runs: int, invocation: Mapping[str, Any] | None, played: PlayResult | None = None
) -> Iterator[Finding]:
    """Find errors in the runs on stdout. `played` tells how the process ended, if it is known."""
    runs = output.runs
    if not runs:
        yield Finding("AOX-090", "run_started as the first event", "no event came", lateness=Lateness.END)
        return
    for number, run in enumerate(runs):
        if not (run is runs[-1] and output.ends_unreadably):
            yield from _judge_end(run, played)
        yield from _judge_order(run, is_turn=number > 0, is_whole=not output.unreadable)
        yield from _judge_names(run)
        yield from _judge_tools(run)
        yield from _judge_parts(run)
        yield from _judge_requests(run)
        yield from _judge_figures(run)
        yield from _judge_messages(run)
    if len(runs) > expected_runs and not output.takes_turns:
        wanted = f"{expected_runs} terminal event{'s' * (expected_runs > 1)}"
        yield runs[expected_runs][0].breaks("AOX-092", wanted, f"{len(runs)} runs")
    yield from _judge_given_names(runs[0], invocation, ("run_id", "session_id"))
    for run in runs[1:expected_runs]:
        yield from _judge_given_names(run, invocation, ("session_id",))
        made, found = (each[0].document.get("session_id") for each in (runs[0], run))
        if invocation is not None and invocation.get("session_id") is None and made and found and found != made:
            wanted = f"session_id {made!r}, as the executor made it: a turn is a run of the same session"
            yield run[0].breaks("AOX-043", wanted, f"{found!r}")
    for event in output.between_runs[:1]:
        broken = "AOX-092" if event.is_terminal else "AOX-066"
        yield event.breaks(broken, "nothing between two runs", f"a {event.type}")


def _judge_end(run: Sequence[Event], played: PlayResult | None) -> Iterator[Finding]:
    terminal = next((number for number, event in enumerate(run) if event.is_terminal), None)
    if terminal is None:
        found = f"the last event is {run[-1].type}" + (f"; then {describe_end(played)}" if played else "")
        lateness = Lateness.KILLED if played and played.killed else None
        wanted = "a terminal event: result or failure"
        yield Finding("AOX-092", wanted, found, line=run[-1].line, lateness=lateness)
    elif after := run[terminal + 1 :]:
        found = f"{after[0].type} follows {run[terminal].type}"
        yield after[0].breaks("AOX-092", "nothing of the run behind its terminal event", found)


def _judge_order(run: Sequence[Event], *, is_turn: bool, is_whole: bool) -> Iterator[Finding]:
    first = run[0]
    if first.type != "run_started":
        yield first.breaks("AOX-090", "run_started as the first event", f"it is {first.type}")
    for event in run[1:]:
        if event.type == "run_started":
            yield event.breaks("AOX-094", "one run_started in a run", "another one")
    expected = 1
    if is_turn and isinstance(begun := first.document.get("seq"), int) and begun > 1:
        yield first.breaks("AOX-065", "seq 1 on the first event of a turn's run", f"seq {begun}")
        expected = begun
    for event in run:
        seq = event.document.get("seq")
        if isinstance(seq, int) and seq > expected and not is_whole:
            expected = seq
        if isinstance(seq, int) and seq != expected:
            yield event.breaks("AOX-071", f"seq {expected}", f"seq {seq}")
            break
        expected += 1


def _judge_names(run: Sequence[Event]) -> Iterator[Finding]:
    first = run[0].document
    for event in run[1:]:
        for name in ("run_id", "session_id"):
            if name in event.document and name in first and event.document[name] != first[name]:
                wanted = f"{name} {first[name]!r} on every event of the run"
                yield event.breaks("AOX-073", wanted, f"{event.document[name]!r}")
                return


def _judge_given_names(
    run: Sequence[Event], invocation: Mapping[str, Any] | None, names: Sequence[str]
) -> Iterator[Finding]:
    if invocation is None or run[-1].error.get("type") == "invocation_too_large":
        return
    for name in names:
        given, found = invocation.get(name), run[0].document.get(name)
        if isinstance(given, str) and given and name in run[0].document and found != given:
            yield run[0].breaks("AOX-043", f"{name} {given!r}, as the invocation has it", f"{found!r}")
        elif given is None and name in run[0].document and not found:
            wanted = f"a {name} that the executor makes, where the invocation has none"
            yield run[0].breaks("AOX-043", wanted, f"{found!r}")


def _judge_tools(run: Sequence[Event]) -> Iterator[Finding]:
    open_calls: dict[str, Event] = {}
    for event in run:
        call, parent = event.document.get("tool_call_id"), event.document.get("parent_tool_call_id")
        if parent is not None and event.type in PARTS and parent not in open_calls:
            yield event.breaks("AOX-095", "a part of a tool call while that call is open", f"{parent!r} is not open")
        if event.type == "tool_finished" and any(
            part.document.get("parent_tool_call_id") == call for part in open_calls.values()
        ):
            yield event.breaks("AOX-095", "a tool call that ends after its parts", f"a part of {call!r} is open")
        if event.type == "tool_started" and isinstance(call, str):
            if call in open_calls:
                yield event.breaks("AOX-093", "a tool call that is started once", f"{call!r} is started twice")
            open_calls[call] = event
        elif event.type == "tool_finished" and isinstance(call, str) and open_calls.pop(call, None) is None:
            yield event.breaks("AOX-093", "a tool_started before every tool_finished", f"{call!r} was not open")
    for call, started in open_calls.items() if run[-1].is_terminal else ():
        yield started.breaks("AOX-093", "a tool_finished for every tool_started", f"{call!r} was left open")


def _judge_parts(run: Sequence[Event]) -> Iterator[Finding]:
    """Find events that are part of a call that is not open, and calls that end before a part of them (SPEC 5.1)."""
    parents: dict[str, object] = {}
    for event in run:
        call, parent = str(event.document.get("tool_call_id")), event.document.get("parent_tool_call_id")
        if event.type == "tool_finished":
            if part := next((name for name, above in parents.items() if above == call), None):
                yield event.breaks("AOX-095", f"an end of {call!r} behind that of {part!r}, its part", "it ends before")
            above = parents.pop(call, None)
            if parent is not None and parent != above:
                yield event.breaks("AOX-095", f"the parent {above!r}, as its tool_started has it", f"{parent!r}")
        elif parent is not None and parent not in parents:
            yield event.breaks("AOX-095", "a parent_tool_call_id of an open call", f"{parent!r} is not open")
        if event.type == "tool_started":
            parents[call] = parent


def _judge_requests(run: Sequence[Event]) -> Iterator[Finding]:
    is_open: dict[str, bool] = {}
    for event in run:
        request = str(event.document.get("request_id"))
        if event.type == "input_requested":
            if request in is_open:
                yield event.breaks("AOX-156", "a request_id that its run uses once", f"{request!r} comes again")
            is_open[request] = True
        elif event.type == "input_resolved":
            if not is_open.get(request):
                yield event.breaks("AOX-156", "an input_resolved for each open request", f"{request!r} is not open")
            is_open[request] = False
        elif event.type == "heartbeat" and any(is_open.values()) and event.document.get("phase") != "input":
            wanted = "phase 'input' while a request is open"
            yield event.breaks("AOX-157", wanted, f"{event.document.get('phase')!r}")
        elif event.is_terminal and any(is_open.values()):
            left = next(name for name, still in is_open.items() if still)
            yield event.breaks("AOX-156", "an input_resolved for each request before the end", f"{left!r} is open")


def _judge_figures(run: Sequence[Event]) -> Iterator[Finding]:
    highest: dict[str, float] = {}
    progress = 0
    for event in run:
        for name, value in figures_in(event).items():
            if value < highest.get(name, 0):
                yield event.breaks("AOX-078", f"{name} of at least {highest[name]:g}", f"{value:g}")
            else:
                highest[name] = value
        said = event.document.get("last_progress_seq")
        if event.type == "heartbeat" and isinstance(said, int) and said != progress:
            yield event.breaks("AOX-081", f"last_progress_seq {progress}", f"{said}")
        if event.type not in NO_PROGRESS and isinstance(seq := event.document.get("seq"), int):
            progress = seq


def figures_in(event: Event) -> dict[str, int | float]:
    """Return the figures of `usage` that an event tells, by name."""
    usage = event.document if event.type == "usage" else event.document.get("usage")
    told = usage if isinstance(usage, Mapping) else {}
    return {name: told[name] for name in USAGE_FIGURES if isinstance(told.get(name), int | float)}


def _judge_messages(run: Sequence[Event]) -> Iterator[Finding]:
    whole: set[str] = set()
    for event in run:
        name = event.document.get("message_id")
        if event.type == "message" and isinstance(name, str):
            if name in whole:
                yield event.breaks("AOX-083", "a message_id of its own", f"{name!r} for the second time")
            whole.add(name)
    pieces: dict[object, str] = {}
    told: set[object] = set()
    for event in run if run[-1].type == "result" else ():
        name = event.document.get("message_id")
        if event.type == "message_delta":
            pieces[name] = pieces.get(name, "") + _all_text(event)
            if name not in whole or name in told:
                found = f"{'a piece behind' if name in told else 'none for'} {name!r}"
                yield event.breaks("AOX-079", "the whole message behind its deltas", found)
                return
        told.update([name] if event.type == "message" else [])
        told_in_pieces = pieces.get(name, "").strip()
        if event.type == "message" and len(told_in_pieces) > len(_all_text(event)) and _is_plain(event, run):
            found = f"{len(told_in_pieces)} characters in its deltas, {len(_all_text(event))} in {name!r}"
            yield event.breaks("AOX-079", "the whole message behind its deltas", found)


def _all_text(event: Event) -> str:
    content = event.document.get("content")
    blocks = content if isinstance(content, list) else []
    return "".join(str(block.get("text", "")) for block in blocks if isinstance(block, Mapping))


def _is_plain(message: Event, run: Sequence[Event]) -> bool:
    """Return whether a message is whole, and nothing was said twice because the model was asked again."""
    return not message.document.get("truncated") and all(event.type != "retry_scheduled" for event in run)


def judge_heartbeats(invocation: Mapping[str, Any] | None, output: Output) -> Iterator[Finding]:
    """Find the first silence that was too long. An interval that is not above 0 requests no heartbeats."""
    limits = (invocation or {}).get("limits")
    interval = limits.get("heartbeat_interval_seconds") if isinstance(limits, Mapping) else None
    if not isinstance(interval, int | float) or isinstance(interval, bool) or interval <= 0:
        return
    for before, after in chain.from_iterable(map(pairwise, output.runs)):
        silence = after.seconds - before.seconds
        if silence > 2 * interval + HEARTBEAT_SLACK_SECONDS:
            yield after.breaks("AOX-080", f"an event at least every {2 * interval:g} s", f"{silence:.1f} s of silence")
            return


def judge_clock(seen: Evidence) -> Iterator[Finding]:
    """Find the first event whose timestamp is not the current time, or that came long after its timestamp."""
    for event in seen.output.events:
        shown = str(event.document.get("timestamp"))
        try:
            told = datetime.fromisoformat(shown).timestamp()
        except ValueError:
            continue
        precision = 0.0 if "." in shown else 1.0
        late = seen.played.began_clock + event.seconds - told - precision
        if abs(late) > CLOCK_SECONDS:
            yield event.breaks("AOX-072", "the time in UTC", f"{shown}, which is {late / 3600:+.1f} h off")
            return
        if late > LATE_SECONDS:
            found = f"it tells of a moment {late:.1f} s before it came"
            wanted = "an event within 250 ms of what it tells of"
            yield Finding("AOX-191", wanted, found, line=event.line, lateness=Lateness.EVENT)
            return


def find_delay(seen: Evidence) -> Finding | None:
    """Return a finding if the first event came late.

    Such a play shows nothing else: the player's actions wait for events, and come after the run is over.
    """
    played, events = seen.played, seen.output.events
    if not events:
        return None
    first, waited, works = events[0], events[0].seconds - played.began_at, played.vector.works_for_seconds
    come_together = events[-1].is_terminal and events[-1].seconds - first.seconds <= AT_ONCE_SECONDS
    if come_together and works >= LONG_WORK_SECONDS and works <= waited <= works + LONG_WORK_SECONDS:
        found = f"all {len(events)} came together after {waited:.1f} s; flush stdout behind each line"
        return first.breaks("AOX-191", "run_started while the work goes on", found)
    if waited <= START_SECONDS:
        return None
    if played.model_asked_at is not None and first.seconds - played.model_asked_at > LONG_WORK_SECONDS:
        found = f"the first came {first.seconds - played.model_asked_at:.1f} s after the model was asked; flush stdout"
        return first.breaks("AOX-191", "events while the work goes on", found)
    if played.closed_at is not None and 0 < first.seconds - played.closed_at < LONG_WORK_SECONDS:
        found = f"nothing came until stdin was closed after {played.closed_at - played.began_at:.1f} s"
        return first.breaks("AOX-040", "events while stdin is open, as soon as the line is complete", found)
    return first.breaks("AOX-091", "run_started within 10 s", f"it came after {waited:.1f} s")


def judge_ending(seen: Evidence) -> Iterator[Finding]:
    """Find errors in the end of the process."""
    played = seen.played
    terminal = next((event for event in reversed(seen.output.events) if event.is_terminal), None)
    if terminal is None:
        if played.exit_code == 0 and "AOX-110" in played.vector.requirements:
            yield Finding("AOX-110", "another exit than 0, for there is no result", "exit 0")
        return
    wanted = "an exit within 5 s of the terminal event"
    if played.exited_at is None:
        if not played.takes_turns:
            yield Finding("AOX-193", wanted, "the process lived on", line=terminal.line, lateness=Lateness.EXIT)
        return
    late = played.exited_at - max(terminal.seconds, played.last_action_at if played.takes_turns else 0.0)
    if played.left_with_stdin:
        found = "the process stayed until stdin was closed"
        yield terminal.breaks("AOX-058", "an exit behind the run, for no turns are asked for", found)
    elif late > EXIT_SECONDS:
        yield Finding("AOX-193", wanted, f"after {late:.1f} s", line=terminal.line, lateness=Lateness.EXIT)
    if played.stdout_ended_at is None:
        holds = "; ".join(played.left_behind)[:500] or "something"
        yield Finding("AOX-193", "the end of stdout once the process has exited", f"still held by {holds}")
    met_behind_its_end = played.cancelled_at is not None and terminal.seconds <= played.last_action_at
    if not (met_behind_its_end and played.exit_code in DIED_OF_SIGTERM):
        yield from _judge_exit_code(terminal, played.exit_code)  # else a SIGTERM of the suite came behind the event


def _judge_exit_code(terminal: Event, code: int | None) -> Iterator[Finding]:
    is_result = terminal.type == "result"
    retryable = "retryable" if terminal.error.get("retryable") else "not retryable"
    failure = f"the failure {terminal.error.get('type')} ({terminal.document.get('status')}, {retryable})"
    words, agreed = "a result" if is_result else failure, agreed_exit_code(terminal)
    if (code == 0) != is_result:
        wanted = "exit 0" if is_result else "another exit than 0"
        yield terminal.breaks("AOX-110", f"{wanted}, which agrees with {words}", describe_exit(code))
    elif agreed is not None and code != agreed:
        yield terminal.breaks("AOX-108", f"exit {agreed}, which agrees with {words}", describe_exit(code))


def agreed_exit_code(terminal: Event) -> int | None:
    """Return the exit code that agrees with a terminal event; None if the event is too broken to decide."""
    if terminal.type == "result":
        return 0
    error = terminal.error
    status = terminal.document.get("status")
    if not isinstance(error.get("type"), str) or not isinstance(error.get("retryable"), bool):
        return None
    if (status == "cancelled") != (error["type"] == "cancelled"):
        return None
    return int(exit_code_of_failure(str(status), error["type"], retryable=error["retryable"]))


def describe_end(played: PlayResult) -> str:
    """Return a text for people about the end of the judged process."""
    if played.killed:
        return f"it had to be killed after {played.vector.within_seconds:g} s"
    return describe_exit(played.exit_code)


def describe_exit(code: int | None) -> str:
    """Return a text for people about an exit code; None means that the process did not exit by itself."""
    return "it had to be killed" if code is None else exit_text(code)


def judge_unasked(seen: Evidence) -> Iterator[Finding]:
    """Find output that came before the invocation."""
    played = seen.played
    early = next((line for line in played.lines if line.seconds < played.asked_at), None)
    if early is not None:
        is_prepared = any((action.line or {}).get("type") == "prepare" for action in played.vector.actions)
        rule = "AOX-069" if is_prepared else "AOX-203"
        shown = early.raw[:120].decode(errors="backslashreplace").rstrip()
        yield Finding(rule, "nothing before the invocation", shown, line=early.number)


def judge_leftovers(played: PlayResult) -> Iterator[Finding]:
    """Find processes that outlived the judged one."""
    if played.left_behind and played.stdout_ended_at is not None:
        found = "; ".join(played.left_behind)[:500]
        if (played.exit_code or 0) < 0 and played.cancelled_at is not None:
            found += "; the signal ended only what was started here: if that is a wrapper, let it `exec` the program"
        yield Finding("AOX-194", "no descendant once the process has exited", found)


def judge_left_files(seen: Evidence) -> Iterator[Finding]:
    """Find files that a run left, if no tool can have made them and the process had time to remove them."""
    played = seen.played
    has_tools = any(event.type == "tool_started" for event in seen.output.events)
    if played.exit_code is None or played.exit_code < 0 or has_tools:
        return
    if played.vector.priors:
        return  # an earlier process may still be alive, or was killed
    is_about = "AOX-206" in played.vector.requirements  # elsewhere a server or a command may write into the project
    folders = ("tmp/", "project/") if is_about else ("tmp/",)
    if left := [name for name in played.left_files if name.startswith(folders)]:
        yield Finding("AOX-206", "no file of the executor's in TMPDIR and the project directory", ", ".join(left[:5]))


def judge_secrets(played: PlayResult) -> Iterator[Finding]:
    """Find places where a secret was disclosed."""
    if played.told_secret:
        yield Finding("AOX-198", "the value of a secret variable nowhere", "found in " + ", ".join(played.told_secret))


def judge_side_effects(seen: Evidence) -> Iterator[Finding]:
    """Find a failure that reports no side effects in a run that had some."""
    for run in seen.output.runs:
        terminal, changed = run[-1], seen.played.workspace_changed
        if terminal.error.get("side_effects") != "none":
            continue
        if any(event.type == "tool_started" for event in run):
            yield terminal.breaks("AOX-103", "side_effects possible, for a tool was started", "none")
        elif changed:
            expected = f"side_effects possible, or no change in the project directory; {OWN_FILES}"
            yield terminal.breaks("AOX-103", expected, f"side_effects none, and {', '.join(changed[:5])} changed")


def judge_input(seen: Evidence) -> Iterator[Finding]:
    """Find an invocation that a process did not read to its end while it was alive."""
    if seen.played.untaken_input and seen.played.exit_code is None:
        yield Finding("AOX-040", "the invocation is read", "the process took only a part of its line")
