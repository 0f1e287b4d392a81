"""Judge a play of a runner: the rules for any run, then the vector's expectations (SPEC 11)."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

from ao_conformance.judging.events import BOM, RUNNER_ALONE, judge_event
from ao_conformance.judging.judge import first_of_each
from ao_conformance.judging.output import Event, Output, read_output
from ao_conformance.judging.runs import judge_runs
from ao_conformance.matching import difference, in_order
from ao_conformance.runner_suite.runner_play import (
    RunnerPlayResult,
    answers_of,
    invocations_of,
    passed_by,
    starts_of,
    stops_of,
)
from ao_conformance.verdict import Finding
from ao_protocol.framing import MAX_INVOCATION_BYTES, NotIJson, decode_object
from ao_protocol.json_path import path_to
from ao_protocol.lifecycle import KnownOfRun, complete_event
from ao_protocol.published import validator_for

WITH_OPTIONAL_FIELDS: Final = ("limits", "control", "agent_blueprint")
"""The members of an invocation that have optional fields, beside its top level."""
ALWAYS_PASSED: Final = frozenset({"PATH", "HOME", "LANG", "TZ", "TMPDIR", "AO_REJECTED_ANSWERS"})
RUNG: Final = {"cancel": 0, "eof": 1, "TERM": 2, "INT": 2, "HUP": 2}
OF_RUNNERS: Final = {"AOX-092": "AOX-240", "AOX-071": "AOX-235", "AOX-043": "AOX-232", "AOX-254": "AOX-254"}
"""The runner's requirement for each rule of section 5 that its events can break; AOX-242 for all other rules."""
NOT_OF_RUNNERS: Final = frozenset({"AOX-016", "AOX-078", "AOX-079", "AOX-081", "AOX-083", "AOX-105"})
"""A runner has its own error types, and relays unknown fields and whatever breaks no rule of section 5.1."""
WITHOUT_END: Final = "AOX-092"
IN_EVERY_PLAY: Final = ("AOX-235", "AOX-240", "AOX-242", "AOX-247", "AOX-254", "AOX-263")
IN_EVERY_RUN: Final = (
    *("AOX-228", "AOX-230", "AOX-231", "AOX-232", "AOX-236"),
    *("AOX-237", "AOX-244", "AOX-245", "AOX-246", "AOX-250"),
)
UNKNOWN: Final = KnownOfRun("", "", {}, "")
MOST_VARIABLES: Final = 8
STDERR_SHOWN: Final = 300


Difference = tuple[str, str, str]
"""The part of `expect`, what was expected, and what was found."""


def judge(played: RunnerPlayResult) -> list[Finding]:
    """Return all findings of a play, with those of the expectation that is met best."""
    output = read_output(played.lines, played.unfinished_line, takes_turns=False)
    always = [*_of_the_start(played), *_of_stopping(played), *_of_what_is_left(played, output)]
    found = []
    for expected in played.vector.expectations:
        of_output = [] if "nothing" in expected else list(_of_output(played, output))
        found.append(first_of_each([*of_output, *_of_vector(expected, played, output), *always]))
    return min(found, key=len)


def judged_in(played: RunnerPlayResult) -> tuple[str, ...]:
    """Return the requirements that the play could have shown as broken."""
    in_runs = IN_EVERY_RUN if starts_of(played.notes) else ()
    return tuple(dict.fromkeys((*played.vector.requirements, *IN_EVERY_PLAY, *in_runs)))


def _of_vector(expected: Mapping[str, Any], played: RunnerPlayResult, output: Output) -> list[Finding]:
    """Return the findings of the vector's own expectation.

    If the executor was not started, that is the only finding. Without an end of the run, the expectation shows nothing.
    """
    refuses = "nothing" in expected
    may_begin = "file" not in played.vector.executor and not refuses
    has_ended = played.exit_code is not None
    if may_begin and has_ended and expected.get("starts", 1) and not starts_of(played.notes):
        requirement = played.vector.blames.get("starts", "AOX-230")
        return [Finding(requirement, "a start of the executor, without arguments", "it was not started for a run")]
    has_end = has_ended and any(event.is_terminal for event in output.events)
    if not (has_end or refuses):
        return []
    return [
        Finding(played.vector.blamed(part), wanted, found)
        for find_differences in (_of_events, _of_lines, _of_stops, _of_starts)
        for part, wanted, found in find_differences(expected, played, output)
    ]


