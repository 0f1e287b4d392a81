"""Core is what a runner cannot do: it is played as one feeds an executor, and standard as anybody does."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ao_conformance.judging.output import Asked, Completing
from ao_conformance.reports.documents import document_text
from ao_conformance.reports.terminal import terminal_text
from ao_conformance.suite import Plan, run_suite
from ao_conformance.vectors import load_process_vectors, requirements_by_id
from ao_conformance.verdict import SuiteResult, Verdict
from tests.conformance.mutation import CORE_EXECUTABLE, CORE_REFERENCE, EXECUTABLE, REFERENCE

PLAYED = {
    "describe",
    "start",
    "start-without-a-runner",
    "prompt-to-the-last-blank",
    "prompt-with-a-block",
    "unspoken-major-is-refused",
    "version-unspoken-major",
    "undeclared-check",
}
FIXED = """#!/usr/bin/env python3
import json, sys
if sys.argv[1:] == ["describe"]:
    sys.exit(print('{"schema_versions":["3.0"],"executor":{"name":"fixed","version":"1"}}'))
asked = json.loads(sys.stdin.readline())
print('{"event_type":"run_started"}')
if not asked["schema_version"].startswith("3."):
    print('{"event_type":"failure","error":{"type":"unsupported_schema_version","message":"3.0 is spoken"}}')
    sys.exit(1)
print('{"event_type":"result","result_text":"Forty-two."}')
"""


ENVELOPE = {"session_id": "s", "run_id": "r", "seq": 2, "timestamp": "t"}


def climbed(command: Path, level: str | None = None) -> SuiteResult:
    vectors = [vector for vector in load_process_vectors() if vector.id in PLAYED]
    return run_suite(Plan(command=(str(command),), level=level, vectors=vectors, jobs=6))


def test_a_vector_of_core_shows_nothing_but_core() -> None:
    rules = requirements_by_id()
    for vector in load_process_vectors():
        levels = {rules[requirement].level for requirement in vector.requirements}
        if vector.level == "core":
            assert levels == {"core"}, vector.id
        if vector.level == "capability":
            assert vector.capability, vector.id
        if "standard" in levels and not any(level.startswith("capability") for level in levels):
            assert vector.level == "standard", vector.id


def test_every_rule_of_core_has_a_vector_that_core_plays() -> None:
    shown = {rule for vector in load_process_vectors() if vector.level != "standard" for rule in vector.requirements}
    assert {rule.id for rule in requirements_by_id().values() if rule.level == "core"} <= shown


def test_a_small_executor_reaches_core_and_is_told_what_is_missing() -> None:
    result = climbed(CORE_REFERENCE / CORE_EXECUTABLE)

    assert (result.reached, result.verdict, result.exit_code) == ("core", Verdict.PASS, 0)
    assert {"AOX-011", "AOX-070", "AOX-100"} <= {rule.id for rule in result.missing}
    assert "missing to standard:\n  AOX-0" in terminal_text(result)
    assert json.loads(document_text(result))["reached"] == "core"


def test_a_whole_executor_reaches_standard() -> None:
    result = climbed(REFERENCE / EXECUTABLE)

    assert (result.reached, result.level, result.missing, result.exit_code) == ("standard", "standard", (), 0)


def test_an_executor_that_breaks_core_reaches_nothing(tmp_path: Path) -> None:
    program = tmp_path / "ao-fixed-exec"
    program.write_text(FIXED.replace('"Forty-two."}', '"Forty-two.","error":{"type":"odd","message":"odd"}}'))
    program.chmod(0o755)

    result = climbed(program)

    assert (result.reached, result.exit_code) == ("", 1)
    assert [rule.id for rule in result.missing] == ["AOX-076"]


def test_what_a_fixed_answer_cannot_show_is_told_as_never_exercised(tmp_path: Path) -> None:
    program = tmp_path / "ao-fixed-exec"
    program.write_text(FIXED)
    program.chmod(0o755)

    result = climbed(program, "core")

    assert result.exit_code == 0
    told = {vector.id: vector.verdict for vector in result.vectors}
    assert told["prompt-to-the-last-blank"] is told["prompt-with-a-block"] is Verdict.NEVER_EXERCISED
    text = terminal_text(replace(result, left_out=0))
    assert "AOX-147 never exercised: " in text
    assert f"passes core, {result.count(Verdict.NEVER_EXERCISED)} never exercised," in text.splitlines()[-1]


@pytest.mark.parametrize(
    ("written", "whole", "absent"),
    [
        (ENVELOPE | {"event_type": "result", "result_text": "a"},
         {"result_data": None, "stop_reason": "end_turn"}, ("result_data", "stop_reason")),
        (ENVELOPE | {"event_type": "failure", "error": {"type": "cancelled", "message": "m"}, "status": "cancelled"},
         {}, ("error.origin", "error.retryable", "error.side_effects")),
        ({"event_type": "_mine/note"}, {"seq": 1, "run_id": "r", "session_id": "s"},
         ("run_id", "seq", "session_id", "timestamp")),
    ],
    ids=["result", "failure", "a vendor's own"],
)  # fmt: skip
def test_what_an_event_leaves_out_is_added_and_told(
    written: dict[str, object], whole: dict[str, object], absent: tuple[str, ...]
) -> None:
    asked = Asked(("r",), "s", {"name": "mini", "version": "1"}, "3.0")

    document, missing = Completing(asked).complete(written, 0.5)

    assert document | whole == document
    assert missing == absent


def test_a_name_that_the_executor_has_to_make_is_not_made_for_it() -> None:
    asked = Asked((None,), None, {"name": "mini", "version": "1"}, "3.0")

    document, missing = Completing(asked).complete({"event_type": "run_started"}, 0.5)

    assert "run_id" not in document
    assert {"run_id", "session_id"} <= set(missing)
