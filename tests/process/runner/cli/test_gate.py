"""`--fail-on`, `--fail-if` and `--verdict`: a result that must not count has an exit code of its own."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ao_runner.store.store_file import FILE_NAME
from tests.process.runner.cli.calling import Ao

ASKS = {"answers": [{"tools": [{"name": "Write", "ask": True}], "json": {"approval": "approve"}}], "repeat": True}
RUN = ("run", "agent.yaml", "-p", "Review.", "--executor", "scripted", "--config", "config.json")
BOTH = ("--fail-on", "denied,unfinished")
LEAVES_OPEN = """#!/bin/sh
[ "$1" = describe ] && { echo '{"schema_versions":["3.0"],"executor":{"name":"open","version":"1"}}'; exit; }
read -r line
echo '{"event_type":"run_started"}'
echo '{"event_type":"tool_started","tool_call_id":"call_1","tool_name":"Task"}'
echo '{"event_type":"result","result_text":"All is well."}'
"""
SCHEMA = {"type": "object", "required": ["approval"]}


@pytest.fixture
def scripted(ao: Ao) -> Ao:
    ao.write("agent.yaml", f"name: agent\noutput_schema: {json.dumps(SCHEMA)}\n")
    ao.write("config.json", json.dumps({"script": ASKS}))
    return ao


def verdict_in(folder: Path) -> Any:
    return json.loads((folder / "verdict.json").read_text())


def test_a_result_after_a_denied_call_is_refused_and_the_run_stays_completed(scripted: Ao) -> None:
    called = scripted(*RUN, *BOTH, "--verdict", "verdict.json")

    assert called.exit_code == 3
    assert called.document == {"approval": "approve"}
    assert "✗ the gate refuses the result of run_" in called.stderr
    assert "    denied: Write: nobody can be asked" in called.stderr
    verdict = verdict_in(scripted.folder)
    assert {name: verdict[name] for name in ("verdict", "exit_code")} == {"verdict": "refused", "exit_code": 3}
    assert [reason["kind"] for reason in verdict["reasons"]] == ["denied"]
    assert verdict["event"]["result_data"] == {"approval": "approve"}
    (run,) = scripted("runs", "--json").document
    assert (run["status"], run["run_id"]) == ("completed", verdict["run_id"])


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (("--fail-on", "unfinished", "--fail-if", "approval != 'approve'"), 0),
        (("--events", "--fail-if", "approval != 'approve'", "--fail-if", "approval", "--fail-on", "unfinished"), 3),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_is_asked_for_decides(scripted: Ao, options: tuple[str, ...], code: int) -> None:
    called = scripted(*RUN, *options)

    assert (called.exit_code, "the gate refuses" in called.stderr) == (code, code == 3)
    if "--events" in options:
        assert json.loads(called.stdout.splitlines()[-1])["event_type"] == "result"


def test_a_resumed_run_and_each_run_of_a_batch_has_the_gate(scripted: Ao) -> None:
    scripted.write("batch.jsonl", '{"prompt": "One."}\n{"prompt": "Two."}\n')
    assert scripted(*RUN).exit_code == 0

    resumed = scripted("resume", "last", "-p", "Again.", "--fail-on", "denied")
    batch = scripted("run", "agent.yaml", *RUN[4:], "--batch", "batch.jsonl", "--fail-on", "denied")

    assert (resumed.exit_code, batch.exit_code) == (3, 3)
    assert batch.stderr.count("the gate refuses the result of run_") == 2
    assert len(batch.stdout.splitlines()) == 2


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ({"fail": {"type": "authentication_failed", "message": "wrong key"}}, 1),
        ({"text": "I have launched three reviewers."}, 1),
    ],
    ids=["no key", "no answer in the schema"],
)
def test_a_run_without_a_valid_answer_never_passes(scripted: Ao, fault: dict[str, object], code: int) -> None:
    scripted.write("config.json", json.dumps({"script": {"answers": [fault], "repeat": True}}))
    called = scripted(*RUN, *BOTH, "--verdict", "verdict.json")

    verdict = verdict_in(scripted.folder)
    assert (called.exit_code, verdict["exit_code"], verdict["verdict"]) == (code, code, "failed")
    assert (verdict["event"]["event_type"], verdict["reasons"]) == ("failure", [])


def test_a_call_that_an_executor_leaves_open_is_unfinished(ao: Ao) -> None:
    program = ao.write("ao-open-exec", LEAVES_OPEN)
    program.chmod(0o755)
    called = ao("run", "agent.yaml", "-p", "x", "--executor", str(program), *BOTH)

    assert (called.exit_code, called.stdout) == (3, "All is well.\n")
    assert "unfinished: Task was cancelled: the run ended before the tool call did" in called.stderr


def test_a_run_that_the_agent_has_started_and_that_waits_is_unfinished(scripted: Ao) -> None:
    begun = scripted(*RUN, "--verdict", "verdict.json")
    child = scripted("submit", "agent.yaml", "-p", "y", "--profile", "echo").stdout.strip()
    with closing(sqlite3.connect(scripted.folder / "ao-home" / FILE_NAME)) as store, store:
        # An agent starts it by the orchestrator's tools, with the session that it is in.
        session = verdict_in(scripted.folder)["session_id"]
        store.execute("UPDATE runs SET parent_session_id = ? WHERE run_id = ?", (session, child))

    resumed = scripted("resume", session, "-p", "z", "--fail-on", "unfinished")

    assert (begun.exit_code, resumed.exit_code) == (0, 3)
    assert f"unfinished: the run {child}, which the agent has started, has not ended" in resumed.stderr


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--fail-if", "comments[?"), "'--fail-if': 'comments[?' is no JMESPath expression"),
        (("--fail-if", "size(@) > `0`"), "no function size"),
        (("--fail-on", "denied,failed"), "'failed'; expected denied or unfinished, or both: denied,unfinished"),
        (("--verdict", "no/such/verdict.json"), "'no/such/verdict.json': No such file or directory"),
        (("--verdict", "verdict.json", "--batch", "batch.jsonl"), "--batch has no --verdict"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_what_cannot_be_asked_is_refused_before_the_run(scripted: Ao, options: tuple[str, ...], why: str) -> None:
    scripted.write("batch.jsonl", '{"prompt": "One."}\n')
    called = scripted(*RUN, *options)

    assert (called.exit_code, called.stdout) == (2, "")
    assert why in called.stderr
    assert scripted("runs", "--json").document == []


def test_the_verdict_of_an_earlier_run_is_not_left_where_a_run_is_refused(scripted: Ao) -> None:
    scripted.write("verdict.json", '{"verdict": "passed"}')

    assert scripted(*RUN, "--set", "no=1", "--verdict", "verdict.json").exit_code != 0
    assert (scripted.folder / "verdict.json").read_text() == ""
