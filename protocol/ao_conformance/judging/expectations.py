"""Whether a play showed what its vector expects, or something else that the vector allows."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ao_conformance.judging.ending import describe_exit
from ao_conformance.judging.output import Event, Output
from ao_conformance.matching import difference, in_order
from ao_conformance.play_result import PlayResult
from ao_conformance.verdict import Finding, Verdict

NO_ANSWER: Final = frozenset({"schema_validation_failed", "output_schema_validation_failed"})
SLACK_SECONDS: Final = 2.0
READ_WHOLE: Final = "the invocation is read as one line, which LF alone ends, and "
"""Added to what a vector allows: the machine of a tester may be busy."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A part of an expectation that was not met."""

    finding: Finding
    is_another_ending: bool = False
    """The run ended in another way: with another kind of terminal event, or another error."""
    part: str = ""
    """The part of the expectation, where it matters."""
    may_be: bool = False
    """A moment never came, and the vector says that it does not have to come."""


def judge_expectations(played: PlayResult, output: Output) -> list[Difference]:
    """Return what differs from the expectation that is met best; nothing where one of them is met.

    The first thing that went wrong is told alone: a run that gave up early, a moment that never came, the ending. Of an
    ending that cannot be read nothing is known; that it cannot is told by the rules for lines.
    """
    if output.ends_unreadably:
        return []
    if gave_up := _gave_up(played, output):
        return [gave_up]
    if played.unreached:
        may_be = played.vector.source.get("unreached") == "not_applicable"
        return [_run_that_ended_otherwise(played, output) or Difference(_unreached(played, output), may_be=may_be)]
    attempts = [list(_differences(played, output, expected)) for expected in played.expectations]
    if not all(attempts):
        return []
    best = min(attempts, key=len)
    return [one for one in best if one.is_another_ending][:1] or best


def _gave_up(played: PlayResult, output: Output) -> Difference | None:
    """Return a difference where a run failed for want of a valid answer and the model still had one to give."""
    if not played.answers_left or any(expected.get("unused_answers") for expected in played.expectations):
        return None
    failure = next((event for event in output.events if event.error.get("type") in NO_ANSWER), None)
    if failure is None:
        return None
    left = f"{played.answers_left} of its answers are left"
    finding = Finding("AOX-171", "the model is asked again, as often as the contract says", left, line=failure.line)
    return Difference(finding, is_another_ending=True)


def judge_remarks(played: PlayResult) -> Iterator[Finding]:
    """Find what the player saw while it looked at the process."""
    for what, text in played.remarks:
        yield Finding(played.vector.blamed(what), what.replace("_", " "), text)
    is_echo = played.model_requests is None
    asked = (
        "the agent is given what SPEC 8 says" if is_echo else "the model is asked as the vector's model_script expects"
    )
    for problem in played.model_problems[:1]:
        part = problem.partition(".expect.")[2].partition(":")[0]
        blamed = played.vector.blames.get(f"model.{part}", played.vector.blamed("model"))
        yield Finding(blamed, asked, problem)


def _run_that_ended_otherwise(played: PlayResult, output: Output) -> Difference | None:
    """Return why a moment of a later run never came: one before it ended otherwise, though its work was done."""
    wanted = played.expectations[0].get("runs", []) if not played.vector.works_for_seconds else []
    return next(_kinds_of_endings(played, wanted, [event for event in output.endings if event.is_terminal]), None)


def _unreached(played: PlayResult, output: Output) -> Finding:
    moment = played.unreached[0]
    blames = played.vector.blames
    if played.exit_code is not None and (blamed := blames.get(f"unreached {moment}", blames.get("unreached"))):
        return Finding(blamed, f"the moment `{moment}`", "the process left before it")
    last = output.events[-1] if output.events else None
    if last is not None and last.type == "failure" and not played.vector.source.get("unreached"):
        return Finding(
            played.vector.requirements[0],
            f"the moment `{moment}` of the vector",
            f"the run failed: {last.error.get('message')}",
            line=last.line,
        )
    advice = (
        "let the work last: honour AO_CONFORM_LINGER_SECONDS (SPEC 12)"
        if played.vector.works_for_seconds
        else "see the transcript"
    )
    return Finding(
        played.vector.requirements[0],
        f"the moment `{moment}` of the vector",
        f"it never came, so that nothing could be tested; {advice}",
        Verdict.UNTESTABLE,
    )


