"""The store on a real file, also with several processes at once."""

import sqlite3
import stat
import tracemalloc
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import pytest

from ao_protocol.wire import JsonObject
from ao_runner.store.records import (
    QueuedRun,
    RowConflict,
    Run,
    RunRecord,
    Session,
    SessionBusy,
    SessionUnknown,
    StoreUnusable,
)
from ao_runner.store.store import Store
from ao_runner.store.store_file import FILE_NAME

SESSION = Session("ses_1", "2026-01-01T00:00:00Z", "x", "/bin/x", "/project", {"name": "agent"}, {"model": "m"})
RUN = Run("run_1", "ses_1", "start", {"prompt": "hi"}, "2026-01-01T00:00:00Z")


def filled(home: Path) -> Store:
    store = Store(home)
    store.add_session(SESSION)
    store.begin_run(RUN, "owner")
    return store


def test_what_was_kept_is_there_in_a_later_process(tmp_path: Path) -> None:
    with filled(tmp_path) as store:
        store.add_events("run_1", 1, [b'{"seq":1}', b'{"seq":2}'])
        store.bind_session("ses_1", "their-1")
        store.end_run("run_1", "completed", "2026-01-01T00:00:01Z", None)
        store.add_record("run_1", RunRecord(argv=("/bin/x",), exit_code=0, seconds={"spawned": 0.1}, problems=("p",)))

    with Store(tmp_path) as store:
        assert store.find_session("ses_1") == replace(SESSION, executor_session_id="their-1")
        assert store.list_runs("ses_1") == [replace(RUN, status="completed", ended_at="2026-01-01T00:00:01Z")]
        assert [event.line for event in store.list_events("ses_1")] == ['{"seq":1}', '{"seq":2}']
        assert store.last_line("run_1") == '{"seq":2}'
        assert store.find_record("run_1") == RunRecord(
            argv=("/bin/x",), exit_code=0, seconds={"spawned": 0.1}, problems=("p",)
        )


def test_an_event_of_a_run_can_be_kept_only_once(tmp_path: Path) -> None:
    with filled(tmp_path) as store:
        store.add_events("run_1", 1, [b"{}"])

        with pytest.raises(RowConflict):
            store.add_events("run_1", 1, [b"{}", b"{}"])

        assert len(list(store.list_events("ses_1"))) == 1


def test_a_session_has_one_run_at_a_time(tmp_path: Path) -> None:
    with filled(tmp_path) as store:
        with pytest.raises(SessionBusy):
            store.begin_run(replace(RUN, run_id="run_2"), "other")

        store.end_run("run_1", "completed", "later", None)
        store.begin_run(replace(RUN, run_id="run_2"), "other")


@pytest.mark.parametrize(
    ("other", "refused"),
    [
        pytest.param(replace(RUN, session_id="ses_2"), RowConflict, id="id"),
        pytest.param(replace(RUN, run_id="run_2", session_id="ses_3"), SessionUnknown, id="session"),
    ],
)
def test_a_run_that_is_there_and_a_session_that_is_not_are_no_busy_session(
    other: Run, refused: type[Exception], tmp_path: Path
) -> None:
    with filled(tmp_path) as store:
        store.add_session(replace(SESSION, session_id="ses_2"))

        with pytest.raises(refused):
            store.begin_run(other, "owner")


def test_a_session_is_kept_with_its_first_run_or_not_at_all(tmp_path: Path) -> None:
    with filled(tmp_path) as store:
        begun = replace(SESSION, session_id="ses_2")

        with pytest.raises(RowConflict):
            store.begin_run(replace(RUN, session_id="ses_2"), "owner", begun)

        assert store.list_sessions() == [SESSION]


