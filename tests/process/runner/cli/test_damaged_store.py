"""A store that is damaged or read-only: one sentence says what and what to do; other rows stay readable."""

import json
import os
import sqlite3
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ao_protocol.wire import JsonObject
from ao_runner.store.records import Run, Session
from ao_runner.store.sqlite_store import SqliteStore
from ao_runner.store.store_file import FILE_NAME
from tests.mounting import IN_A_MOUNT_OF_ITS_OWN, require_mounts
from tests.process.runner.cli.calling import Ao, Called

SESSION = Session("ses_a", "2026-01-01T00:00:00Z", "echo", "echo", "/", {"name": "agent"}, executor_session_id="e")
PAGE_BYTES = 16384


def event(run: Run, seq: int, body: JsonObject) -> bytes:
    common = {"schema_version": "3.0", "run_id": run.run_id, "session_id": run.session_id, "seq": seq}
    told = {"timestamp": "2026-01-01T00:00:01.000Z", "executor": {"name": "echo", "version": "1"}}
    return json.dumps(common | told | body).encode()


@pytest.fixture
def ao(ao: Ao) -> Ao:
    """Return an `ao` whose store holds two sessions, each with a run that has ended and one that waits."""
    with SqliteStore(home_of(ao)) as store:
        for name in ("a", "b"):
            store.sessions.add(replace(SESSION, session_id=f"ses_{name}"))
            run = Run(f"run_{name}", f"ses_{name}", "start", {"prompt": name}, "2026-01-01T00:00:00Z")
            store.runs.begin(run, "owner")
            store.events.add(run.run_id, 1, [event(run, 1, {"event_type": "run_started"})])
            result: JsonObject = {
                "event_type": "result",
                "stop_reason": "end_turn",
                "result_text": "answer",
                "result_data": None,
            }
            store.events.add(run.run_id, 2, [event(run, 2, result)])
            store.runs.end(run.run_id, "completed", "2026-01-01T00:00:01Z", None)
            waiting = replace(run, run_id=f"run_{name}2", status="queued", mode="resume")
            store.queue.add(replace(waiting, profile="echo"))
    return ao


def home_of(ao: Ao) -> Path:
    return ao.folder / "ao-home"


def change(ao: Ao, *statements: str) -> None:
    connection = sqlite3.connect(home_of(ao) / FILE_NAME, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


def overwrite(ao: Ao, offset: int, data: bytes) -> None:
    with (home_of(ao) / FILE_NAME).open("r+b") as file:
        file.seek(offset)
        file.write(data)


def rename_a_table_to_no_text(ao: Ao) -> None:
    path = home_of(ao) / FILE_NAME
    path.write_bytes(path.read_bytes().replace(b"tablesessionssessions", b"table\x82\x82\x82sionssessions"))


def make_a_folder(ao: Ao) -> None:
    (home_of(ao) / FILE_NAME).unlink()
    (home_of(ao) / FILE_NAME).mkdir()


def said(called: Called) -> str:
    """Return the only sentence of a command that refused."""
    assert called.exit_code == 2, called
    (line,) = called.stderr.splitlines()
    return line


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        pytest.param(lambda ao: overwrite(ao, 0, b"z" * 100), "file is not a database", id="header"),
        pytest.param(lambda ao: overwrite(ao, PAGE_BYTES, bytes(99 * PAGE_BYTES)), "database disk", id="pages"),
        pytest.param(rename_a_table_to_no_text, "its schema is no UTF-8", id="schema"),
        pytest.param(lambda ao: os.truncate(home_of(ao) / FILE_NAME, 3 * PAGE_BYTES), "database", id="short"),
    ],
)
def test_a_damaged_file_is_set_aside_and_a_new_one_begins(damage: Callable[[Ao], None], words: str, ao: Ao) -> None:
    damage(ao)
    content = (home_of(ao) / FILE_NAME).read_bytes()

    sentence = said(ao("sessions"))

    kept = home_of(ao) / f"damaged-1-{FILE_NAME}"
    assert f"{home_of(ao) / FILE_NAME} was damaged: {words}" in sentence
    assert f"It was set aside as {kept}, and the next command begins a new one" in sentence
    assert kept.read_bytes() == content
    assert ao("sessions", "--json").document == []
    assert "there is no session or run" in said(ao("result", "ses_b"))
    assert kept.exists()


def test_a_second_damaged_file_is_kept_beside_the_first(ao: Ao) -> None:
    for number in (1, 2):
        overwrite(ao, 0, b"z" * 100)
        assert f"damaged-{number}-{FILE_NAME}" in said(ao("sessions"))
        ao("runs")

    assert len(list(home_of(ao).glob(f"damaged-*-{FILE_NAME}"))) == 2


