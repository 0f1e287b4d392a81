"""`ao store`: what an operator does with the database of many hosts."""

import re
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from ao_runner.diagnosis import Check, judge_server
from ao_runner.runs.lost_runs import fail_lost_runs, fail_stranded_runs
from ao_runner.store.opening import StorePlace
from ao_runner.store.postgres_layout import LAYOUTS, migrate, partition_name
from ao_runner.store.postgres_operations import look
from ao_runner.store.records import Run, Session
from ao_runner.store.store_errors import StoreUnusable
from ao_runner.store.worker_table import Offer
from tests.postgres_server import PostgresServer
from tests.process.runner.cli.calling import Ao, Called, miniature
from tests.process.runner.cli.test_many_hosts import working

NEXT = (*LAYOUTS, "ALTER TABLE runs ADD COLUMN of_the_next_layout text")


@pytest.fixture
def store(postgres: PostgresServer) -> str:
    return postgres.new_database()


@pytest.fixture
def sql(store: str) -> Iterator["psycopg.Connection[Any]"]:
    """A connection to the store's database, beside those of `ao`."""
    with psycopg.connect(store, autocommit=True) as connection:
        yield connection


def perform(ao: Ao, store: str, profile: str = "echo", **variables: str) -> str:
    """Have one run performed, and return its id."""
    submitted = ao("submit", "agent.yaml", "-p", "hi", "--profile", profile, AO_STORE=store)
    assert submitted.exit_code == 0, submitted.stderr
    worked = ao("worker", "--until-idle", **{"AO_STORE": store, **variables})
    assert worked.exit_code == 0, worked.stderr
    return submitted.stdout.strip()


def findings(called: Called) -> list[tuple[str, str]]:
    return [(one["verdict"], one["text"]) for one in called.document["findings"]]


def partitions(sql: "psycopg.Connection[Any]") -> list[str]:
    rows = sql.execute("SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'events'::regclass")
    return sorted(name for (name,) in rows)


def monday(weeks_ago: int) -> date:
    today = datetime.now(UTC).date()
    return today - timedelta(days=today.weekday(), weeks=weeks_ago)


def move_back(sql: "psycopg.Connection[Any]", run_id: str, weeks: int) -> str:
    """Let a run be of an earlier week, and return the table of its events."""
    week = monday(weeks)
    name, behind = partition_name(week), week + timedelta(weeks=1)
    sql.execute(f"CREATE TABLE {name} PARTITION OF events FOR VALUES FROM ('{week}') TO ('{behind}')".encode())
    sql.execute("UPDATE events SET week = %s WHERE run_id = %s", (week, run_id))
    sql.execute("UPDATE runs SET week = %s WHERE run_id = %s", (week, run_id))
    return name


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_the_tables_are_created_once(engine: str, ao: Ao, request: pytest.FixtureRequest) -> None:
    place = "local" if engine == "sqlite" else request.getfixturevalue("store")

    first, second = (ao("store", "init", "--store", place) for _ in range(2))

    assert (first.exit_code, second.exit_code) == (0, 0)
    assert first.stdout.endswith(" now has its tables\n")
    assert second.stdout.endswith(" has its tables already\n")
    assert ao("store", "check", "--store", place).exit_code == 0


@pytest.mark.parametrize(
    ("command", "instead"),
    [(["migrate"], "each version of ao changes it"), (["prune", "--older-than", "30d"], "ao sessions prune")],
    ids=["migrate", "prune"],
)
def test_a_file_needs_neither_migration_nor_partitions(command: list[str], instead: str, ao: Ao) -> None:
    refused = ao("store", *command)

    assert refused.exit_code == 2
    assert instead in " ".join(refused.stderr.split())


def test_a_migration_says_from_which_layout(ao: Ao, store: str) -> None:
    name = StorePlace(ao.folder, store).name

    assert ao("store", "migrate", AO_STORE=store).stdout == f"✓ {name} changed from layout 0 to layout {len(LAYOUTS)}\n"
    assert ao("store", "migrate", AO_STORE=store).stdout == f"✓ {name} has layout {len(LAYOUTS)} already\n"