def _of_output(played: RunnerPlayResult, output: Output) -> Iterator[Finding]:
    has_end = any(event.is_terminal for event in output.events)
    if played.exit_code is None:
        wanted = f"an end of the run and of the command within {played.vector.within_seconds:g} s"
        found = f"the command had not ended; {_instead(played, output)}"
        yield Finding(played.vector.blamed("within_seconds"), wanted, found)
    elif not has_end:
        yield Finding("AOX-240", "a terminal event: result or failure", _instead(played, output))
    for wrong in output.unreadable:
        yield Finding("AOX-242", "an event on each line", f"{wrong.reason}: {wrong.raw[:120]!r}", line=wrong.line)
    general = list[Finding]()
    for event in output.events:
        if lacking := _lacking(event):
            general.append(event.breaks("AOX-254", f"a complete {event.type}", f"without {lacking}"))
        else:
            general.extend(judge_event(event))
    of_runs = judge_runs(output, 1, _names_sent(played)) if output.events else ()
    general += [finding for finding in of_runs if has_end or finding.requirement != WITHOUT_END]
    for finding in general:
        if finding.requirement not in NOT_OF_RUNNERS:
            yield replace(finding, requirement=OF_RUNNERS.get(finding.requirement, "AOX-242"))


def _lacking(event: Event) -> str:
    """Return the names of the fields that SPEC 5.2 adds to an event and that it lacks."""
    tools = {str(event.document.get("tool_call_id")): ""}
    whole = complete_event(event.document, UNKNOWN, seq=1, timestamp="", open_tools=tools)
    added = whole.keys() - event.document.keys()
    return ", ".join(sorted(added)) or ("" if whole is event.document else "a field of error")


def _names_sent(played: RunnerPlayResult) -> dict[str, str] | None:
    """Return the names that the events must have; of several attempts or runs, only the session's."""
    sent = invocations_of(played.notes)
    is_single = len(sent) == 1 and not played.vector.resumes
    names = ("session_id", "run_id") if is_single else ("session_id",)
    return {name: sent[0][name] for name in names if sent[0].get(name)} if sent else None


def _instead(played: RunnerPlayResult, output: Output) -> str:
    last = f"the last event is {output.events[-1].type}" if output.events else "no event came"
    if played.exit_code is None and not starts_of(played.notes):
        last += ", the executor was not started for a run"
    left = "" if played.exit_code is None else f"; the command exited with {played.exit_code}"
    words = played.stderr[-STDERR_SHOWN:].decode(errors="replace").strip()
    return f"{last}{left}" + (f"; stderr ends with: {words}" if words else "")


def _of_the_start(played: RunnerPlayResult) -> Iterator[Finding]:
    starts = starts_of(played.notes)
    for start in starts[:1]:
        if start.fields["group"] == played.runner_group:
            yield Finding("AOX-230", "a process group of the executor's own", "it is in the group of the runner")
        if start.fields["folder"] != str(played.project_dir):
            yield Finding("AOX-228", f"the working directory {played.project_dir}", start.fields["folder"])
    named = {*played.vector.description.get("secrets", ()), *played.vector.description.get("environment", ())}
    given = [set(note.fields["environment"]) for note in played.notes if note.what in {"run", "describe"}]
    if stray := next(filter(None, (names - ALWAYS_PASSED - named for names in given)), None):
        shown = ", ".join(sorted(stray, key=lambda name: (not name.startswith("AO_"), name))[:MOST_VARIABLES])
        more = f" and {len(stray) - MOST_VARIABLES} more" if len(stray) > MOST_VARIABLES else ""
        wanted = "the variables of every executor and those that the description names"
        yield Finding("AOX-231", wanted, f"{shown}{more} too")
    if len(starts) > played.vector.may_start:
        wanted = f"{played.vector.may_start} at most starts of the executor"
        yield Finding(played.vector.blamed("starts"), wanted, f"{len(starts)}")
    yield from judge_invocations(played)


def _of_stopping(played: RunnerPlayResult) -> Iterator[Finding]:
    capabilities = played.vector.description.get("capabilities", {})
    for note in played.notes:
        if note.what == "control" and note.fields["line"].get("type") == "turn":
            yield Finding("AOX-236", "no turn before the run has ended", "a turn came")
    stops = [name for name, _ in stops_of(played.notes)]
    rungs = [RUNG[name] for name in stops]
    if rungs != sorted(rungs):
        yield Finding("AOX-246", "first cancel, then the end of stdin, then signals", ", ".join(stops))
    if "cancel" in stops and not capabilities.get("cancel"):
        yield Finding("AOX-246", "no cancel to an executor that does not declare it", "cancel was sent")
    controls = [sent.get("control") or {} for sent in invocations_of(played.notes)]
    if "cancel" in stops and any(control.get("stdin") != "open" for control in controls):
        yield Finding("AOX-246", "no cancel where the invocation does not open control", "cancel was sent")
    if passed_by(played.notes):
        found = "the group's leader heard it, and a process beside it in the group did not"
        yield Finding("AOX-246", "SIGTERM to the executor's process group, not to one process", found)


