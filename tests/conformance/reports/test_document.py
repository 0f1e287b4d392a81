"""The JSON report: everything, in a fixed order, by its published schema."""

import json
from typing import Any

import pytest
from hypothesis import given

from ao_conformance.reports.documents import document_text
from ao_conformance.verdict import SuiteResult
from ao_protocol.published import validator_for
from tests.conformance.reports.results import any_verdicts, hostile_results, result_with, small_result

SCHEMA = validator_for("conformance-report")
FINDING = {
    "requirement": "AOX-011",
    "verdict": "fail",
    "expected": "`failure`, exit 64",
    "found": "`result`, exit 0",
    "line": 2,
}
SMALL = {
    "schema_version": "1.2",
    "suite": "executor",
    "suite_version": "0.1.0",
    "protocol_version": "3.0",
    "level": "core",
    "verdict": "fail",
    "exit_code": 1,
    "counts": {
        "pass": 1,
        "fail": 1,
        "warn": 0,
        "not_applicable": 0,
        "never_exercised": 0,
        "untestable": 0,
        "harness_error": 0,
    },
    "executed": 2,
    "name": "demo",
    "version": "1.2",
    "command": ["demo", "--quiet"],
    "seed": 7,
    "repeats": 1,
    "started_at": "2026-11-22T08:00:00Z",
    "seconds": 0.75,
    "stale": [],
    "unstable": [],
    "left_out": 0,
    "reached": None,
    "missing": [],
    "requirements": [
        {
            "id": "AOX-011",
            "keyword": "MUST",
            "level": "core",
            "section": "2.2",
            "text": "Another major is refused as `unsupported_schema_version`.",
            "why": "Nobody guesses.",
            "verdict": "fail",
            "known_failing": False,
            "reason": "",
            "findings": [{"vector": "other-major", **FINDING}],
            "vectors": ["other-major"],
        },
        {
            "id": "AOX-012",
            "keyword": "MUST",
            "level": "core",
            "section": "2.2",
            "text": "Any minor is accepted.",
            "why": "",
            "verdict": "pass",
            "known_failing": False,
            "reason": "",
            "findings": [],
            "vectors": ["other-minor"],
        },
    ],
    "vectors": [
        {
            "id": "other-major",
            "title": "another major is refused",
            "topic": "Version",
            "level": "core",
            "capability": None,
            "requirements": ["AOX-011"],
            "judged": ["AOX-011"],
            "verdict": "fail",
            "known_failing": False,
            "reason": "",
            "hint": "compare the major as a number",
            "findings": [FINDING],
            "seconds": 0.25,
            "reproduce": "ao conformance run --vector other-major -- demo --quiet",
            "transcript": [
                {"seconds": 0.0, "process": 0, "channel": "start", "text": "demo --quiet"},
                {"seconds": 0.001, "process": 0, "channel": "stdin", "text": '{"schema_version":"4.0"}'},
                {"seconds": 0.1, "process": 0, "channel": "stdout", "text": '{"event_type":"run_started","seq":1}'},
                {"seconds": 0.2, "process": 0, "channel": "stdout", "text": '{"event_type":"result","seq":2}'},
                {"seconds": 0.25, "process": 0, "channel": "exit", "text": "0"},
            ],
        },
        {
            "id": "other-minor",
            "title": "any minor is accepted",
            "topic": "Version",
            "level": "core",
            "capability": None,
            "requirements": ["AOX-012"],
            "judged": [],
            "verdict": "pass",
            "known_failing": False,
            "reason": "",
            "hint": "",
            "findings": [],
            "seconds": 0.5,
            "reproduce": "",
            "transcript": [],
        },
    ],
    "description": {"schema_versions": ["3.0"]},
}


def test_everything_stands_in_it_in_a_fixed_order() -> None:
    assert document_text(small_result()) == json.dumps(SMALL, indent=2) + "\n"


@given(any_verdicts())
def test_the_schema_accepts_any_verdicts(result: SuiteResult) -> None:
    SCHEMA.validate(json.loads(document_text(result)))


@given(hostile_results())
def test_any_text_is_json_that_a_strict_parser_reads(result: SuiteResult) -> None:
    text = document_text(result)

    SCHEMA.validate(json.loads(text.encode()))


def test_control_characters_stay_what_they_are() -> None:
    document = json.loads(document_text(result_with(lambda: "\x1b[31m\x00")))

    assert document["name"] == "\x1b[31m\x00"


def without(name: str, *path: str | int) -> dict[str, Any]:
    document: Any = json.loads(document_text(small_result()))
    place = document
    for part in path:
        place = place[part]
    del place[name]
    return document  # type: ignore[no-any-return]  # a document of its own


@pytest.mark.parametrize(
    "document",
    [
        without("verdict"),
        without("why", "requirements", 0),
        without("vector", "requirements", 0, "findings", 0),
        without("expected", "requirements", 0, "findings", 0),
        without("transcript", "vectors", 0),
        without("channel", "vectors", 0, "transcript", 0),
        without("fail", "counts"),
    ],
    ids=["verdict", "why", "finding-vector", "expected", "transcript", "channel", "count"],
)
def test_the_schema_demands_every_field(document: dict[str, Any]) -> None:
    assert not SCHEMA.is_valid(document)