def test_a_worker_of_the_layout_before_goes_on_working(ao: Ao, store: str, sql: "psycopg.Connection[Any]") -> None:
    submit = ("submit", "agent.yaml", "-p", "hi", "--profile", "echo", "--wait")
    with working(ao, store, "a"):
        assert ao(*submit, AO_STORE=store).stdout == "hi\n"

        assert migrate(sql, NEXT, len(LAYOUTS)) == (len(LAYOUTS), len(NEXT))

        assert ao(*submit, AO_STORE=store).stdout == "hi\n"
    with working(ao, store, "a"):
        assert ao(*submit, AO_STORE=store).stdout == "hi\n"
    assert f"layout {len(NEXT)}" in ao("store", "check", AO_STORE=store).stdout


def test_a_layout_that_excludes_active_workers_waits_for_their_end(
    ao: Ao, store: str, sql: "psycopg.Connection[Any]"
) -> None:
    with working(ao, store, "host-a"):
        assert ao("submit", "agent.yaml", "-p", "hi", "--profile", "echo", "--wait", AO_STORE=store).exit_code == 0

        with pytest.raises(StoreUnusable, match="some are active on host-a"):
            migrate(sql, NEXT, len(NEXT))

    assert migrate(sql, NEXT, len(NEXT)) == (len(LAYOUTS), len(NEXT))
    refused = ao("runs", AO_STORE=store)
    assert refused.exit_code == 2
    told = f"made its layout {len(NEXT)}, and this version knows layouts up to {len(LAYOUTS)}: install the newer"
    assert told in " ".join(refused.stderr.split())


def test_what_is_checked_is_what_doctor_finds(ao: Ao, store: str) -> None:
    perform(ao, store)

    checked, examined = ao("store", "check", "--json", AO_STORE=store), ao("doctor", "--json", AO_STORE=store)

    assert checked.exit_code == 0
    assert checked.document["ok"] is True
    (found,) = checked.document["findings"]
    assert re.fullmatch(r"postgresql://\S+: PostgreSQL [\d.]+ .*, layout \d+, 0 workers", found["text"])
    assert found in examined.document["findings"]
    assert ao("store", "check", AO_STORE=store).stdout == f"✓ store: {found['text']}\n"


def test_checking_an_empty_database_creates_nothing(ao: Ao, store: str, sql: "psycopg.Connection[Any]") -> None:
    checked = ao("store", "check", AO_STORE=store)

    assert checked.exit_code == 0
    assert checked.stdout.endswith("has no tables yet\n    create them: ao store init\n")
    assert sql.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone() == (0,)