def _of_what_is_left(played: RunnerPlayResult, output: Output) -> Iterator[Finding]:
    if played.left_behind:
        requirement = played.vector.blames.get("left_behind", "AOX-247")
        wanted = "no process of the executor behind the end of the run"
        yield Finding(requirement, wanted, "; ".join(played.left_behind))
    if played.secret_found:
        yield Finding("AOX-263", "the value of a secret nowhere", f"found in {', '.join(played.secret_found)}")
    if starts_of(played.notes):
        for event in output.events:
            if event.error.get("type") in RUNNER_ALONE and event.error.get("side_effects") == "none":
                yield event.breaks("AOX-244", "side_effects possible, as the executor was started", "none")


def _of_events(expected: Mapping[str, Any], played: RunnerPlayResult, output: Output) -> Iterator[Difference]:
    events = output.events
    if "nothing" in expected and (events or played.exit_code in {0, None} or not played.stderr.strip()):
        yield "nothing", "no event, an exit code other than 0 and a sentence on stderr", _types(events)
    last = events[-1].document if events else {}
    if "terminal" in expected and (text := difference(expected["terminal"], last)):
        error = events[-1].error if events else {}
        words = f"; {error.get('type')}: {str(error.get('message'))[:200]}" if error else ""
        yield "terminal", f"a terminal event like {expected['terminal']}", text + words
    if "events" in expected and not in_order(expected["events"], [event.type for event in events]):
        yield "events", f"events {' '.join(expected['events'])}", _types(events)
    for pattern in expected.get("some", ()):
        if all(difference(pattern, event.document) for event in events):
            yield "some", f"an event like {pattern}", f"none among {_types(events)}"
    for pattern in expected.get("none", ()):
        for event in events:
            if difference(pattern, event.document) is None:
                yield "none", f"no event like {pattern}", f"line {event.line}"


def _of_lines(expected: Mapping[str, Any], played: RunnerPlayResult, output: Output) -> Iterator[Difference]:
    logs = [event for event in output.events if event.type == "log"]
    if expected.get("reported") and not any(log.document.get("level") in {"warning", "error"} for log in logs):
        yield "reported", "a log event of level warning or error that tells of it", _types(output.events)
    if told := expected.get("told"):
        words = [played.stderr.decode(errors="replace"), *(str(log.document.get("message")) for log in logs)]
        if not any(re.search(told, text) for text in words):
            yield "told", f"{told} on stderr or in a log event", "nothing of it"
    if expected.get("verbatim"):
        passed_on = b"".join(line.raw for line in played.lines)
        if passed_on != played.said:
            yield "verbatim", "every line as the executor wrote it", _first_difference(played.said, passed_on)
    limit = expected.get("max_memory_mib")
    if limit is not None and played.peak_memory_mib is not None and played.peak_memory_mib > limit:
        yield "max_memory_mib", f"at most {limit} MiB of memory", f"{played.peak_memory_mib:.0f} MiB"


def _of_stops(expected: Mapping[str, Any], played: RunnerPlayResult, output: Output) -> Iterator[Difference]:
    starts = starts_of(played.notes)
    begins = played.signalled_at or (starts[0].at if starts else played.began_at)
    if "heard" in expected:
        stops = stops_of(played.notes)
        wanted = [step["what"] for step in expected["heard"]]
        if [name for name, _ in stops] != wanted:
            heard = ", ".join(name for name, _ in stops) or "nothing"
            yield "heard", f"the executor is stopped by {', '.join(wanted) or 'nothing'}", heard
        else:
            waits = [later - before for before, later in pairwise([begins, *(at for _, at in stops)])]
            for step, waited in zip(expected["heard"], waits, strict=True):
                least = step.get("after_seconds", 0)
                if waited < least:
                    yield "heard", f"{step['what']} {least} s after what was before", f"{waited:.1f} s"
    if output.events and (least := expected.get("after_seconds")):
        ended = played.began_at + output.events[-1].seconds - begins
        if ended < least:
            yield "after_seconds", f"{least} s of patience", f"the run was ended after {ended:.1f} s"


