"""Whether every line of stdout is an event, and its fields are those of the specification (SPEC 3, 5, 6, 10)."""

import json
import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from ao_conformance.judging.output import Event, Output, Unreadable
from ao_conformance.verdict import Finding
from ao_protocol.errors import REFUSALS
from ao_protocol.framing import MAX_EVENT_BYTES
from ao_protocol.published import CURRENT_SCHEMAS, load_schema, validator_for

if TYPE_CHECKING:
    from jsonschema_rs import Validator

COMBINED: Final = ("allOf", "oneOf", "anyOf")
OF_THIS_VERSION: Final = f"urn:ao-executor-protocol:{CURRENT_SCHEMAS}:"
LINE_FORM: Final = "AOX-020"
BOM: Final = b"\xef\xbb\xbf"
FAULTS_OF_A_DOCUMENT: Final = ("duplicate key", "is outside", "is too large", "nested deeper", "lone surrogate")
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


def unknown_fields(document: object, schema: str, part: str | None = None) -> list[str]:
    """Return the paths of the fields that a published schema, or a definition in it, does not name.

    An object for which the schema names no field, or whose names are free, may hold anything.
    """
    whole = _schema(schema)
    wanted = [(schema, whole)] if part is None else [(schema, _without_branches(whole)), (schema, whole["$defs"][part])]
    return list(_unknown(document, wanted, "$"))


def _unknown(value: object, wanted: Sequence[tuple[str, Any]], path: str) -> Iterator[str]:
    schemas = [one for home, schema in wanted for one in _parts(home, schema)]
    if isinstance(value, list):
        items = [(home, schema["items"]) for home, schema in schemas if "items" in schema]
        for index, element in enumerate(value):
            yield from _unknown(element, items, f"{path}[{index}]")
    if not isinstance(value, dict):
        return
    free = [(home, schema["additionalProperties"]) for home, schema in schemas if "additionalProperties" in schema]
    names_some = any("properties" in schema for _, schema in schemas)
    for name, field in value.items():
        of_field = [
            (home, schema["properties"][name]) for home, schema in schemas if name in schema.get("properties", {})
        ]
        if of_field or free:
            yield from _unknown(field, of_field or free, f"{path}.{name}")
        elif names_some:
            yield f"{path}.{name}"


def _parts(home: str, schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return a schema, and what it refers to or is combined of, each with the name of the schema that it stands in."""
    yield home, schema
    if "$ref" in schema:
        file, _, place = schema["$ref"].partition("#/$defs/")
        other = file.removeprefix(OF_THIS_VERSION) or home
        yield from _parts(other, _schema(other)["$defs"][place] if place else _schema(other))
    for combined in COMBINED:
        for branch in schema.get(combined, ()):
            yield from _parts(home, branch)


def _without_branches(schema: dict[str, Any]) -> dict[str, Any]:
    return {name: rule for name, rule in schema.items() if name not in COMBINED}


@cache
def _schema(name: str) -> dict[str, Any]:
    return dict(load_schema(name))


def judge_lines(output: Output, broken_line: str = LINE_FORM) -> Iterator[Finding]:
    """Find what is no line of an event: noise, and lines of a wrong form.

    `broken_line` is the requirement that a line breaks which is JSON no more, as one that was cut off.
    """
    for line in output.lines:
        if line.raw.startswith(BOM):
            yield Finding(
                "AOX-020", "no byte-order mark on stdout", f"line {line.number} begins with one", line=line.number
            )
        if line.raw.endswith(b"\r\n"):
            yield Finding(
                "AOX-020", "a line that LF alone ends", f"line {line.number} ends with CR LF", line=line.number
            )
        if b"\\u" in line.raw and _has_lone_surrogate(line.raw):
            yield Finding(
                "AOX-032", "U+FFFD in the place of a lone surrogate", f"line {line.number} has one", line=line.number
            )
    yield from (_unreadable(wrong, broken_line) for wrong in output.unreadable)
    ended = bool(output.events) and output.events[-1].is_terminal
    if ended and output.unfinished.lstrip().startswith(b"{"):
        yield Finding(
            "AOX-020",
            "an LF behind the last event",
            f"stdout ends with {output.unfinished[-80:]!r}",
            line=len(output.lines) + 1,
        )


def _unreadable(wrong: Unreadable, broken_line: str) -> Finding:
    shown = wrong.raw[:120].decode(errors="backslashreplace")
    if any(fault in wrong.reason for fault in FAULTS_OF_A_DOCUMENT):
        return Finding("AOX-030", "a line that every receiver accepts", f"{wrong.reason}: {shown}", line=wrong.line)
    if not wrong.raw.strip():
        return Finding("AOX-020", "no blank line on stdout", f"line {wrong.line} is blank", line=wrong.line)
    if "event_type" in wrong.reason:
        return Finding("AOX-084", "an event_type in every object on stdout", shown, line=wrong.line)
    if wrong.is_json or "UTF-8" in wrong.reason or b"\x1b" in wrong.raw:
        return Finding(
            broken_line, "one JSON object in UTF-8 on each line", f"{wrong.reason}: {shown}", line=wrong.line
        )
    return Finding("AOX-190", "nothing but events on stdout", f"line {wrong.line} is {shown}", line=wrong.line)


def judge_sizes(output: Output, invocation: dict[str, Any] | None) -> Iterator[Finding]:
    """Find event lines that are longer than the invocation allows."""
    said = ((invocation or {}).get("limits") or {}).get("max_event_bytes")
    limit = int(said) if isinstance(said, int | float) else MAX_EVENT_BYTES
    for line in output.lines:
        if len(line.raw) > limit:
            yield Finding(
                "AOX-028",
                f"no event line over {limit} bytes",
                f"line {line.number} has {len(line.raw)}",
                line=line.number,
            )


def _has_lone_surrogate(raw: bytes) -> bool:
    try:
        text = json.dumps(json.loads(raw), ensure_ascii=False)
        text.encode()
    except UnicodeEncodeError:
        return True
    except (ValueError, RecursionError):
        return False
    return False


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
