"""What SPEC.md shows in tables and drawings is what the code does."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import NoneType
from typing import Final

import pytest
from pydantic import BaseModel

from ao_protocol.contracts import JsonFormat, enrich
from ao_protocol.control_lines import parse_control_line
from ao_protocol.documents import (
    Blueprint,
    Capabilities,
    Description,
    Invocation,
    Limits,
    invocation_from_document,
    parse_description,
)
from ao_protocol.errors import REFUSALS, RETRYABLE, RUNNER_ONLY, ErrorType, ExitCode
from ao_protocol.events import BODIES, ErrorInfo, event_from_document
from ao_protocol.framing import MAX_EVENT_BYTES, MAX_INVOCATION_BYTES
from ao_protocol.inputs import PROMPT_SCHEMA
from ao_protocol.lifecycle import TRANSITIONS, VENDOR, Phase

SPEC = (Path(__file__).parents[3] / "protocol" / "SPEC.md").read_text(encoding="utf-8")


def rows(header: str) -> list[list[str]]:
    """Return the cells of the one table that has this header, backticks taken off a cell that is one word."""
    (table,) = re.findall(rf"^\| {re.escape(header)} \|\n\|[-| ]+\|\n((?:\|.*\|\n)+)", SPEC, re.MULTILINE)
    cells = ([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in table.splitlines())
    return [[re.sub(r"^`([^`]*)`$", r"\1", cell) for cell in row] for row in cells]


NEEDED: Final = {"yes": "yes", "standard": "yes", "one of the two": "yes", "no": "no"}
"""Whether the model, which is of complete events, demands what the table marks so."""


def wire_fields(model: type[BaseModel]) -> Iterator[tuple[str, str]]:
    for name, field in model.model_fields.items():
        if name != "event_type" and field.annotation is not NoneType:
            yield field.alias or name, "yes" if field.is_required() else "no"


def test_the_event_table_has_every_field_of_every_event() -> None:
    written = [
        (kind, field, NEEDED[required])
        for kind, _, field, _, required in rows("event_type | level | field | type | required")
    ]

    assert written == [
        (kind, field, required) for kind, body in BODIES.items() for field, required in wire_fields(body)
    ]


def test_an_event_has_one_level() -> None:
    levels = {(kind, level) for kind, level, *_ in rows("event_type | level | field | type | required")}

    assert sorted(kind for kind, _ in levels) == sorted(BODIES)


@pytest.mark.requirement("AOX-104", "AOX-105")
def test_the_registry_of_errors_is_the_codes() -> None:
    written = {
        kind: (retryable, refusal, said_by)
        for kind, _, retryable, refusal, said_by in rows("type | meaning | retryable | refusal | reported by")
    }

    assert written == {
        str(kind): (
            "yes" if kind in RETRYABLE else "no",
            "yes" if kind in REFUSALS else "no",
            "runner" if kind in RUNNER_ONLY else "executor",
        )
        for kind in ErrorType
    }
    assert REFUSALS.isdisjoint(RETRYABLE | RUNNER_ONLY)


def test_the_error_object_is_the_model_and_the_exit_codes_are_the_codes() -> None:
    written = [(field, NEEDED[required]) for field, _, required, _ in rows("field | type | required | meaning")]
    origins = ErrorInfo.model_json_schema()["properties"]["origin"]["enum"]

    assert written == list(wire_fields(ErrorInfo))
    assert [origin for origin, _ in rows("origin | the cause is")] == origins
    assert [int(code) for code, _ in rows("exit | meaning")] == [int(code) for code in ExitCode]


def mermaid() -> str:
    """Draw the transitions table as SPEC 5.1 shows it."""
    lines = ["stateDiagram-v2", f"    [*] --> {Phase.INVOKED}"]
    for phase, row in TRANSITIONS.items():
        for following in sorted(set(row.values()), key=list(Phase).index):
            kinds = sorted(kind for kind, leads_to in row.items() if leads_to is following)
            lines.append(f"    {phase} --> {following}: {', '.join(kinds)}")
    return "\n".join([*lines, f"    {Phase.ENDED} --> [*]"])


TEXTS = {
    "the drawing of the lifecycle": f"```mermaid\n{mermaid()}\n```",
    "the vendors' prefix": f"table of section 5.1 says `{VENDOR}`",
    "the bytes of an invocation": f"16 MiB ({MAX_INVOCATION_BYTES:,} bytes",
    "the bytes of an event": f"({MAX_EVENT_BYTES:,} by default)",
    "the prompt schema": f"The prompt schema is `{json.dumps(PROMPT_SCHEMA, separators=(',', ':'))}`",
    "the enrichment": f"````text\n{enrich(None, JsonFormat({'type': 'object'}))}\n````",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_text_is_that_of_the_code(text: str) -> None:
    assert text in SPEC


@pytest.mark.parametrize(
    ("header", "models"),
    [
        ("field | type | default | meaning", [Invocation, Blueprint]),
        ("limit | type | default | reaching it", [Limits]),
        ("field of a description | type | default", [Description]),
    ],
    ids=["invocation and blueprint", "limits", "description"],
)
def test_a_table_has_the_fields_of_its_model(header: str, models: list[type[BaseModel]]) -> None:
    tables = re.findall(rf"^\| {re.escape(header)} \|\n\|[-| ]+\|\n((?:\|.*\|\n)+)", SPEC, re.MULTILINE)
    named = [re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE) for table in tables]

    assert named == [list(model.model_fields) for model in models]


def test_every_capability_is_named() -> None:
    (sentence,) = re.findall(r"^Capabilities are (.*?) \(booleans\)", SPEC, re.MULTILINE)

    assert [*re.findall(r"`(\w+)`", sentence), "output_schema", "attachments"] == list(Capabilities.model_fields)


def examples() -> list[str]:
    without_quoted_texts = re.sub(r"^````.*?^````$", "", SPEC, flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"^```json\n(.*?)^```$", without_quoted_texts, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("example", examples(), ids=lambda text: text[:40])
def test_an_example_is_what_it_shows(example: str) -> None:
    document = json.loads(example)
    if "event_type" in document:
        event_from_document(document)
    elif "mode" in document:
        invocation_from_document(document)
    elif "schema_versions" in document:
        parse_description(json.dumps(document).encode())
    elif "retryable" in document:
        ErrorInfo.model_validate(document)
    elif "reason" in document or "request_id" in document:
        assert parse_control_line(json.dumps(document).encode()) is not None
    else:
        Blueprint.model_validate({"name": "example", **document})


def test_the_run_in_the_introduction_is_a_run() -> None:
    command, *events, _, _ = re.findall(r"^```console\n(.*?)^```$", SPEC, re.MULTILINE | re.DOTALL)[0].splitlines()
    (line,) = re.findall(r"echo '(.*)' \|", command)

    invocation_from_document(json.loads(line))
    assert [event_from_document(json.loads(event)).body.event_type for event in events] == ["run_started", "result"]


def test_what_the_tables_mark_as_added_by_the_runner_has_a_default() -> None:
    """The table of section 5.2 names every field that is required at standard only, and no other."""
    of_events = rows("event_type | level | field | type | required")
    of_errors = rows("field | type | required | meaning")
    marked = {
        *("session_id", "run_id", "seq", "timestamp"),
        *(f"{kind}.{name}" for kind, _, name, _, needed in of_events if needed in {"standard", "one of the two"}),
        *(f"error.{name}" for name, _, needed, _ in of_errors if needed == "standard"),
    }
    named = {name for cell, _ in rows("field | value") for name in re.findall(r"[a-z_]+(?:\.[a-z_]+)?", cell)}

    assert named == marked