def _of_starts(expected: Mapping[str, Any], played: RunnerPlayResult, _output: Output) -> Iterator[Difference]:
    starts = starts_of(played.notes)
    if len(starts) < expected.get("starts", 0):
        yield "starts", f"{expected['starts']} starts of the executor for the run", str(len(starts))
    sent = invocations_of(played.notes)
    for number, pattern in enumerate(expected.get("invocations", ())):
        given = sent[number] if number < len(sent) else {}
        if text := difference(pattern, given):
            yield "invocations", f"the invocation of start {number + 1} like {pattern}", text
    if "answers" in expected and (text := difference(expected["answers"], answers_of(played.notes), "stdin")):
        yield "answers", f"{len(expected['answers'])} answers to the executor: {expected['answers']}", text
    names = set(starts[0].fields["environment"]) if starts else set()
    if missing := sorted(set(expected.get("variables", ())) - names):
        yield "variables", "every variable that the description names and the runner has", f"without {missing}"


def _types(events: Sequence[Event]) -> str:
    return " ".join(event.type for event in events[:20]) + (" …" if len(events) > 20 else "") or "no event"


def _first_difference(said: bytes, passed_on: bytes) -> str:
    lines, others = said.split(b"\n"), passed_on.split(b"\n")
    for number, (one, other) in enumerate(zip(lines, others, strict=False), 1):
        if one != other:
            same = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), len(min(one, other)))
            begin = max(same - 20, 0)
            found = f"{one[begin : begin + 160]!r} became {other[begin : begin + 160]!r}"
            return f"line {number} of {len(one) + 1:,} bytes, at byte {same}: {found}"
    return f"{len(lines) - 1} lines became {len(others) - 1}"


def judge_invocations(played: RunnerPlayResult) -> Iterator[Finding]:
    """Find errors in each invocation, and differences between invocations."""
    sent = invocations_of(played.notes)
    for note in played.notes:
        if note.what == "no_object":
            yield Finding("AOX-237", "one JSON object on each line of stdin", f"{note.fields['text']!r}")
    if starts_of(played.notes) and not played.vector.executor.get("deaf") and not sent:
        yield Finding("AOX-237", "an invocation on stdin, and a line end behind it", "no such line came")
    for line in played.invocation_lines:
        yield from _of_the_line(line)
    versions = played.vector.description["schema_versions"]
    for invocation in sent:
        for name in ("run_id", "session_id"):
            if not isinstance(invocation.get(name), str) or not invocation[name]:
                yield Finding("AOX-232", f"a {name} in the invocation", f"{invocation.get(name)!r}")
        if invocation.get("schema_version") not in versions:
            yield Finding("AOX-250", f"a version among {versions}", f"{invocation.get('schema_version')!r}")
        yield from _of_the_form(invocation)
    if len({str(invocation.get("session_id")) for invocation in sent}) > 1:
        yield Finding("AOX-232", "the same session_id in every run of the session", "several")


def _of_the_line(line: bytes) -> Iterator[Finding]:
    if line.startswith(BOM):
        yield Finding("AOX-237", "an invocation without a byte-order mark", f"{line[:20]!r}")
    if len(line) > MAX_INVOCATION_BYTES:
        yield Finding("AOX-237", f"an invocation of at most {MAX_INVOCATION_BYTES} bytes", f"{len(line)}")
    try:
        decode_object(line)
        json.dumps(json.loads(line), ensure_ascii=False).encode()
    except (NotIJson, UnicodeEncodeError) as error:
        yield Finding("AOX-237", "an invocation in I-JSON", str(error)[:300])


def _of_the_form(invocation: Mapping[str, Any]) -> Iterator[Finding]:
    """Find errors in the form of an invocation; ids and versions have rules of their own."""
    for place, fields in [("$", invocation), *((f"$.{name}", invocation.get(name)) for name in WITH_OPTIONAL_FIELDS)]:
        for name, value in fields.items() if isinstance(fields, Mapping) else ():
            if value is None:
                yield Finding("AOX-237", f"{place}.{name} with a value, or left out", "null")
    for problem in validator_for("invocation").iter_errors(invocation):
        place = path_to(problem.instance_path)
        if place not in {"$.run_id", "$.session_id", "$.schema_version"}:
            yield Finding("AOX-237", f"an invocation as SPEC 4 has it, at {place}", problem.message[:300])