def _differences(played: PlayResult, output: Output, expected: Mapping[str, Any]) -> Iterator[Difference]:
    yield from _endings(played, output, expected)
    yield from _process(played, output, expected)
    if expected.get("stdout", "events") == "events":
        yield from _events(played, output, expected)
    elif expected["stdout"] == "nothing" and (output.lines or output.unfinished):
        text = (output.lines[0].raw if output.lines else output.unfinished)[:200].decode(errors="backslashreplace")
        yield Difference(_finding(played, "stdout", "nothing on stdout", text))
    yield from map(Difference, _around(played, output, expected))
    yield from _of_the_prior(played, output, expected)


def _endings(played: PlayResult, output: Output, expected: Mapping[str, Any]) -> Iterator[Difference]:
    """Compare how the runs ended, and in what order their events came, before anything else."""
    if played.killed:
        allowed = float(expected["within_seconds"])
        finding = _finding(
            played, "within_seconds", f"an end within {allowed:g} s", "the process lived on and was killed"
        )
        has_ended = bool(output.events) and output.events[-1].is_terminal
        yield Difference(finding, is_another_ending=not has_ended, part="end")
        if not has_ended:
            return
    if expected.get("stdout", "events") != "events":
        return
    wanted_runs = expected.get("runs", [expected])
    endings = output.endings
    if "runs" in expected and len(endings) != len(wanted_runs):
        found = f"{len(endings)}"
        yield Difference(
            _finding(played, "runs", f"{len(wanted_runs)} runs", found), is_another_ending=True, part="runs"
        )
    yield from _kinds_of_endings(played, wanted_runs, endings)


def _kinds_of_endings(
    played: PlayResult, wanted_runs: Sequence[Mapping[str, Any]], endings: Sequence[Event]
) -> Iterator[Difference]:
    for wanted, ending in zip(wanted_runs, endings, strict=False):
        kind = _kind_of_ending(wanted)
        found = {name: _member(ending.document, name) for name in kind}
        if found.get("error.type") == kind.get("error.type") == "cancelled":
            kind.pop("status", None)  # AOX-102 judges it
        if text := next((text for name in kind if (text := difference(kind[name], found[name], f"$.{name}"))), None):
            said = ending.error.get("message")
            blamed = attribute_ending(played, ending)
            expected = f"{READ_WHOLE if blamed == UNREADABLE else ''}{_ending_text(wanted)}"
            finding = Finding(blamed, expected, f"{text} ({said})" if said else text, line=ending.line)
            yield Difference(finding, is_another_ending=True, part="ending")


def _kind_of_ending(wanted: Mapping[str, Any]) -> dict[str, Any]:
    terminal = wanted.get("terminal", {})
    kind = {}
    last = (wanted.get("events") or ["*"])[-1]
    if terminal.get("event_type") or last != "*":
        kind["event_type"] = terminal.get("event_type") or last
    for name in ("status", "error.type"):
        value = _member(terminal, name)
        if value is not None:
            kind[name] = value
    return kind


def _ending_text(wanted: Mapping[str, Any]) -> str:
    kind = _kind_of_ending(wanted)
    told = kind.get("error.type") or kind.get("event_type")
    return f"the run ends with {told}" if told == "result" else f"the run ends with the failure {told}"


def _member(document: Mapping[str, Any], name: str) -> Any:  # noqa: ANN401  # any JSON
    first, _, rest = name.partition(".")
    value = document.get(first)
    return value.get(rest) if rest and isinstance(value, Mapping) else None if rest else value


