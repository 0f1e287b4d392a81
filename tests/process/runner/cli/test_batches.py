"""Batches: many runs submitted at once, followed to their end, read as a table, and the failed ones run again."""

import csv
import json
import re
import signal
import subprocess
from io import StringIO
from subprocess import PIPE
from typing import Any

import pytest

from tests.process.runner.cli.calling import SECONDS, Ao, Called, miniature

TRIAGE = """
name: triage
parameters_schema:
  type: object
  required: [id, subject]
  properties: {id: {type: integer, maximum: 1000}, subject: {type: string, minLength: 3}, urgent: {type: boolean}}
  additionalProperties: false
"""
FOLLOWED = (
    "ao: {count} queued; follow: ao wait {batch}\n"
    "ao: no worker is running to perform queued runs; start one: ao worker\n"
)


def lines_of(*documents: object) -> str:
    return "".join(f"{json.dumps(one)}\n" for one in documents)


def submit(ao: Ao, *arguments: str, stdin: str | None = None) -> str:
    """Submit a batch and return its id."""
    called = ao("submit", *arguments, stdin=stdin)
    assert called.exit_code == 0, called.stderr
    return called.stdout.strip()


def of_batch(ao: Ao, batch: str) -> list[dict[str, Any]]:
    return list(reversed(ao("runs", "--batch", batch, "--json").document))


def results(called: Called) -> list[dict[str, Any]]:
    return [json.loads(line) for line in called.stdout.splitlines()]


def use(ao: Ao, name: str) -> None:
    """Let the profile `desk` have an executor."""
    ao.write("ao-home/profiles/desk.yaml", f"executor: {miniature(name)}\n")


@pytest.fixture
def desk(ao: Ao) -> Ao:
    (ao.folder / "ao-home/profiles").mkdir(parents=True)
    use(ao, "answers_at_once")
    ao.write("triage.yaml", TRIAGE)
    return ao


def test_the_rows_of_a_table_become_runs_with_typed_parameters(desk: Ao) -> None:
    desk.write("tickets.csv", '\ufeffid,subject,urgent\r\n1,"Printer, broken\r\nagain",TRUE\r\n\r\n2,Paper,\r\n')
    called = desk("submit", "triage.yaml", "--batch", "tickets.csv", "--profile", "desk", "--label", "team=support")

    batch = called.stdout.strip()
    assert called.stderr == FOLLOWED.format(count="2 runs", batch=batch)
    runs = of_batch(desk, batch)
    assert [run["parameters"] for run in runs] == [
        {"id": 1, "subject": "Printer, broken\r\nagain", "urgent": True},
        {"id": 2, "subject": "Paper"},
    ]
    assert {(run["batch_id"], run["labels"]["team"], run["profile"]) for run in runs} == {(batch, "support", "desk")}


def test_a_line_says_more_than_the_command_line(desk: Ao) -> None:
    own = {
        "parameters": {"id": 2}, "profile": "echo", "labels": {"kind": "b"}, "priority": 4, "timeout_seconds": 9,
        "requires": ["gpu"], "not_before": "2999-01-01T00:00:00+01:00", "requeue_at_reset": True, "metadata": {"a": 1},
    }  # fmt: skip
    options = [
        "--profile",
        "desk",
        "--label",
        "kind=a",
        "--label",
        "x=y",
        "--param",
        "subject=Paper",
        "--priority",
        "1",
    ]
    batch = submit(desk, "triage.yaml", "--batch", "-", *options, stdin=lines_of({"parameters": {"id": 1}}, own))

    first, second = of_batch(desk, batch)
    assert (first["labels"], first["priority"], first["profile"]) == ({"kind": "a", "x": "y"}, 1, "desk")
    assert second["parameters"] == {"id": 2, "subject": "Paper"}
    assert second["labels"] == {"kind": "b", "x": "y"}
    expected = {
        "profile": "echo", "priority": 4, "timeout_seconds": 9, "requires": ["gpu"], "requeue": True,
        "not_before": "2998-12-31T23:00:00.000Z", "metadata": {"a": 1},
    }  # fmt: skip
    assert {name: second[name] for name in expected} == expected


