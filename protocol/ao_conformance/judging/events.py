"""Judge whether every line of stdout is an event with the fields of the specification (SPEC 3, 5, 6, 10)."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from ao_conformance.judging.output import Event, Evidence, Fault, Unreadable
from ao_conformance.verdict import Finding
from ao_protocol.errors import REFUSALS, RUNNER_ONLY, ErrorType
from ao_protocol.framing import MAX_EVENT_BYTES
from ao_protocol.json_path import path_to
from ao_protocol.published import load_schema, validator_for

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError, Validator

COMBINED: Final = ("allOf", "oneOf", "anyOf")
LINE_FORM: Final = "AOX-020"
BOM: Final = b"\xef\xbb\xbf"
VENDOR: Final = re.compile(r"_[a-z0-9][a-z0-9_.-]*/[A-Za-z0-9_.-]+")
RUNNER_ALONE: Final = RUNNER_ONLY - {ErrorType.SESSION_UNAVAILABLE}
"""The types of SPEC 6.2 that only a runner reports."""
OF_FORM: Final = "AOX-084"
VALIDATION_ERROR: Final = re.compile(
    r"\$(\.[A-Za-z_][A-Za-z0-9_-]*|\[[0-9]+\]|\[\"(?:[^\"\\]|\\.)*\"\])*: .+", re.DOTALL
)


def unknown_fields(document: object, schema: str, part: str | None = None) -> list[str]:
    """Return the paths of the fields that a published schema, or a definition in it, does not name.

    An object may have any field if the schema names no field of it or allows any name.
    """
    whole = _schema(schema)
    return list(_unknown(document, [(schema, whole if part is None else whole["$defs"][part])], "$"))


def _unknown(value: object, wanted: Sequence[tuple[str, Any]], path: str) -> Iterator[str]:
    schemas = [one for home, schema in wanted for one in _parts(home, schema)]
    if isinstance(value, list):
        items = [(home, schema["items"]) for home, schema in schemas if "items" in schema]
        for index, element in enumerate(value):
            yield from _unknown(element, items, f"{path}[{index}]")
    if not isinstance(value, dict):
        return
    free = [(home, rule) for home, schema in schemas if isinstance(rule := schema.get("additionalProperties"), dict)]
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
    """Yield a schema, and those that it refers to or combines, each with the name of the published schema around it."""
    yield home, schema
    if "$ref" in schema:
        file, _, place = schema["$ref"].partition("#/$defs/")
        other = file.removesuffix(".schema.json") or home
        yield from _parts(other, _schema(other)["$defs"][place] if place else _schema(other))
    for combined in COMBINED:
        for branch in schema.get(combined, ()):
            yield from _parts(home, branch)


@cache
def _schema(name: str) -> dict[str, Any]:
    return dict(load_schema(name))


def judge_lines(seen: Evidence) -> Iterator[Finding]:
    """Find lines that are not events: noise, and lines of a wrong form.

    If the play has events, a vector may blame another requirement for a broken line, such as one that was cut off.
    """
    output = seen.output
    for line in output.lines:
        if line.raw.startswith(BOM):
            found = f"line {line.number} begins with one"
            yield Finding("AOX-020", "no byte-order mark on stdout", found, line=line.number)
        if line.raw.endswith(b"\r\n"):
            found = f"line {line.number} ends with CR LF"
            yield Finding("AOX-020", "a line that LF alone ends", found, line=line.number)
        if b"\\u" in line.raw and _has_lone_surrogate(line.raw):
            wanted = "U+FFFD in the place of a lone surrogate"
            yield Finding("AOX-032", wanted, f"line {line.number} has one", line=line.number)
    broken_line = seen.played.vector.blames.get("broken_line", LINE_FORM) if output.events else LINE_FORM
    for wrong in output.unreadable:
        yield Finding(*_unreadable(wrong, broken_line), line=wrong.line)
    ended = bool(output.events) and output.events[-1].is_terminal
    if ended and output.unfinished.lstrip().startswith(b"{"):
        found = f"stdout ends with {output.unfinished[-80:]!r}"
        yield Finding("AOX-020", "an LF behind the last event", found, line=len(output.lines) + 1)


def _unreadable(wrong: Unreadable, broken_line: str) -> tuple[str, str, str]:
    """Return the requirement that a line breaks, what was expected, and what was found."""
    shown = wrong.raw[:120].decode(errors="backslashreplace")
    if wrong.fault is Fault.AMBIGUOUS:
        return "AOX-030", "a line that every receiver accepts", f"{wrong.reason}: {shown}"
    if not wrong.raw.strip():
        return "AOX-020", "no blank line on stdout", f"line {wrong.line} is blank"
    if wrong.fault is Fault.NO_EVENT:
        return OF_FORM, "an event_type in every object on stdout", shown
    if wrong.fault is Fault.FORM or b"\x1b" in wrong.raw:
        return broken_line, "one JSON object in UTF-8 on each line", f"{wrong.reason}: {shown}"
    return "AOX-190", "nothing but events on stdout", f"line {wrong.line} is {shown}"


def _has_lone_surrogate(raw: bytes) -> bool:
    try:
        json.dumps(json.loads(raw), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    except (ValueError, RecursionError):
        pass  # another finding reports a line that cannot be read
    return False


def judge_sizes(seen: Evidence) -> Iterator[Finding]:
    """Find event lines that are longer than the invocation allows."""
    invocation: Mapping[str, Any] = seen.played.invocation or {}
    said = (invocation.get("limits") or {}).get("max_event_bytes")
    limit = int(said) if isinstance(said, int | float) else MAX_EVENT_BYTES
    for line in seen.output.lines:
        if len(line.raw) > limit:
            found = f"line {line.number} has {len(line.raw)}"
            yield Finding("AOX-028", f"no event line over {limit} bytes", found, line=line.number)


def judge_events(seen: Evidence) -> Iterator[Finding]:
    """Find errors in each event, and fields that only the defaults of SPEC 5.2 supply: standard requires them."""
    for event in seen.output.events:
        yield from judge_event(event)
        of_error = [name for name in event.absent if name.startswith("error.")]
        of_event = [name for name in event.absent if name not in of_error]
        if of_event:
            wanted = f"all that SPEC 5 requires of {event.type} at standard"
            yield event.breaks("AOX-070", wanted, f"it has no {', '.join(of_event)}")
        if of_error:
            yield event.breaks("AOX-100", "all that SPEC 6.1 requires at standard", f"it has no {', '.join(of_error)}")


def judge_event(event: Event) -> Iterator[Finding]:
    """Find errors in one event by itself."""
    is_known = event.type in _known_types()
    if not is_known and not VENDOR.fullmatch(event.type):
        yield event.breaks("AOX-074", "a type of SPEC 5, or _vendor/name", f"event_type is {event.type!r}")
        return
    for place, problem in _departures(_fields_of(event.type if is_known else "vendor_event"), event):
        if place == "$.seq" and type(event.document["seq"]) is int:
            continue  # AOX-071 judges the number
        requirement = _requirement_of(event.type, place, problem)
        yield event.breaks(requirement, f"{place} of {event.type} as the schema has it", problem.message[:300])
    if not is_known:
        return
    if unknown := unknown_fields(event.document, "event", event.type):
        yield event.breaks("AOX-016", f"the fields that SPEC 5 gives to {event.type}", ", ".join(unknown[:5]))
    if event.type == "failure":
        yield from _judge_error(event)
    if event.type == "result" and event.document.get("error") is not None:
        yield event.breaks("AOX-076", "a result without error", "both are there")


def _departures(validator: "Validator", event: Event) -> Iterator[tuple[str, "ValidationError"]]:
    """Yield place and problem of each deviation from a schema, except about fields that the executor left out."""
    for problem in validator.iter_errors(event.document):
        place = path_to(problem.instance_path)
        if place.removeprefix("$.") not in event.absent and _missing(problem) not in event.absent:
            yield place, problem


def _missing(problem: "ValidationError") -> str:
    """Return the name of the member that an object lacks; empty for any other problem."""
    from jsonschema_rs import ValidationErrorKind

    return problem.kind.property if isinstance(problem.kind, ValidationErrorKind.Required) else ""


def _requirement_of(event_type: str, place: str, problem: "ValidationError") -> str:
    """Return the requirement that a deviation from the schema breaks."""
    from jsonschema_rs import ValidationErrorKind

    missing = _missing(problem)
    if place == "$.timestamp":
        return "AOX-072"
    if (event_type, place) in {("result", "$.error"), ("failure", "$.result_text"), ("failure", "$.result_data")}:
        return "AOX-076"
    if event_type == "result" and place == "$" and (not missing or missing.startswith("result_")):
        return "AOX-075"
    if event_type == "failure" and place.startswith("$.error.validation_errors"):
        return "AOX-107"
    is_of_status = isinstance(problem.kind, ValidationErrorKind.Constant | ValidationErrorKind.Not)
    return "AOX-102" if event_type == "failure" and place == "$.error.type" and is_of_status else OF_FORM


def _judge_error(event: Event) -> Iterator[Finding]:
    error, status = event.error, event.document.get("status")
    kind = error.get("type")
    if isinstance(kind, str) and (status == "cancelled") != (kind == "cancelled"):
        found = f"status {status!r}, type {kind!r}"
        yield event.breaks("AOX-102", "type cancelled exactly where the status is", found)
    if kind in RUNNER_ALONE:
        found = f"error.type is {kind!r}, which is the runner's word"
        yield event.breaks("AOX-105", "a type that executors say", found)
    for text in error.get("validation_errors") or []:
        if isinstance(text, str) and not VALIDATION_ERROR.fullmatch(text):
            yield event.breaks("AOX-107", "each validation error as `$.path: message`", f"{text[:200]!r}")
    if kind in REFUSALS and error.get("retryable") is True:
        yield event.breaks("AOX-104", f"{kind} is a refusal and not retryable", "retryable is true")
    if kind in REFUSALS and error.get("side_effects") == "possible":
        yield event.breaks("AOX-104", f"{kind} is a refusal without side effects", "side_effects is possible")


@cache
def _known_types() -> frozenset[str]:
    branches = _schema("event")["$defs"]["standard_event"]["anyOf"]
    return frozenset(branch["$ref"].rpartition("/")[2] for branch in branches)


@cache
def _fields_of(event_type: str) -> "Validator":
    return validator_for("event", part=event_type)
