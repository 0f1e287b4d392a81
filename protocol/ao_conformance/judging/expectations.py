"""Judge whether a play showed what its vector expects, or an alternative that the vector allows."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final

from ao_conformance.judging.output import Event, Output, read_output
from ao_conformance.judging.runs import describe_exit, figures_in
from ao_conformance.matching import difference, in_order
from ao_conformance.play_result import PlayResult
from ao_conformance.verdict import Finding, Lateness, Verdict

NO_ANSWER: Final = frozenset({"schema_validation_failed", "output_schema_validation_failed"})
SLACK_SECONDS: Final = 2.0
"""Added to the limits of a vector, because the tester's machine may be busy."""
READ_WHOLE: Final = "the invocation is read as one line, which LF alone ends, and "
UNREADABLE: Final = "AOX-021"
"""Broken if a line that every receiver accepts is refused as `invalid_json`."""
OF_FIELD: Final = {
    "error.origin": "AOX-100",
    "output.schema_source": "AOX-176",
    "output.retry_count": "AOX-176",
    "output.strategy": "AOX-179",
    "output.sent": "AOX-179",
    "output.delivered_by": "AOX-179",
}
"""The requirements of single fields of the terminal event."""
UNINVITED: Final = "AOX-060"
"""Broken if a run ends as cancelled that nothing cancelled and whose stdin is not open for control."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A part of an expectation that was not met."""

    finding: Finding
    is_another_ending: bool = False
    """Whether the run ended differently: with another kind of terminal event, or another error."""
    part: str = ""
    """The part of the expectation, if it may repeat a broken rule for any run; else empty."""
    may_be: bool = False
    """Whether this is a moment that never came and, by the vector, does not have to come."""


def judge_expectations(played: PlayResult, output: Output) -> list[Difference]:
    """Return the differences from the expectation that is met best; empty if one of them is met.

    Only the first error is returned: a run that gave up early, a moment that never came, the ending. If the last event
    cannot be read, the ending is unknown; the rules for lines report such an event.
    """
    if output.ends_unreadably:
        return []
    if gave_up := _gave_up(played, output):
        return [gave_up]
    if played.unreached:
        unreached = Difference(_unreached(played, output), may_be=played.vector.may_not_come)
        return [_run_that_ended_otherwise(played, output) or unreached]
    attempts = [list(_differences(played, output, expected)) for expected in played.expectations]
    if not all(attempts):
        return []
    best = min(attempts, key=len)
    return [one for one in best if one.is_another_ending][:1] or best


def _gave_up(played: PlayResult, output: Output) -> Difference | None:
    """Return a difference if a run failed without a valid answer while the model still had one."""
    if not played.answers_left or any(expected.get("unused_answers") for expected in played.expectations):
        return None
    failure = next((event for event in output.events if event.error.get("type") in NO_ANSWER), None)
    if failure is None:
        return None
    left = f"{played.answers_left} of its answers are left"
    finding = Finding("AOX-171", "the model is asked again, as often as the contract says", left, line=failure.line)
    return Difference(finding, is_another_ending=True)


def judge_remarks(played: PlayResult) -> Iterator[Finding]:
    """Find the problems that the player observed, and wrong requests to the model."""
    for what, text in played.remarks:
        yield Finding(played.vector.blamed(what), what.replace("_", " "), text)
    is_echo = played.model_requests is None
    expected = "the model is asked as the vector's model_script expects"
    asked = "the agent is given what SPEC 8 says" if is_echo else expected
    may_be = bool(played.unreached) and played.vector.may_not_come
    for problem in () if may_be else played.model_problems[:1]:
        part = problem.partition(".expect.")[2].partition(":")[0]
        blamed = played.vector.blames.get(f"model.{part}", played.vector.blamed("model"))
        yield Finding(blamed, asked, problem)


def _run_that_ended_otherwise(played: PlayResult, output: Output) -> Difference | None:
    """Return why a moment of a later run never came: an earlier run ended differently, though its work was done."""
    wanted = played.expectations[0].get("runs", []) if not played.vector.works_for_seconds else []
    return next(_kinds_of_endings(played, wanted, [event for event in output.endings if event.is_terminal]), None)


