"""Whether each event is one: its fields by the published schema, and what the schema cannot say (SPEC 5, 6)."""

import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from ao_conformance.judging.reading import Event
from ao_conformance.judging.unknown_fields import unknown_fields
from ao_conformance.verdict import Finding
from ao_protocol.errors import REFUSALS
from ao_protocol.published import load_schema, validator_for

if TYPE_CHECKING:
    from jsonschema_rs import Validator

VENDOR: Final = re.compile(r"_[a-z0-9][a-z0-9_.-]*/[A-Za-z0-9_.-]+")
RUNNER_ALONE: Final = frozenset(
    {
        "executor_not_found",
        "executor_start_timeout",
        "executor_stalled",
        "executor_crashed",
        "missing_terminal",
        "protocol_violation",
        "cancel_timeout",
        "attempt_lost",
    }
)
"""The types of SPEC 6.2 that the runner says."""
OF_FORM: Final = "AOX-084"
MISSING: Final = re.compile(r'"(\w+)" is a required property')
VALIDATION_ERROR: Final = re.compile(
    r"\$(\.[A-Za-z_][A-Za-z0-9_-]*|\[[0-9]+\]|\[\"(?:[^\"\\]|\\.)*\"\])*: .+", re.DOTALL
)


def judge_event(event: Event) -> Iterator[Finding]:
    """Find what is wrong with one event by itself."""
    if event.type not in _known_types() and not VENDOR.fullmatch(event.type):
        yield _finding("AOX-074", "a type of SPEC 5, or _vendor/name", f"event_type is {event.type!r}", event)
        return
    yield from _by_schema(event)
    if event.type not in _known_types():
        return
    if unknown := unknown_fields(event.document, "event", event.type):
        yield _finding("AOX-016", f"the fields that SPEC 5 gives to {event.type}", ", ".join(unknown[:5]), event)
    if event.type == "failure":
        yield from _judge_error(event)
    if event.type == "result" and event.document.get("error") is not None:
        yield _finding("AOX-076", "a result without error", "both are there", event)


def _by_schema(event: Event) -> Iterator[Finding]:
    for problem in _envelope().iter_errors(event.document):
        place = _place(problem.instance_path)
        if _is_absent(event, place, problem.message):
            continue
        if place == "$.seq" and type(event.document["seq"]) is int:
            continue  # AOX-071 judges the number
        requirement = "AOX-072" if place == "$.timestamp" else OF_FORM
        yield _finding(requirement, f"{place} as the schema of events has it", problem.message[:300], event)
    if event.type not in _known_types():
        return
    for problem in _fields_of(event.type).iter_errors(event.document):
        place = _place(problem.instance_path)
        if _is_absent(event, place, problem.message):
            continue
        requirement = _requirement_of(event.type, place, problem.message)
        yield _finding(requirement, f"{place} of {event.type} as the schema has it", problem.message[:300], event)


def _requirement_of(event_type: str, place: str, message: str) -> str:
    """Return the requirement that a departure from the schema breaks."""
    if place in {"$.result_text", "$.result_data", "$.error"} and event_type == (
        "result" if place == "$.error" else "failure"
    ):
        return "AOX-076"
    if event_type == "result" and place == "$" and ("required" not in message or "result_" in message):
        return "AOX-075"
    if event_type != "failure":
        return OF_FORM
    if place.startswith("$.error.validation_errors"):
        return "AOX-107"
    if place == "$.error.type" and "cancelled" in message:
        return "AOX-102"
    return OF_FORM


def judge_completeness(event: Event) -> Iterator[Finding]:
    """Find what a receiver had to add to an event (SPEC 5.2): at standard it is there."""
    of_error = [name for name in event.absent if name.startswith("error.")]
    of_event = [name for name in event.absent if name not in of_error]
    if of_event:
        yield _finding("AOX-070", f"all that SPEC 5 requires of {event.type} at standard", _lacks(of_event), event)
    if of_error:
        yield _finding("AOX-100", "all that SPEC 6.1 requires at standard", _lacks(of_error), event)


def _lacks(names: list[str]) -> str:
    return f"it has no {', '.join(names)}"


def _is_absent(event: Event, place: str, message: str) -> bool:
    """Tell whether a departure from the schema is about a field that the executor left out."""
    missing = MISSING.match(message)
    return place.removeprefix("$.") in event.absent or (missing is not None and missing[1] in event.absent)


def _judge_error(event: Event) -> Iterator[Finding]:
    error = event.error
    kind = error.get("type")
    cancelled = event.document.get("status") == "cancelled"
    if isinstance(kind, str) and cancelled != (kind == "cancelled"):
        yield _finding(
            "AOX-102",
            "type cancelled exactly where the status is",
            f"status {event.document.get('status')!r}, type {kind!r}",
            event,
        )
    if kind in RUNNER_ALONE:
        yield _finding(
            "AOX-105", "a type that executors say", f"error.type is {kind!r}, which is the runner's word", event
        )
    for text in error.get("validation_errors") or []:
        if isinstance(text, str) and not VALIDATION_ERROR.fullmatch(text):
            yield _finding("AOX-107", "each validation error as `$.path: message`", f"{text[:200]!r}", event)
    if kind in REFUSALS:
        if error.get("retryable") is True:
            yield _finding("AOX-104", f"{kind} is a refusal and not retryable", "retryable is true", event)
        if error.get("side_effects") == "possible":
            yield _finding("AOX-104", f"{kind} is a refusal without side effects", "side_effects is possible", event)


def _finding(requirement: str, expected: str, found: str, event: Event) -> Finding:
    return Finding(requirement, expected, found, line=event.line)


def _place(path: list[Any]) -> str:
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)


@cache
def _known_types() -> frozenset[str]:
    branches: Any = load_schema("event")["oneOf"]
    return frozenset(branch["$ref"].rpartition("/")[2] for branch in branches) - {"vendor_event"}


@cache
def _envelope() -> "Validator":
    import jsonschema_rs

    schema = {name: rule for name, rule in load_schema("event").items() if name not in {"oneOf", "$defs", "$id"}}
    return jsonschema_rs.Draft202012Validator(schema)


@cache
def _fields_of(event_type: str) -> "Validator":
    return validator_for("event", part=event_type)