@pytest.mark.parametrize("wanted", ["ses_a1", "ses_a", "last"])
def test_a_session_is_found_by_its_id_its_beginning_or_as_the_last(wanted: str, tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        for session_id in ("ses_b1", "ses_a1"):
            store.add_session(replace(SESSION, session_id=session_id))
            store.begin_run(replace(RUN, run_id=f"run_{session_id}", session_id=session_id), "owner")

        assert store.find_session(wanted).session_id == "ses_a1"


def test_the_beginning_of_several_ids_says_which_there_are(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        for session_id in ("ses_b1", "ses_b2"):
            store.add_session(replace(SESSION, session_id=session_id))

        with pytest.raises(SessionUnknown, match="is ambiguous: ses_b1, ses_b2"):
            store.find_session("ses_b")


def test_a_session_is_found_whatever_the_others_hold(tmp_path: Path) -> None:
    with filled(tmp_path) as store:
        store.add_session(replace(SESSION, session_id="ses_2"))
        store.connection.execute("UPDATE sessions SET blueprint = 'damaged' WHERE session_id = 'ses_2'")

        assert store.find_session("last") == SESSION
        assert store.list_sessions() == [SESSION]
        assert [damaged.row_id for damaged in store.damage.values()] == ["ses_2"]


def test_the_run_that_began_a_session_is_found_whatever_the_others_hold(tmp_path: Path) -> None:
    with filled(tmp_path) as store:
        store.end_run("run_1", "completed", "later", None)
        store.begin_run(replace(RUN, run_id="run_2", mode="resume"), "owner")
        store.connection.execute("UPDATE runs SET parameters = 'damaged' WHERE run_id = 'run_2'")

        assert store.first_run("ses_1") == replace(RUN, status="completed", ended_at="later")


@pytest.mark.parametrize(
    ("beginning", "found"),
    [("run_1", ["run_1"]), ("run_", ["run_1", "run_12", "run_2"]), ("run%", []), ("un_1", [])],
)
def test_runs_are_found_by_the_beginning_of_their_id(beginning: str, found: list[str], tmp_path: Path) -> None:
    with filled(tmp_path) as store:
        store.end_run("run_1", "completed", "later", None)
        for run_id in ("run_12", "run_2"):
            store.enqueue(QueuedRun(replace(RUN, run_id=run_id, status="queued"), "x"))

        assert [state.run.run_id for state in store.find_states(beginning)] == found


def test_events_are_read_one_row_at_a_time(tmp_path: Path) -> None:
    rows, line = 200, b'"%s"' % (b"x" * 50_000)
    with filled(tmp_path) as store:
        for seq in range(1, rows + 1):
            store.add_events("run_1", seq, [line])

        tracemalloc.start()
        try:
            assert sum(1 for _ in store.list_events("ses_1")) == rows
            _, peak_bytes = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

    assert peak_bytes < rows * len(line) / 10


def test_events_of_one_run_of_a_session_are_found(tmp_path: Path) -> None:
    with filled(tmp_path) as store:
        store.add_events("run_1", 1, [b"1", b"2"])
        store.end_run("run_1", "completed", "later", None)
        store.begin_run(replace(RUN, run_id="run_2"), "owner")
        store.add_events("run_2", 1, [b"3"])

        assert [event.line for event in store.list_events("ses_1", run_id="run_2")] == ["3"]
        assert [event.line for event in store.list_events("ses_1")] == ["1", "2", "3"]
        assert list(store.list_events("ses_2", run_id="run_2")) == []


@pytest.mark.parametrize("wanted", ["nobody", "%", "ses%", "last"])
def test_a_session_that_is_not_there_is_named(wanted: str, tmp_path: Path) -> None:
    with Store(tmp_path) as store, pytest.raises(SessionUnknown, match="`ao sessions` and `ao runs` list"):
        store.find_session(wanted)


def test_nobody_else_may_read_it(tmp_path: Path) -> None:
    with Store(tmp_path / "home") as store:
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

    with Store(tmp_path) as store:
        ended = replace(RUN, run_id="run_0", status="completed", ended_at="2026-01-01T00:00:01Z")
        assert store.list_sessions() == [SESSION]
        assert store.list_runs("ses_1") == [ended, RUN]
        assert [(state.run, state.owner) for state in store.list_states("running")] == [(RUN, "owner")]
        assert store.find_record("run_0") == RunRecord(argv=("/bin/x",), exit_code=0)
        assert [event.line for event in store.list_events("ses_1")] == ['{"seq":1}']
        store.end_run("run_1", "failed", "later", "internal_error")
        store.begin_run(replace(RUN, run_id="run_2", contract={"schema_name": "review"}), "owner")
        assert store.list_runs("ses_1")[-1].contract == {"schema_name": "review"}
        assert store.list_schemas() == []


def layout_of(home: Path) -> list[tuple[str, ...]]:
    with closing(sqlite3.connect(home / FILE_NAME)) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'index') ORDER BY name")
        names = [name for (name,) in tables.fetchall()]
        return [column for name in names for column in connection.execute(f"PRAGMA table_xinfo('{name}')").fetchall()]


def test_an_old_file_and_a_new_one_end_with_the_same_layout(tmp_path: Path) -> None:
    write_layout_1(tmp_path / "old")
    for home in ("old", "new"):
        with Store(tmp_path / home):
            pass

    assert layout_of(tmp_path / "old") == layout_of(tmp_path / "new")


def test_a_program_of_layout_1_that_has_the_file_open_goes_on_writing(tmp_path: Path) -> None:
    write_layout_1(tmp_path)
    with closing(sqlite3.connect(tmp_path / FILE_NAME, isolation_level=None)) as older, Store(tmp_path) as store:
        older.execute("UPDATE runs SET status = 'completed' WHERE run_id = 'run_1'")
        older.execute(
            "INSERT INTO runs (run_id, session_id, mode, parameters, started_at, status, owner)"
            " VALUES ('run_2', 'ses_1', 'resume', '{}', 'now', 'running', 'owner')"
        )

        assert [run.run_id for run in store.list_runs("ses_1")] == ["run_0", "run_1", "run_2"]


def test_a_run_says_what_its_caller_demanded(tmp_path: Path) -> None:
    contract: JsonObject = {"source": "named", "schema_name": "review", "options": {"max_retries": 1}}
    with Store(tmp_path) as store:
        store.add_session(SESSION)
        store.begin_run(replace(RUN, contract=contract), "owner")

        assert store.list_runs("ses_1") == [replace(RUN, contract=contract)]
        assert [state.run for state in store.list_states("running")] == [replace(RUN, contract=contract)]


def test_a_file_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    Store(tmp_path)
    with sqlite3.connect(tmp_path / FILE_NAME) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()

    with pytest.raises(StoreUnusable, match="a newer version of ao made it"):
        Store(tmp_path)


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text("hello" * 1000)

    with pytest.raises(StoreUnusable, match="AO_HOME"):
        Store(tmp_path)


def write_a_session(home: Path, number: int) -> None:
    session = replace(SESSION, session_id=f"ses_{number}")
    run = replace(RUN, run_id=f"run_{number}", session_id=session.session_id)
    with Store(home) as store:
        store.add_session(session)
        store.begin_run(run, "owner")
        for seq in range(1, 51):
            store.add_events(run.run_id, seq, [b"{}"])


def test_who_made_the_file_sees_what_others_write_later(tmp_path: Path) -> None:
    with Store(tmp_path) as store, ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        for number in range(2):
            # Each time a process opens the file, writes, and closes it as if it were the last one.
            pool.submit(write_a_session, tmp_path, number).result(timeout=60)

            assert len(store.list_sessions()) == number + 1


def open_and_count(home: Path) -> int:
    with Store(home) as store:
        return len(store.list_runs("ses_1"))


def test_several_processes_open_an_old_file_at_once(tmp_path: Path) -> None:
    write_layout_1(tmp_path)

    with ProcessPoolExecutor(4, mp_context=get_context("spawn")) as pool:
        counts = [pool.submit(open_and_count, tmp_path) for _ in range(8)]

        assert [count.result(timeout=60) for count in counts] == [2] * 8


def test_several_processes_write_at_once_from_the_first_moment(tmp_path: Path) -> None:
    with ProcessPoolExecutor(4, mp_context=get_context("spawn")) as pool:
        for future in [pool.submit(write_a_session, tmp_path, number) for number in range(4)]:
            future.result(timeout=60)

    with Store(tmp_path) as store:
        assert [len(list(store.list_events(f"ses_{number}"))) for number in range(4)] == [50] * 4