NO_INTEGER = "input should be a valid integer, unable to parse string as an integer"
WRONG_LINES = {
    '{"parameters": {"id": "1", "subject": "Paper"}}': '$.parameters.id: "1" is not of type "integer"',
    '{"promt": "x"}': "$.promt: unknown field. Did you mean 'prompt'?",
    "{bad": "column 2: Expecting property name enclosed in double quotes",
    '{"prompt": "x", "priority": "high"}': f'$.priority: {NO_INTEGER}, found "high"',
    '{"session_id": "ses_a", "prompt": "x"}': (
        "there is no session or run 'ses_a'; `ao sessions` and `ao runs` list them"
    ),
    '{"session_id": "ses_a", "blueprint": "a.yaml"}': (
        "$.blueprint: it is for new sessions; omit it, or omit session_id"
    ),
}


def test_one_wrong_line_refuses_the_batch_and_every_wrong_line_is_told(desk: Ao) -> None:
    good = lines_of(*[{"parameters": {"id": 1, "subject": "Paper"}}] * 3)
    desk.write("requests.jsonl", good + "\n".join(WRONG_LINES))
    called = desk("submit", "triage.yaml", "--batch", "requests.jsonl", "--profile", "desk")

    told = [f"  line {number}: {problem}" for number, problem in enumerate(WRONG_LINES.values(), 4)]
    assert called.exit_code == 2
    assert called.stderr.splitlines() == [
        "Error: requests.jsonl: 6 problems in 9 requests; nothing was submitted",
        *told,
    ]
    assert desk("runs", "--json").document == []


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ("id,id\n1,2\n", "line 1: expected a different name for each column, found 'id', 'id'"),
        ("", "line 1: expected a different name for each column, found none"),
        ("id,subject\n", "expected one request a line, found none"),
        (
            'id,subject\n"1\n2",Paper\nx,Paper\n',
            "line 2: column id: found '1\\n2', expected integer\n  line 4: column id",
        ),
        ("id,subject\n1\n", "line 2: expected 2 cells, found 1"),
        ('id,subject\n1,"Paper\n', "line 2: unexpected end of data"),
    ],
)
def test_a_wrong_table_is_refused_with_its_line(desk: Ao, rows: str, told: str) -> None:
    desk.write("tickets.csv", rows)
    called = desk("submit", "triage.yaml", "--batch", "tickets.csv", "--profile", "desk")
    assert called.exit_code == 2
    assert told in called.stderr


def test_twenty_problems_are_told(desk: Ao) -> None:
    called = desk("submit", "triage.yaml", "--batch", "-", stdin='{"x": 1}\n' * 30)
    assert called.stderr.count("unknown field") == 20
    assert called.stderr.endswith("  … and 10 more\n")


def test_failed_runs_run_again_in_their_places_and_count_as_failed_no_more(desk: Ao) -> None:
    use(desk, "crashes_by_signal")
    requests = [{"parameters": {"id": number, "subject": "Paper"}, "profile": "desk"} for number in (1, 2)]
    requests.insert(1, {**requests[0], "profile": miniature("answers_at_once")})
    performed = desk("run", "triage.yaml", "--batch", "-", "--concurrency", "3", stdin=lines_of(*requests))
    assert performed.exit_code == 75

    batch = desk("runs", "--json").document[0]["batch_id"]
    waited = desk("wait", batch)
    assert waited.exit_code == 75
    assert waited.stdout == ""
    assert waited.stderr.splitlines() == [
        f"{batch}: 3 of 3 runs ended · 1 completed · 2 failed",
        f"  results: ao results {batch}",
        f"  run the failed ones again: ao submit --rerun-failed {batch}",
    ]
    rows = results(desk("results", batch, "--format", "json"))
    assert [(row["place"], row["status"], row["error_type"]) for row in rows] == [
        (1, "failed", "executor_crashed"), (2, "completed", None), (3, "failed", "executor_crashed")
    ]  # fmt: skip
    assert "before its terminal event" in rows[0]["error_message"]

    use(desk, "answers_at_once")
    again = desk("submit", "--rerun-failed", batch, "--json").document
    assert (again["batch_id"], len(again["runs"])) == (batch, 2)
    assert desk("submit", "--rerun-failed", batch).exit_code == 2
    desk("worker", "--until-idle")
    assert desk("wait", batch[:9]).exit_code == 0
    new = results(desk("results", "last", "--format", "json"))
    assert [(row["place"], row["status"], row["parameters"]["id"]) for row in new] == [
        (1, "completed", 1), (2, "completed", 1), (3, "completed", 2)
    ]  # fmt: skip
    assert [row["run_id"] for row in new] == [again["runs"][0]["run_id"], rows[1]["run_id"], again["runs"][1]["run_id"]]
    failed = desk("runs", "--status", "failed")
    assert (failed.stdout, failed.stderr.splitlines()[-1]) == ("", "… and 2 that were run again: ao runs")
    links = {run["run_id"]: run["succeeds"] for run in of_batch(desk, batch) if run["succeeds"]}
    assert links == {again["runs"][0]["run_id"]: rows[0]["run_id"], again["runs"][1]["run_id"]: rows[2]["run_id"]}