def _process(played: PlayResult, output: Output, expected: Mapping[str, Any]) -> Iterator[Difference]:
    took = (played.exited_at or 0.0) - max(played.began_at, played.last_action_at)
    allowed = float(expected["within_seconds"])
    if not played.killed and took > allowed + SLACK_SECONDS:
        finding = _finding(played, "within_seconds", f"an end within {allowed:g} s", f"after {took:.1f} s")
        yield Difference(finding, part="end")
    codes = expected.get("exit")
    if codes and not played.killed and played.exit_code not in codes:
        wanted = "exit " + " or ".join(map(str, codes))
        yield Difference(_finding(played, "exit", wanted, describe_exit(played.exit_code)), part="exit")
    if expected.get("fails") and not played.killed and (played.exit_code == 0 or _has_result(output)):
        found = "a result" if _has_result(output) else describe_exit(played.exit_code)
        yield Difference(_finding(played, "exit", "another exit than 0, and no result", found), part="fails")
    if expected.get("stderr") == "something" and not played.stderr.strip():
        yield Difference(_finding(played, "stderr", "help on stderr", "nothing"))


def _has_result(output: Output) -> bool:
    return any(event.type == "result" for event in output.events)


def _events(played: PlayResult, output: Output, expected: Mapping[str, Any]) -> Iterator[Difference]:
    runs = output.runs
    if not runs and ("events" in expected or "terminal" in expected or "runs" in expected):
        yield Difference(_finding(played, "terminal", "events", "none came"), part="events")
        return
    for wanted, run, ending in zip(expected.get("runs", [expected]), runs, output.endings, strict=False):
        yield from _run(played, run, ending, wanted)
    yield from map(Difference, _gap(played, output, expected))


def _run(played: PlayResult, run: Sequence[Event], ending: Event, wanted: Mapping[str, Any]) -> Iterator[Difference]:
    types = [event.type for event in run]
    if "events" in wanted and not in_order(wanted["events"], types):
        finding = _finding(played, "events", " → ".join(wanted["events"]), " → ".join(types), run[-1])
        yield Difference(finding, part="events")
    if "first" in wanted and (text := difference(wanted["first"], run[0].document)):
        finding = _finding(played, "first", "the first event as the vector has it", text, run[0])
        yield Difference(finding, part="first")
    if "terminal" in wanted and (text := difference(wanted["terminal"], ending.document)):
        blamed = attribute_field(played, text)
        finding = Finding(blamed, "the terminal event as the vector has it", text, line=ending.line)
        yield Difference(finding, part="terminal")
    yield from _holds(played, run, wanted)


def _holds(played: PlayResult, run: Sequence[Event], wanted: Mapping[str, Any]) -> Iterator[Difference]:
    for event_type, fields in wanted.get("holds", {}).items():
        for event in run:
            if event.type == event_type and (text := difference(fields, event.document)):
                what = f"{event_type} as the vector has it"
                yield Difference(_finding(played, f"holds.{event_type}", what, text, event), part="holds")


def _gap(played: PlayResult, output: Output, expected: Mapping[str, Any]) -> Iterator[Finding]:
    wanted = expected.get("gap")
    if not wanted or not output.events:
        return
    early = next((event for event in output.events if event.type == wanted["event"]), None)
    if early is None:
        yield _finding(played, "gap", f"a {wanted['event']}", "none came")
    elif output.events[-1].seconds - early.seconds < float(wanted["seconds"]):
        apart = output.events[-1].seconds - early.seconds
        yield _finding(
            played,
            "gap",
            f"{wanted['event']} at least {wanted['seconds']} s before the end of the run",
            f"{apart:.2f} s before",
            early,
        )


def _around(played: PlayResult, output: Output, expected: Mapping[str, Any]) -> Iterator[Finding]:
    if expected.get("workspace") == "unchanged" and played.workspace_changed:
        yield _finding(played, "workspace", "no change in the workspace", ", ".join(played.workspace_changed[:5]))
    for name, wanted in expected.get("files", {}).items():
        if text := difference(wanted, played.files.get(name), name):
            yield _finding(played, "files", f"the file {name} as the vector has it", text)
    for text in expected.get("not_in_events", []):
        for event in output.events:
            if text in str(event.document):
                yield _finding(played, "not_in_events", f"{text!r} in no event", f"it stands in {event.type}", event)
                break
    yield from _of_the_model(played, expected)


