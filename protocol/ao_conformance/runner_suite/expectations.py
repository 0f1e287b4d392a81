"""Whether a play went as its vector expects: each part of `expect` by itself."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from ao_conformance.judging.reading import Event, Output
from ao_conformance.matching import difference, in_order
from ao_conformance.runner_suite.journal import invocations_of, starts_of, stops_of
from ao_conformance.runner_suite.play import Played
from ao_conformance.verdict import Finding

Difference = tuple[str, str, str]
"""The part of `expect`, what was expected, what was found."""


def judge_expectation(expected: Mapping[str, Any], played: Played, output: Output) -> Iterator[Finding]:
    """Find what differs from one expectation of the vector."""
    for differences in (_of_events, _of_lines, _of_stops, _of_starts):
        for part, wanted, found in differences(expected, played, output):
            yield Finding(played.vector.blamed(part), wanted, found)


def _of_events(expected: Mapping[str, Any], played: Played, output: Output) -> Iterator[Difference]:
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


def _of_lines(expected: Mapping[str, Any], played: Played, output: Output) -> Iterator[Difference]:
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


def _of_stops(expected: Mapping[str, Any], played: Played, output: Output) -> Iterator[Difference]:
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


def _of_starts(expected: Mapping[str, Any], played: Played, _output: Output) -> Iterator[Difference]:
    starts = starts_of(played.notes)
    if len(starts) < expected.get("starts", 0):
        yield "starts", f"{expected['starts']} starts of the executor for the run", str(len(starts))
    sent = invocations_of(played.notes)
    for number, pattern in enumerate(expected.get("invocations", ())):
        given = sent[number] if number < len(sent) else {}
        if text := difference(pattern, given):
            yield "invocations", f"the invocation of start {number + 1} like {pattern}", text
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