def _unreached(played: PlayResult, output: Output) -> Finding:
    moment, vector = played.unreached[0], played.vector
    if played.exit_code is not None and (
        blamed := vector.blames.get(f"unreached {moment}", vector.blames.get("unreached"))
    ):
        return Finding(blamed, f"the moment `{moment}`", "the process left before it")
    rule, expected = vector.requirements[0], f"the moment `{moment}` of the vector"
    last = output.events[-1] if output.events else None
    if last is not None and last.type == "failure" and not vector.source.get("unreached"):
        return last.breaks(rule, expected, f"the run failed: {last.error.get('message')}")
    advice = "see the transcript"
    if moment.startswith("event:input_requested") and vector.source.get("environment"):
        advice = "ask: honour AO_CONFORM_ASK (SPEC 12)"
    elif vector.works_for_seconds:
        advice = "let the work last: honour AO_CONFORM_LINGER_SECONDS (SPEC 12)"
    return Finding(rule, expected, f"it never came, so that nothing could be tested; {advice}", Verdict.UNTESTABLE)


def _differences(played: PlayResult, output: Output, expected: Mapping[str, Any]) -> Iterator[Difference]:
    yield from _endings(played, output, expected)
    yield from _process(played, output, expected)
    if expected.get("stdout", "events") == "events":
        yield from _events(played, output, expected)
    elif expected["stdout"] == "nothing" and (output.lines or output.unfinished):
        text = (output.lines[0].raw if output.lines else output.unfinished)[:200].decode(errors="backslashreplace")
        yield _differs(played, "stdout", "nothing on stdout", text)
    yield from _around(played, output, expected)
    yield from _of_the_model(played, expected)
    yield from _of_the_prior(played, output, expected)
    yield from _of_usage(played, output, expected)


def _differs(
    played: PlayResult, part: str, expected: str, found: str, event: Event | None = None, repeats: str = ""
) -> Difference:
    """Return a difference that breaks the requirement that the vector blames; `repeats` becomes `Difference.part`."""
    finding = Finding(played.vector.blamed(part), expected, found, line=event.line if event else None)
    return Difference(finding, part=repeats)


def _ended_late(played: PlayResult, expected: str, found: str) -> Difference:
    late = _differs(played, "within_seconds", expected, found, repeats="end")
    return replace(late, finding=replace(late.finding, lateness=Lateness.END))


def _endings(played: PlayResult, output: Output, expected: Mapping[str, Any]) -> Iterator[Difference]:
    """Compare the number of runs and their endings, before anything else."""
    if played.killed:
        wanted = f"an end within {float(expected['within_seconds']):g} s"
        found = _ended_late(played, wanted, "the process lived on and was killed")
        has_ended = bool(output.events) and output.events[-1].is_terminal
        yield replace(found, is_another_ending=not has_ended)
        if not has_ended:
            return
    if expected.get("stdout", "events") != "events":
        return
    wanted_runs, endings = expected.get("runs", [expected]), output.endings
    if "runs" in expected and len(endings) != len(wanted_runs):
        different = _differs(played, "runs", f"{len(wanted_runs)} runs", f"{len(endings)}", repeats="runs")
        yield replace(different, is_another_ending=True)
    yield from _kinds_of_endings(played, wanted_runs, endings)


def _kinds_of_endings(
    played: PlayResult, wanted_runs: Sequence[Mapping[str, Any]], endings: Sequence[Event]
) -> Iterator[Difference]:
    for wanted, ending in zip(wanted_runs, endings, strict=False):
        kind = _kind_of_ending(wanted)
        told = kind.get("error.type") or kind.get("event_type")
        said = {name: _member(ending.document, name) for name in kind}
        if said.get("error.type") == kind.get("error.type") == "cancelled":
            kind.pop("status", None)  # AOX-102 judges it
        if text := next((text for name in kind if (text := difference(kind[name], said[name], f"$.{name}"))), None):
            message, blamed = ending.error.get("message"), attribute_ending(played, ending)
            ends = f"the run ends with {'' if told == 'result' else 'the failure '}{told}"
            expects = f"{READ_WHOLE if blamed == UNREADABLE else ''}{ends}"
            finding = ending.breaks(blamed, expects, f"{text} ({message})" if message else text)
            yield Difference(finding, is_another_ending=True, part="ending")