def _of_the_model(played: PlayResult, expected: Mapping[str, Any]) -> Iterator[Finding]:
    wanted = expected.get("model_requests")
    if wanted is not None and played.model_requests not in {wanted, None}:
        yield _finding(played, "model_requests", f"{wanted} requests to the model", f"{played.model_requests}")
    if played.vector.model_script and played.answers_left and not expected.get("unused_answers"):
        yield _finding(
            played, "model", "every answer of the model_script is asked for", f"{played.answers_left} are left"
        )
    trace = expected.get("trace_id")
    if trace and (not played.trace_ids or set(played.trace_ids) != {trace}):
        yield _finding(
            played, "trace_id", f"the trace {trace} in every request to the model", f"{played.trace_ids or 'none'}"
        )


def _of_the_prior(played: PlayResult, output: Output, expected: Mapping[str, Any]) -> Iterator[Difference]:
    if "prior_exit" in expected and played.prior_exit_code != expected["prior_exit"]:
        found = describe_exit(played.prior_exit_code)
        finding = _finding(played, "prior_exit", f"exit {expected['prior_exit']} of the process before", found)
        yield Difference(finding, part="exit" if played.prior_exit_code is not None else "end")
    for text in expected.get("not_in_prior_events", []):
        if any(text.encode() in line.raw for line in played.prior_lines):
            found = "it stands in one"
            yield Difference(
                _finding(played, "not_in_prior_events", f"{text!r} in no event of the process before", found)
            )
    wanted = expected.get("after_prior_seconds")
    if wanted is not None and output.events and played.prior_lines:
        apart = output.events[-1].seconds - played.prior_lines[-1].seconds
        if apart < wanted:
            wanted_text = "a run that waits for the one that uses the session"
            yield Difference(_finding(played, "after_prior_seconds", wanted_text, f"it ended {apart:.1f} s after it"))


def _finding(played: PlayResult, part: str, expected: str, found: str, event: Event | None = None) -> Finding:
    return Finding(played.vector.blamed(part), expected, found, line=event.line if event else None)


UNREADABLE: Final = "AOX-021"
"""Is broken where a line that every receiver accepts is refused as no JSON."""
OF_FIELD: Final = {
    "error.origin": "AOX-100",
    "output.schema_source": "AOX-176",
    "output.retry_count": "AOX-176",
    "output.strategy": "AOX-179",
    "output.sent": "AOX-179",
    "output.delivered_by": "AOX-179",
}
"""Requirements that a field of the terminal event has of its own."""
UNINVITED: Final = "AOX-060"
"""Is broken where a run is cancelled that nobody cancelled, and whose stdin is not open for control."""


def attribute_ending(played: PlayResult, terminal: Event) -> str:
    """Return the requirement that is broken where a run ended otherwise than its vector expects."""
    if _was_misread(played, terminal):
        return UNREADABLE
    if terminal.error.get("type") == "cancelled" and played.cancelled_at is None and not played.listens:
        return played.vector.stands_for(UNINVITED)
    if terminal.type == "result" and "result" in played.vector.blames:
        return played.vector.blames["result"]
    return played.vector.blamed("terminal")


def _was_misread(played: PlayResult, terminal: Event) -> bool:
    """Whether a good line was not understood, in a vector that is about something else than lines."""
    return (
        terminal.error.get("type") == "invalid_json"
        and played.invocation is not None
        and "raw_stdin" not in played.vector.source
        and "pad_to_bytes" not in played.vector.source
    )


def attribute_field(played: PlayResult, text: str) -> str:
    """Return the requirement of a field of the terminal event that differs, or the one that the vector blames."""
    place = text.partition(" ")[0].partition("[")[0]
    return OF_FIELD.get(place.removeprefix("$."), played.vector.blamed("terminal"))