def test_a_batch_is_performed_without_a_worker(desk: Ao) -> None:
    desk.write("tickets.csv", "id,subject\n1,Paper\n2,Printer\n")
    lines = lines_of({"parameters": {"id": 3, "subject": "Desk"}, "profile": "desk"})
    refused = desk("run", "triage.yaml", "--executor", "echo", "--batch", "-", stdin=lines + "{}\n")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "line 2: $.parameters" in refused.stderr

    called = desk("run", "triage.yaml", "--executor", "echo", "--batch", "tickets.csv", "--concurrency", "2")
    assert called.exit_code == 0, called.stderr
    rows = sorted(results(called), key=lambda row: int(row["place"]))
    assert [(row["place"], row["status"], row["parameters"]["subject"]) for row in rows] == [
        (1, "completed", "Paper"), (2, "completed", "Printer")
    ]  # fmt: skip
    first, second = csv.DictReader(StringIO(desk("results", "last", "--format", "csv").stdout))
    assert (first["run_id"], first["parameters.id"], first["error_type"]) == (rows[0]["run_id"], "1", "")
    assert "subject: Printer" in second["answer"]
    assert [line.split()[0] for line in desk("results", "last").stdout.splitlines()] == ["#", "1", "2"]


def test_after_ctrl_c_it_is_told_what_was_not_begun(desk: Ao) -> None:
    use(desk, "works_for_ever")
    request = {"parameters": {"id": 1, "subject": "Paper"}, "profile": "desk"}
    desk.write("a.jsonl", lines_of({**request, "profile": miniature("answers_at_once")}, request, request))
    argv = desk.argv("run", "triage.yaml", "--batch", "a.jsonl", "--concurrency", "1")
    with subprocess.Popen(argv, cwd=desk.folder, env=desk.environment(), stdout=PIPE, stderr=PIPE, text=True) as batch:
        assert batch.stdout is not None
        assert json.loads(batch.stdout.readline())["status"] == "completed"
        batch.send_signal(signal.SIGINT)
        _, told = batch.communicate(timeout=SECONDS)
    assert batch.returncode == 130
    assert re.search("not begun: the requests from [23] to 3\n$", told)


def test_ids_of_batches_are_known_to_the_other_commands(desk: Ao) -> None:
    requests = lines_of(*[{"parameters": {"id": 1, "subject": "Paper"}}] * 2)
    batch = submit(desk, "triage.yaml", "--batch", "-", "--profile", "desk", stdin=requests)
    assert desk("cancel", batch).stderr == f"{batch}: 2 cancelled; 0 were asked to stop. Follow: ao wait {batch}\n"
    assert desk("cancel", batch).exit_code == 2
    assert desk("wait", batch).exit_code == 130
    assert "names a batch" in desk("result", batch).stderr
    assert "there is no batch 'bat_none'" in desk("results", "bat_none").stderr
    assert "no run of" in desk("submit", "--rerun-failed", batch).stderr
    assert "-p is for new runs" in desk("submit", "--rerun-failed", batch, "-p", "x").stderr