def _kind_of_ending(wanted: Mapping[str, Any]) -> dict[str, Any]:
    terminal = wanted.get("terminal", {})
    last = (wanted.get("events") or ["*"])[-1]
    event_type = terminal.get("event_type") or (None if last == "*" else last)
    kind = {"event_type": event_type, **{name: _member(terminal, name) for name in ("status", "error.type")}}
    return {name: value for name, value in kind.items() if value is not None}


def _member(document: Mapping[str, Any], name: str) -> Any:  # noqa: ANN401  # any JSON
    first, _, rest = name.partition(".")
    value = document.get(first)
    return value.get(rest) if rest and isinstance(value, Mapping) else None if rest else value


def _process(played: PlayResult, output: Output, expected: Mapping[str, Any]) -> Iterator[Difference]:
    took = (played.exited_at or 0.0) - max(played.began_at, played.last_action_at)
    allowed, codes = float(expected["within_seconds"]), expected.get("exit")
    has_result = any(event.type == "result" for event in output.events)
    if not played.killed and took > allowed + SLACK_SECONDS:
        yield _ended_late(played, f"an end within {allowed:g} s", f"after {took:.1f} s")
    if codes and not played.killed and played.exit_code not in codes:
        wanted = "exit " + " or ".join(map(str, codes))
        yield _differs(played, "exit", wanted, describe_exit(played.exit_code), repeats="exit")
    if expected.get("fails") and not played.killed and (played.exit_code == 0 or has_result):
        found = "a result" if has_result else describe_exit(played.exit_code)
        yield _differs(played, "exit", "another exit than 0, and no result", found, repeats="fails")
    if expected.get("stderr") == "something" and not played.stderr.strip():
        yield _differs(played, "stderr", "help on stderr", "nothing")


def _events(played: PlayResult, output: Output, expected: Mapping[str, Any]) -> Iterator[Difference]:
    runs, events = output.runs, output.events
    if not runs and ("events" in expected or "terminal" in expected or "runs" in expected):
        yield _differs(played, "terminal", "events", "none came", repeats="events")
        return
    for wanted, run, ending in zip(expected.get("runs", [expected]), runs, output.endings, strict=False):
        yield from _run(played, run, ending, wanted)
    gap = expected.get("gap")
    if not gap or not events:
        return
    early = next((event for event in events if event.type == gap["event"]), None)
    apart = events[-1].seconds - early.seconds if early else 0.0
    if early is None:
        yield _differs(played, "gap", f"a {gap['event']}", "none came")
    elif apart < float(gap["seconds"]):
        text = f"{gap['event']} at least {gap['seconds']} s before the end of the run"
        yield _differs(played, "gap", text, f"{apart:.2f} s before", early)


def _run(played: PlayResult, run: Sequence[Event], ending: Event, wanted: Mapping[str, Any]) -> Iterator[Difference]:
    types = [event.type for event in run]
    if "events" in wanted and not in_order(wanted["events"], types):
        order = " → ".join(wanted["events"])
        yield _differs(played, "events", order, " → ".join(types), run[-1], repeats="events")
    if "first" in wanted and (text := difference(wanted["first"], run[0].document)):
        yield _differs(played, "first", "the first event as the vector has it", text, run[0], repeats="first")
    if "terminal" in wanted and (text := difference(wanted["terminal"], ending.document)):
        place = text.partition(" ")[0].partition("[")[0].removeprefix("$.")
        blamed = OF_FIELD.get(place, played.vector.blamed("terminal"))
        yield Difference(ending.breaks(blamed, "the terminal event as the vector has it", text), part="terminal")
    for event_type, fields in wanted.get("holds", {}).items():
        for event in run:
            if event.type == event_type and (text := difference(fields, event.document)):
                what = f"{event_type} as the vector has it"
                yield _differs(played, f"holds.{event_type}", what, text, event, repeats="holds")


def _around(played: PlayResult, output: Output, expected: Mapping[str, Any]) -> Iterator[Difference]:
    if expected.get("workspace") == "unchanged" and played.workspace_changed:
        yield _differs(played, "workspace", "no change in the workspace", ", ".join(played.workspace_changed[:5]))
    for name, wanted in expected.get("files", {}).items():
        if text := difference(wanted, played.files.get(name), name):
            yield _differs(played, "files", f"the file {name} as the vector has it", text)
    for text in expected.get("not_in_events", []):
        event = next((event for event in output.events if text in str(event.document)), None)
        if event is not None:
            yield _differs(played, "not_in_events", f"{text!r} in no event", f"it stands in {event.type}", event)