def test_a_damaged_file_stays_while_another_process_uses_it(ao: Ao) -> None:
    with SqliteStore(home_of(ao)):
        overwrite(ao, 0, b"z" * 100)
        sentence = said(ao("sessions"))

        assert "Another process uses it; when it has ended, repeat this to set it aside" in sentence
        assert not list(home_of(ao).glob("damaged-*"))

    assert "was set aside" in said(ao("sessions"))


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        pytest.param(lambda ao: change(ao, "DROP TABLE runs"), "damaged: no such table: runs", id="table"),
        pytest.param(
            lambda ao: change(ao, "ALTER TABLE sessions RENAME COLUMN executor_name TO x"),
            "no such column",
            id="column",
        ),
        pytest.param(lambda ao: change(ao, "PRAGMA user_version = 1"), "damaged: duplicate column", id="layout"),
        pytest.param(make_a_folder, "it is no file", id="folder"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_what_to_do(damage: Callable[[Ao], None], words: str, ao: Ao) -> None:
    damage(ao)

    sentences = [said(ao("sessions")), said(ao("top")), said(ao("submit", "--session", "ses_b", "-p", "x"))]

    for sentence in sentences:
        assert words in sentence
        assert str(home_of(ao) / FILE_NAME) in sentence
        assert "choose another folder with --home or AO_HOME" in sentence.replace("Choose", "choose")


def test_a_missing_table_leaves_what_does_not_need_it(ao: Ao) -> None:
    change(ao, "UPDATE runs SET status = 'running' WHERE run_id = 'run_a'", "DROP TABLE events")

    assert [row["session_id"] for row in ao("sessions", "--json").document] == ["ses_b", "ses_a"]
    assert "no such table: events" in said(ao("runs"))


NOT_UTF8 = "CAST(X'7b22ff227d' AS TEXT)"


@pytest.mark.parametrize(
    ("statement", "row_id"),
    [
        ("UPDATE sessions SET blueprint = '{oops' WHERE session_id = 'ses_a'", "session ses_a"),
        ("UPDATE sessions SET blueprint = '[1]' WHERE session_id = 'ses_a'", "session ses_a"),
        ("UPDATE sessions SET executor_config = '' WHERE session_id = 'ses_a'", "session ses_a"),
        (f"UPDATE sessions SET blueprint = {NOT_UTF8} WHERE session_id = 'ses_a'", "session ses_a"),  # noqa: S608
        ("UPDATE runs SET parameters = '{oops' WHERE run_id = 'run_a2'", "run run_a2"),
        ("UPDATE runs SET parameters = '{\"x\": NaN}' WHERE run_id = 'run_a2'", "run run_a2"),
        ("UPDATE runs SET contract = '[1]' WHERE run_id = 'run_a2'", "run run_a2"),
        (f"UPDATE runs SET profile = {NOT_UTF8} WHERE run_id = 'run_a2'", "run run_a2"),  # noqa: S608
    ],
)
def test_a_damaged_row_is_named_and_the_others_are_listed(statement: str, row_id: str, ao: Ao) -> None:
    change(ao, statement)

    called = ao("runs", "--json") if row_id.startswith("run") else ao("sessions", "--json")

    others = {"run run_a2": ["run_b2", "run_b", "run_a"], "session ses_a": ["ses_b"]}[row_id]
    assert [row.get("run_id", row["session_id"]) for row in called.document] == others
    assert called.exit_code == 1
    assert called.stderr.startswith(f"Error: the store's row of {row_id} is damaged: ")
    assert len(called.stderr.splitlines()) == 1
    assert ao("events", "ses_b").exit_code == ao("result", "ses_b", "--run", "run_b").exit_code == 0
    assert f"row of {row_id} is damaged" in ao("doctor").stdout
    assert "Traceback" not in ao("top", "--once").stderr


@pytest.mark.parametrize("line", ["'{oops'", "'12'", NOT_UTF8])
def test_a_damaged_event_is_named_and_the_others_are_printed(line: str, ao: Ao) -> None:
    change(ao, f"UPDATE events SET line = {line} WHERE run_id = 'run_a' AND seq = 2")  # noqa: S608

    told = ao("events", "ses_a", "--text")
    result = ao("result", "ses_a", "--run", "run_a")

    assert (told.exit_code, [line[9] for line in told.stdout.splitlines()]) == (1, [">", "·"])
    assert told.stderr.startswith("Error: the store's row of events 2 is damaged: ")
    assert "of run run_a is damaged: " in said(result)


def test_events_of_a_damaged_run_are_printed_without_its_prompt(ao: Ao) -> None:
    change(ao, "UPDATE runs SET parameters = '{oops' WHERE run_id = 'run_a'")

    told = ao("events", "ses_a", "--text")

    assert told.exit_code == 1
    assert "row of run run_a is damaged" in told.stderr
    assert next(line[9] for line in told.stdout.splitlines()) == "·"


def test_an_event_of_a_type_that_this_version_does_not_know_is_no_damage(ao: Ao) -> None:
    names = {"session_id": "ses_a", "run_id": "run_a", "seq": 2, "timestamp": "2026-01-01T00:00:00Z"}
    later = json.dumps({"event_type": "thought", **names, "text": "Hm"})
    change(ao, f"UPDATE events SET line = '{later}' WHERE run_id = 'run_a' AND seq = 2")  # noqa: S608

    told = ao("events", "ses_a", "--text")

    assert (told.exit_code, told.stderr) == (0, "")
    assert "00:00:00 · thought Hm" in told.stdout.splitlines()


@pytest.mark.parametrize(
    "statements",
    [
        ["UPDATE runs SET parameters = '{oops' WHERE run_id = 'run_a'"],
        ["UPDATE sessions SET blueprint = '{oops' WHERE session_id = 'ses_a'"],
        ["UPDATE events SET line = '{oops' WHERE run_id = 'run_a'"],
        ["PRAGMA foreign_keys = OFF", "DELETE FROM sessions WHERE session_id = 'ses_a'"],
    ],
    ids=["run", "session", "events", "no session"],
)
def test_a_damaged_run_whose_runner_died_leaves_the_others_alone(statements: list[str], ao: Ao) -> None:
    change(ao, "UPDATE runs SET status = 'running' WHERE run_id = 'run_a'", *statements)

    assert ao("result", "ses_b", "--run", "run_b").stdout == "answer\n"
    assert ao("cancel", "run_b2").exit_code == 0


def test_a_time_that_is_none_is_shown_as_unknown(ao: Ao) -> None:
    change(ao, "UPDATE runs SET started_at = 'yesterday', queued_at = 'yesterday' WHERE run_id = 'run_a2'")

    for command in (("runs",), ("top", "--once")):
        (row,) = [line for line in ao(*command).stdout.splitlines() if line.startswith("run_a2")]
        assert "?" in row.split()


def read_only(ao: Ao, *arguments: str) -> Called:
    """Call `ao` with a home that nobody can write to: a mount for root, permissions for everybody else."""
    home = str(home_of(ao))
    if os.geteuid() == 0:
        require_mounts()
        mount = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'
        command = [*IN_A_MOUNT_OF_ITS_OWN, mount, home, *ao.argv(*arguments)]
    else:
        command = ao.argv(*arguments)
        home_of(ao).chmod(0o500)
    done = subprocess.run(
        command, cwd=ao.folder, env=ao.environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    home_of(ao).chmod(0o700)
    return Called(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize(
    "left",
    [(), ("-wal",), ("-wal", "-shm")],
    ids=["clean", "log", "log and index"],
)
def test_reading_works_on_a_read_only_home(left: tuple[str, ...], ao: Ao) -> None:
    with SqliteStore(home_of(ao)) as store:
        store.connection.execute("UPDATE runs SET status = 'running' WHERE run_id = 'run_a'")
        kept = {ending: (home_of(ao) / f"{FILE_NAME}{ending}").read_bytes() for ending in left}
        database = (home_of(ao) / FILE_NAME).read_bytes()
    if left:
        (home_of(ao) / FILE_NAME).write_bytes(database)  # as a killed process leaves it
    for ending, content in kept.items():
        (home_of(ao) / f"{FILE_NAME}{ending}").write_bytes(content)

    listed = read_only(ao, "runs", "--json").document

    assert [(row["run_id"], row["status"]) for row in listed][-1] == ("run_a", "running")
    assert read_only(ao, "sessions").exit_code == read_only(ao, "top", "--once").exit_code == 0
    assert read_only(ao, "result", "ses_b", "--run", "run_b").stdout == "answer\n"
    assert "is read-only" in read_only(ao, "doctor").stdout
    cancelled = read_only(ao, "cancel", "run_b2")
    assert cancelled.exit_code == 1
    assert cancelled.stderr.startswith(f"Error: cannot write to {home_of(ao) / FILE_NAME}: attempt to write a readonly")
