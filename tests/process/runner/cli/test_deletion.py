"""`ao sessions delete` and `ao sessions prune`: sessions leave the store whole, and never with an open run."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.process.runner.cli.calling import Ao, miniature
from tests.process.runner.cli.test_submit import a_worker

OPTIONS = ["--executor", miniature("answers_at_once")]
MARK = "a-prompt-that-shall-be-forgotten"


def open_store(ao: Ao) -> closing[sqlite3.Connection]:
    return closing(sqlite3.connect(ao.folder / "ao-home" / "ao.sqlite3", isolation_level=None))


def rows_of(ao: Ao) -> dict[str, int]:
    with open_store(ao) as store:
        return {
            table: store.execute(f"SELECT count(*) FROM {table}").fetchone()[0]  # noqa: S608  # own names
            for table in ("sessions", "runs", "events")
        }


def make_older(ao: Ao, days: int) -> None:
    """Let all that the store holds have happened so many days earlier."""
    with open_store(ao) as store:
        for table, column in (("sessions", "created_at"), ("runs", "started_at"), ("runs", "ended_at")):
            older = f"strftime('%Y-%m-%dT%H:%M:%fZ', {column}, '-{days} days')"
            store.execute(f"UPDATE {table} SET {column} = {older}")  # noqa: S608  # own names


def ids_of(ao: Ao) -> list[str]:
    return [session["session_id"] for session in ao("sessions", "--json").document]


def test_a_session_leaves_with_all_that_belongs_to_it_and_others_stay(ao: Ao) -> None:
    ao("run", "agent.yaml", "-p", "stays", *OPTIONS)
    before = rows_of(ao)
    ao("run", "agent.yaml", "-p", MARK, *OPTIONS)
    ao("resume", "last", "-p", MARK)
    newest, kept = ids_of(ao)

    called = ao("sessions", "delete", newest[:10], "--json")

    assert called.exit_code == 0
    assert [(one["session_id"], one["agent_name"], one["runs"]) for one in called.document] == [(newest, "agent", 2)]
    assert ids_of(ao) == [kept]
    assert rows_of(ao) == before
    left = [path for path in (ao.folder / "ao-home").rglob("*") if path.is_file() and MARK in read(path)]
    assert left == []


def read(path: Path) -> str:
    return path.read_bytes().decode("latin-1")


def test_it_takes_the_id_of_a_run_and_several_ids(ao: Ao) -> None:
    for _ in range(2):
        ao("run", "agent.yaml", "-p", "x", *OPTIONS)
    first, second = (run["run_id"] for run in ao("runs", "--json").document)

    called = ao("sessions", "delete", first, second, second)

    assert (called.exit_code, called.stderr) == (0, "2 sessions deleted\n")
    assert rows_of(ao) == {"sessions": 0, "runs": 0, "events": 0}


def test_nothing_is_deleted_where_a_run_is_queued(ao: Ao) -> None:
    ao("run", "agent.yaml", "-p", "x", *OPTIONS)
    ended = ids_of(ao)[0]
    ao("submit", "agent.yaml", "-p", "x", "--profile", miniature("answers_at_once"))
    queued = ids_of(ao)[0]
    before = rows_of(ao)

    called = ao("sessions", "delete", ended, queued)

    assert (called.exit_code, called.stdout) == (2, "")
    assert f"a run is queued or running in {queued}" in called.stderr
    assert rows_of(ao) == before


def test_an_unknown_id_deletes_nothing(ao: Ao) -> None:
    ao("run", "agent.yaml", "-p", "x", *OPTIONS)

    called = ao("sessions", "delete", "last", "ses_none")

    assert called.exit_code == 2
    assert "there is no session or run 'ses_none'" in called.stderr
    assert len(ids_of(ao)) == 1


@pytest.mark.parametrize("arguments", [["delete", "last"], ["prune", "--older-than", "0m"]], ids=lambda one: one[0])
def test_a_dry_run_prints_what_would_be_deleted_and_deletes_nothing(ao: Ao, arguments: list[str]) -> None:
    ao("run", "agent.yaml", "-p", "x", *OPTIONS)
    (there,) = ids_of(ao)

    called = ao("sessions", *arguments, "--dry-run")

    assert there in called.stdout
    assert called.stderr == "1 session would be deleted\n"
    assert ids_of(ao) == [there]


def test_old_sessions_are_pruned_and_those_with_an_open_run_or_a_later_one_stay(ao: Ao) -> None:
    for _ in range(2):
        ao("run", "agent.yaml", "-p", "x", *OPTIONS)
    later, old = ids_of(ao)
    ao("submit", "agent.yaml", "-p", "x", "--profile", miniature("answers_at_once"))
    queued = ids_of(ao)[0]
    make_older(ao, 31)
    ao("resume", later, "-p", "more")

    called = ao("sessions", "prune", "--older-than", "30d", "--json")

    assert [one["session_id"] for one in called.document] == [old]
    assert set(ids_of(ao)) == {later, queued}


@pytest.mark.parametrize("duration", ["", "30", "d", "1w", "-1d", "1.5h", "100000d", "1 d"])
def test_what_is_no_duration_is_refused_with_an_example(ao: Ao, duration: str) -> None:
    called = ao("sessions", "prune", "--older-than", duration)

    assert called.exit_code == 2
    assert "8s, 30m, 2h, 1d" in called.stderr


def test_the_home_may_be_named_before_the_subcommand(ao: Ao) -> None:
    ao("run", "agent.yaml", "-p", "x", *OPTIONS)

    called = ao("sessions", "--home", str(ao.folder / "other"), "prune", "--older-than", "0m")

    assert called.stderr == "0 sessions deleted\n"
    assert len(ids_of(ao)) == 1


def test_a_deleted_session_uses_no_schema(ao: Ao) -> None:
    ao.write("schema.json", '{"type": "object"}')
    ao("schema", "add", "thing", "schema.json")
    ao("run", "agent.yaml", "-p", "x", *OPTIONS, "--output-schema-name", "thing")
    assert ao("schema", "show", "thing", "--json").document["used_by_runs"] == 1

    ao("sessions", "delete", "last")

    assert ao("schema", "show", "thing", "--json").document["used_by_runs"] == 0
    assert ao("schema", "delete", "thing").exit_code == 0


def test_a_worker_beside_it_goes_on(ao: Ao) -> None:
    ao("run", "agent.yaml", "-p", "x", *OPTIONS)
    with a_worker(ao):
        ao("submit", "agent.yaml", "-p", "x", "--profile", miniature("answers_at_once"), "--wait")
        pruned = ao("sessions", "prune", "--older-than", "0m", "--json")
        further = ao("submit", "agent.yaml", "-p", "y", "--profile", miniature("answers_at_once"), "--wait", "--json")

    assert len(pruned.document) == 2
    assert further.document["event_type"] == "result"
    assert len(ids_of(ao)) == 1