def _of_the_model(played: PlayResult, expected: Mapping[str, Any]) -> Iterator[Difference]:
    wanted, trace = expected.get("model_requests"), expected.get("trace_id")
    if wanted is not None and played.model_requests not in {wanted, None}:
        yield _differs(played, "model_requests", f"{wanted} requests to the model", f"{played.model_requests}")
    if played.vector.model_script and played.answers_left and not expected.get("unused_answers"):
        left = f"{played.answers_left} are left"
        yield _differs(played, "model", "every answer of the model_script is asked for", left)
    if (other := expected.get("other_trace_id")) and other in played.trace_ids:
        yield _differs(played, "trace_id", f"no request to the model in the trace {other}", "one is")
    yield from _asked_apart(played, expected.get("asked_apart", []))
    if trace and (not played.trace_ids or set(played.trace_ids) != {trace}):
        found = f"{played.trace_ids or 'none'}"
        yield _differs(played, "trace_id", f"the trace {trace} in every request to the model", found)


def _asked_apart(played: PlayResult, said: Sequence[str]) -> Iterator[Difference]:
    """Find words that no request to the model has, and a request with those of two runs."""
    for words in said if played.asked else ():
        if not any(words in text for text in played.asked):
            yield _differs(played, "asked_apart", f"{words!r} in a request to the model", "it is in none")
    mixed = next((text for text in played.asked if sum(words in text for words in said) > 1), None)
    if mixed is not None:
        yield _differs(played, "asked_apart", "what one run says in a request to the model", mixed[:200])


def _of_the_prior(played: PlayResult, output: Output, expected: Mapping[str, Any]) -> Iterator[Difference]:
    code = played.prior_exit_code
    if "prior_exit" in expected and code != expected["prior_exit"]:
        wanted = f"exit {expected['prior_exit']} of the process before"
        repeats = "exit" if code is not None else "end"
        yield _differs(played, "prior_exit", wanted, describe_exit(code), repeats=repeats)
    for text in expected.get("not_in_prior_events", []):
        if any(text.encode() in line.raw for line in played.prior_lines):
            wanted = f"{text!r} in no event of the process before"
            yield _differs(played, "not_in_prior_events", wanted, "it stands in one")
    least = expected.get("after_prior_seconds")
    if least is not None and output.events and played.prior_lines:
        apart = output.events[-1].seconds - played.prior_lines[-1].seconds
        if apart < least:
            wanted = "a run that waits for the one that uses the session"
            yield _differs(played, "after_prior_seconds", wanted, f"it ended {apart:.1f} s after it")


def _of_usage(played: PlayResult, output: Output, expected: Mapping[str, Any]) -> Iterator[Difference]:
    """Compare the figures that both the first and the last run tell."""
    runs = [*read_output(played.prior_lines, b"").runs, *output.runs]
    if "used" not in expected or not runs:
        return
    first, last = (dict(chain.from_iterable(figures_in(event).items() for event in run)) for run in (runs[0], runs[-1]))
    for name in sorted(first.keys() & last.keys()):
        wanted = first[name] * expected["used"]
        if abs(last[name] - wanted) > wanted / 100:
            text = f"{name} of this run alone: {wanted:g}, {expected['used']} times as much as that of the run before"
            yield _differs(played, "used", text, f"{last[name]:g}", repeats="used")


def attribute_ending(played: PlayResult, terminal: Event) -> str:
    """Return the requirement that is broken if a run ends differently from the vector's expectation."""
    source = played.vector.source
    is_about_lines = "raw_stdin" in source or "pad_to_bytes" in source
    if terminal.error.get("type") == "invalid_json" and played.invocation is not None and not is_about_lines:
        return UNREADABLE  # a valid line was refused
    if terminal.error.get("type") == "cancelled" and played.cancelled_at is None and not played.listens:
        return played.vector.stands_for(UNINVITED)
    if terminal.type == "result" and "result" in played.vector.blames:
        return played.vector.blames["result"]
    return played.vector.blamed("terminal")
