"""The store on a real file, also with several processes at once."""

import sqlite3
import stat
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import pytest

from ao_runner.store.records import Run, RunRecord, Session
from ao_runner.store.sqlite_store import SqliteStore
from ao_runner.store.store_errors import StoreUnusable
from ao_runner.store.store_file import FILE_NAME
from ao_runner.store.worker_table import Offer

SESSION = Session("ses_1", "2026-01-01T00:00:00Z", "x", "/bin/x", "/project", {"name": "agent"}, {"model": "m"})
RUN = Run("run_1", "ses_1", "start", {"prompt": "hi"}, "2026-01-01T00:00:00Z")


def filled(home: Path) -> SqliteStore:
    store = SqliteStore(home)
    store.sessions.add(SESSION)
    store.runs.begin(RUN, "owner")
    return store


def test_nobody_else_may_read_it(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "home") as store:
        assert stat.S_IMODE(store.path.stat().st_mode) == 0o600
        assert stat.S_IMODE(store.path.parent.stat().st_mode) == 0o700


LAYOUT_1 = """
PRAGMA journal_mode = WAL;
CREATE TABLE sessions (
    session_id TEXT PRIMARY KEY, created_at TEXT NOT NULL, executor_name TEXT NOT NULL, executor_path TEXT NOT NULL,
    project_dir TEXT NOT NULL, blueprint TEXT NOT NULL, executor_config TEXT NOT NULL, executor_session_id TEXT,
    is_simulated INTEGER NOT NULL
) STRICT;
CREATE TABLE runs (
    run_id TEXT PRIMARY KEY, session_id TEXT NOT NULL REFERENCES sessions, mode TEXT NOT NULL, parameters TEXT NOT NULL,
    started_at TEXT NOT NULL, status TEXT NOT NULL, ended_at TEXT, error_type TEXT, record TEXT, owner TEXT NOT NULL
) STRICT;
CREATE INDEX runs_of_session ON runs (session_id);
CREATE UNIQUE INDEX one_running_run ON runs (session_id) WHERE status = 'running';
CREATE TABLE events (
    position INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT NOT NULL REFERENCES runs, seq INTEGER NOT NULL,
    event_type TEXT NOT NULL, line TEXT NOT NULL, UNIQUE (run_id, seq)
) STRICT;
PRAGMA user_version = 1;
INSERT INTO sessions VALUES
    ('ses_1', '2026-01-01T00:00:00Z', 'x', '/bin/x', '/project', '{"name": "agent"}', '{"model": "m"}', NULL, 0);
INSERT INTO runs VALUES ('run_0', 'ses_1', 'start', '{"prompt": "hi"}', '2026-01-01T00:00:00Z', 'completed',
    '2026-01-01T00:00:01Z', NULL, '{"argv": ["/bin/x"], "exit_code": 0}', 'owner');
INSERT INTO runs VALUES
    ('run_1', 'ses_1', 'start', '{"prompt": "hi"}', '2026-01-01T00:00:00Z', 'running', NULL, NULL, NULL, 'owner');
INSERT INTO events (run_id, seq, event_type, line) VALUES ('run_0', 1, 'run_started', '{"seq":1}');
"""
"""A file as the program of layout 1 left it."""


def write_layout_1(home: Path) -> None:
    home.mkdir(exist_ok=True)
    with closing(sqlite3.connect(home / FILE_NAME)) as connection:
        connection.executescript(LAYOUT_1)


def test_a_file_of_layout_1_keeps_everything_and_takes_what_is_new(tmp_path: Path) -> None:
    write_layout_1(tmp_path)

    with SqliteStore(tmp_path) as store:
        ended = replace(RUN, run_id="run_0", status="completed", ended_at="2026-01-01T00:00:01Z")
        assert store.sessions.all() == [SESSION]
        assert store.runs.of_sessions("ses_1") == [ended, RUN]
        assert [(state.run, state.owner) for state in store.runs.states("running")] == [(RUN, "owner")]
        assert store.runs.find_record("run_0") == RunRecord(argv=("/bin/x",), exit_code=0)
        assert [event.line for event in store.events.of_session("ses_1")] == ['{"seq":1}']
        store.runs.end("run_1", "failed", "later", "internal_error")
        store.runs.begin(replace(RUN, run_id="run_2", contract={"schema_name": "review"}), "owner")
        assert store.runs.of_sessions("ses_1")[-1].contract == {"schema_name": "review"}
        assert store.schemas.all() == []