@pytest.mark.parametrize("command", ["init", "migrate", "check"])
def test_an_encoding_that_cannot_store_every_text_is_refused(command: str, ao: Ao, postgres: PostgresServer) -> None:
    store = postgres.new_database()
    name = f"{store.rpartition('?')[0].rpartition('/')[2]}_latin"
    with psycopg.connect(store, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0".encode())

    called = ao("store", command, AO_STORE=postgres.url(name))

    assert called.exit_code != 0
    assert "its encoding is LATIN1; create the database with ENCODING 'UTF8'" in called.stdout + called.stderr


def test_a_server_that_cannot_be_written_is_a_problem(ao: Ao, store: str, sql: "psycopg.Connection[Any]") -> None:
    perform(ao, store)
    sql.execute(f"ALTER DATABASE {sql.info.dbname} SET default_transaction_read_only = on".encode())

    checked = ao("store", "check", "--json", AO_STORE=store)

    assert checked.exit_code == 1
    assert ("problem", "the server is a standby or read-only, so no run can be stored") in findings(checked)
    assert ao("result", "last", AO_STORE=store).stdout == "hi\n"


def test_tables_that_are_missing_for_events_are_a_problem_and_created(
    ao: Ao, store: str, sql: "psycopg.Connection[Any]"
) -> None:
    ao("store", "init", AO_STORE=store)
    lost = partition_name(monday(-1))
    sql.execute(f"DROP TABLE {lost}".encode())

    checked = ao("store", "check", "--json", AO_STORE=store)

    assert checked.exit_code == 1
    assert ("problem", f"tables for events are missing: {lost}") in findings(checked)
    assert ao("store", "migrate", AO_STORE=store).exit_code == 0
    assert ao("store", "check", AO_STORE=store).exit_code == 0


def test_tables_for_events_are_created_during_a_backup(ao: Ao, store: str, sql: "psycopg.Connection[Any]") -> None:
    ao("store", "init", AO_STORE=store)
    before = partitions(sql)
    sql.execute(f"DROP TABLE {before[0]}, {before[-1]}".encode())
    with psycopg.connect(store) as backup:
        backup.execute("LOCK TABLE events IN ACCESS SHARE MODE")

        assert ao("store", "migrate", AO_STORE=store).exit_code == 0

    assert partitions(sql) == before
    perform(ao, store)


def test_a_run_that_is_submitted_after_weeks_without_a_worker_can_be_performed(
    ao: Ao, store: str, sql: "psycopg.Connection[Any]"
) -> None:
    ao("store", "init", AO_STORE=store)
    sql.execute(f"DROP TABLE {', '.join(partitions(sql))}".encode())

    ao("submit", "agent.yaml", "-p", "hi", "--profile", "echo", AO_STORE=store)

    assert partition_name(monday(0)) in partitions(sql)


@pytest.mark.parametrize(("behind", "sign"), [(60, "+"), (-60, "-"), (0, None)])
def test_a_clock_that_differs_is_told(behind: int, sign: str | None, store: str, tmp_path: Path) -> None:
    place = StorePlace(tmp_path, store)
    place.open().__exit__(None, None, None)

    told = "\n".join(one.text for one in judge_server("x", look(place, lambda: time.time() - behind)))

    assert ("the clock of the server differs" in told) == (sign is not None)
    assert sign is None or f"differs by {sign}" in told


def test_runs_whose_worker_is_gone_are_told_with_their_host(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AO_HOST", "host-a")
    place = StorePlace(tmp_path, store)
    with place.open() as opened:
        opened.workers.join(Offer("worker", lease_seconds=0))
        session = Session("ses_1", "2026-01-01T00:00:00Z", "x", "/bin/x", "/project", {"name": "agent"})
        opened.runs.begin(Run("run_1", "ses_1", "start", {}, "2026-01-01T00:00:00Z"), "worker", session)

    told = "runs whose worker is gone: run_1 on host-a"
    assert Check("store", "note", told, "a worker or `ao runs` ends them") in [*judge_server("x", look(place))]


def test_old_weeks_are_dropped_whole_and_a_week_with_an_open_run_stays(
    ao: Ao, store: str, sql: "psycopg.Connection[Any]"
) -> None:
    newest, ended = perform(ao, store), perform(ao, store)
    recent = perform(ao, store)
    waiting = ao("submit", "agent.yaml", "-p", "hi", "--profile", "echo", AO_STORE=store).stdout.strip()
    tables = [move_back(sql, ended, 8), move_back(sql, waiting, 9), move_back(sql, recent, 2)]
    counts = "SELECT (SELECT count(*) FROM runs), (SELECT count(*) FROM sessions)"
    before = sql.execute(counts).fetchone()

    prune = ("store", "prune", "--older-than", "30d")
    tried, done = (ao(*prune, *more, "--json", AO_STORE=store).document for more in (["--dry-run"], []))

    assert tried == done
    assert [(one["name"], one["week"], one["runs"]) for one in done["dropped"]] == [(tables[0], f"{monday(8)}", 1)]
    assert [(one["name"], one["open_runs"]) for one in done["kept"]] == [(tables[1], 1)]
    assert set(tables) & set(partitions(sql)) == {tables[1], tables[2]}
    assert sql.execute(counts).fetchone() == before
    again = ao(*prune, AO_STORE=store)
    assert again.stderr == f"week {monday(9)} stays: 1 run not over, see `ao runs`\nevents of 0 weeks dropped\n"
    for kept in (newest, recent):
        assert ao("result", kept, AO_STORE=store).stdout == "hi\n"


def test_a_run_whose_events_were_dropped_says_so(ao: Ao, store: str, sql: "psycopg.Connection[Any]") -> None:
    run = perform(ao, store, miniature("answers_at_once"))
    move_back(sql, run, 8)
    assert "events of 1 week dropped; `ao result`" in ao("store", "prune", "--older-than", "30d", AO_STORE=store).stderr

    for command in (["result", run], ["result", run, "--json"], ["result", run, "--attempts"], ["events", run]):
        called = ao(*command, AO_STORE=store)
        assert (called.exit_code, called.stdout) == (1, "")
        assert f"the events of {run} are no longer stored: `ao store prune`" in called.stderr
    assert ao("result", run, "--record", AO_STORE=store).document["record"]["exit_code"] == 0
    assert [one["status"] for one in ao("runs", "--json", AO_STORE=store).document] == ["completed"]
    resumed = ao("submit", "--session", run, "-p", "more", AO_STORE=store).stdout.strip()
    assert ao("worker", "--until-idle", AO_STORE=store).exit_code == 0
    assert ao("result", resumed, AO_STORE=store).exit_code == 0


def test_nothing_is_dropped_while_another_session_reads_the_events(
    ao: Ao, store: str, sql: "psycopg.Connection[Any]"
) -> None:
    table = move_back(sql, perform(ao, store), 8)
    with psycopg.connect(store) as backup:
        backup.execute("LOCK TABLE events IN ACCESS SHARE MODE")

        refused = ao("store", "prune", "--older-than", "30d", AO_STORE=store)

    assert refused.exit_code == 1
    assert "another session uses its tables" in refused.stderr
    assert table in partitions(sql)


def test_workers_that_ended_long_ago_are_forgotten_unless_an_open_run_needs_them(
    ao: Ao, store: str, sql: "psycopg.Connection[Any]", tmp_path: Path
) -> None:
    queued_at, days = "2026-01-01T00:00:00Z", 86400.0
    with StorePlace(tmp_path, store).open() as opened:
        for worker, host, gone_days in (
            ("lately", "a", 6), ("long ago", "b", 8), ("earlier", "c", 9), ("awaited", "c", 8), ("performs", "d", 8)
        ):  # fmt: skip
            row = "%s, %s, 1, '{}', clock_timestamp() - make_interval(days => %s)"
            sql.execute("INSERT INTO workers SELECT " + row, (worker, host, gone_days))
        for name in ("awaited", "performs"):
            opened.sessions.add(Session(f"ses_{name}", queued_at, "x", "/bin/x", "/project", {"name": "agent"}))
        sql.execute("UPDATE sessions SET host = 'c' WHERE session_id = 'ses_awaited'")
        opened.runs.begin(Run("run_performs", "ses_performs", "start", {}, queued_at), "performs")
        opened.queue.add(replace(Run("run_awaits", "ses_awaited", "resume", {}, queued_at), profile="echo"))

        tried, done = (
            ao("store", "prune", "--older-than", "30d", *more, "--json", AO_STORE=store).document["workers"]
            for more in (["--dry-run"], [])
        )

        rows = sql.execute("SELECT worker_id FROM workers ORDER BY worker_id").fetchall()
        assert (tried, done, [name for (name,) in rows]) == (2, 2, ["awaited", "lately", "performs"])
        assert fail_stranded_runs(opened, 30 * days) == []
        assert fail_stranded_runs(opened, 7 * days) == ["run_awaits"]
        sql.execute("UPDATE sessions SET host = 'b' WHERE session_id = 'ses_awaited'")
        opened.queue.add(replace(Run("run_later", "ses_awaited", "resume", {}, queued_at), profile="echo"))
        assert fail_stranded_runs(opened, 30 * days) == ["run_later"]
        assert fail_lost_runs(opened) == ["run_performs"]
    said = ao("store", "prune", "--older-than", "30d", AO_STORE=store).stderr
    assert said == "events of 0 weeks dropped\n2 workers that ended over a week ago dropped\n"


def test_a_worker_needs_no_role_that_owns_the_tables(ao: Ao, store: str, sql: "psycopg.Connection[Any]") -> None:
    ao("store", "init", AO_STORE=store)
    page = (Path(__file__).parents[4] / "docs" / "many-hosts.md").read_text()
    (statements,) = re.findall(r"```sql\n(.*?)```", page, re.DOTALL)
    sql.execute(statements.replace("ao_owner", "ao").encode())
    sql.execute(f"DROP TABLE {partitions(sql)[-1]}".encode())

    as_worker = store.replace("ao@", "ao_worker@")
    perform(ao, store, AO_STORE=as_worker)

    assert ao("result", "last", AO_STORE=as_worker).stdout == "hi\n"
    run = ao("submit", "agent.yaml", "-p", "hi", "--profile", "echo", AO_STORE=as_worker).stdout.strip()
    sql.execute(f"DROP TABLE {partition_name(monday(0))}".encode())
    refused = ao("cancel", run, AO_STORE=as_worker)
    assert refused.exit_code == 1
    assert "`ao store migrate` is due: no partition of relation" in refused.stderr


def test_what_a_role_may_not_do_is_said_by_the_server(ao: Ao, store: str, sql: "psycopg.Connection[Any]") -> None:
    sql.execute("DO $$ BEGIN CREATE ROLE nobody_much LOGIN; EXCEPTION WHEN duplicate_object THEN END $$")

    called = ao("store", "init", AO_STORE=store.replace("ao@", "nobody_much@"))

    assert called.exit_code == 2
    assert "permission denied for schema public" in called.stderr