def layout_of(home: Path) -> list[tuple[str, ...]]:
    with closing(sqlite3.connect(home / FILE_NAME)) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'index') ORDER BY name")
        names = [name for (name,) in tables.fetchall()]
        return [column for name in names for column in connection.execute(f"PRAGMA table_xinfo('{name}')").fetchall()]


def test_an_old_file_and_a_new_one_end_with_the_same_layout(tmp_path: Path) -> None:
    write_layout_1(tmp_path / "old")
    for home in ("old", "new"):
        with SqliteStore(tmp_path / home):
            pass

    assert layout_of(tmp_path / "old") == layout_of(tmp_path / "new")


def test_a_program_of_layout_1_that_has_the_file_open_goes_on_writing(tmp_path: Path) -> None:
    write_layout_1(tmp_path)
    with closing(sqlite3.connect(tmp_path / FILE_NAME, isolation_level=None)) as older, SqliteStore(tmp_path) as store:
        older.execute("UPDATE runs SET status = 'completed' WHERE run_id = 'run_1'")
        older.execute(
            "INSERT INTO runs (run_id, session_id, mode, parameters, started_at, status, owner)"
            " VALUES ('run_2', 'ses_1', 'resume', '{}', 'now', 'running', 'owner')"
        )

        assert [run.run_id for run in store.runs.of_sessions("ses_1")] == ["run_0", "run_1", "run_2"]


def test_a_file_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    SqliteStore(tmp_path)
    with sqlite3.connect(tmp_path / FILE_NAME) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()

    told = r"made its layout 99, and this version knows layouts up to [0-9]+: install the newer version"
    with pytest.raises(StoreUnusable, match=told):
        SqliteStore(tmp_path)


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text("hello" * 1000)

    with pytest.raises(StoreUnusable, match="It was set aside"):
        SqliteStore(tmp_path)


def steps_of_a_claim(home: Path, queued_runs: int) -> int:
    """Return how many hundreds of steps SQLite takes for a claim from a queue."""
    with SqliteStore(home) as store:
        with store.transaction():
            for number in range(queued_runs):
                session_id = f"ses_{number}"
                store.sessions.add(replace(SESSION, session_id=session_id))
                store.queue.add(replace(replace(RUN, run_id=f"run_{number}", session_id=session_id), profile="x"))
        steps: list[None] = []
        store.connection.set_progress_handler(lambda: steps.append(None), 100)
        with store.transaction():
            claimed = store.queue.claim(Offer("worker"), 5, lambda *_: None)
    assert [one.run.run_id for one in claimed] == [f"run_{number}" for number in range(5)]
    return len(steps)


def test_a_claim_reads_the_head_of_the_queue_and_not_all_of_it(tmp_path: Path) -> None:
    assert steps_of_a_claim(tmp_path / "long", 2000) <= steps_of_a_claim(tmp_path / "short", 20)


def write_a_session(home: Path, number: int) -> None:
    session = replace(SESSION, session_id=f"ses_{number}")
    run = replace(RUN, run_id=f"run_{number}", session_id=session.session_id)
    with SqliteStore(home) as store:
        store.sessions.add(session)
        store.runs.begin(run, "owner")
        for seq in range(1, 51):
            store.events.add(run.run_id, seq, [b"{}"])


def test_who_made_the_file_sees_what_others_write_later(tmp_path: Path) -> None:
    with SqliteStore(tmp_path) as store, ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        for number in range(2):
            # Each time a process opens the file, writes, and closes it as if it were the last one.
            pool.submit(write_a_session, tmp_path, number).result(timeout=60)

            assert len(store.sessions.all()) == number + 1


def open_and_count(home: Path) -> int:
    with SqliteStore(home) as store:
        return len(store.runs.of_sessions("ses_1"))


def test_several_processes_open_an_old_file_at_once(tmp_path: Path) -> None:
    write_layout_1(tmp_path)

    with ProcessPoolExecutor(4, mp_context=get_context("spawn")) as pool:
        counts = [pool.submit(open_and_count, tmp_path) for _ in range(8)]

        assert [count.result(timeout=60) for count in counts] == [2] * 8


def test_several_processes_write_at_once_from_the_first_moment(tmp_path: Path) -> None:
    with ProcessPoolExecutor(4, mp_context=get_context("spawn")) as pool:
        for future in [pool.submit(write_a_session, tmp_path, number) for number in range(4)]:
            future.result(timeout=60)

    with SqliteStore(tmp_path) as store:
        assert [len(list(store.events.of_session(f"ses_{number}"))) for number in range(4)] == [50] * 4
