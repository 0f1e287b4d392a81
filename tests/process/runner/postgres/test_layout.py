"""The tables of a PostgreSQL store are made once, also by processes that start together."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ao_runner.store.opening import StorePlace
from ao_runner.store.postgres_layout import LAYOUTS, LOCK, layout_of, migrate
from ao_runner.store.postgres_store import connect
from ao_runner.store.store_errors import StoreUnusable
from tests.postgres_server import PostgresServer
from tests.process.executors.driver import wait_until
from tests.process.runner.cli.calling import SECONDS
from tests.process.runner.postgres.acting import NOW, opened

COLUMNS = """
SELECT table_name, column_name, data_type, is_nullable, column_default FROM information_schema.columns
WHERE table_schema = 'public' AND table_name NOT LIKE 'events\\_%' ORDER BY table_name, column_name
"""
INDEXES = "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' AND tablename NOT LIKE 'events\\_%'"
WAITING = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"


def test_the_second_of_two_processes_finds_the_tables_of_the_first(postgres: PostgresServer) -> None:
    url = postgres.new_database()
    newest = len(LAYOUTS)
    with connect(url) as first, connect(url) as second, ThreadPoolExecutor(1) as thread:
        assert layout_of(second) == (0, 0)
        with first.transaction():
            first.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
            migrating = thread.submit(migrate, second)
            wait_until(lambda: first.execute(WAITING).fetchone() == (1,), SECONDS)
            assert migrate(first) == (0, newest)
        assert migrating.result(SECONDS) == (newest, newest)


def test_a_database_of_three_layouts_ago_keeps_its_runs_and_ends_like_a_new_one(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    old, new = (StorePlace(tmp_path / name, postgres.new_database()) for name in ("old", "new"))
    with connect(old.url) as of_then, opened(new):
        assert migrate(of_then, LAYOUTS[:-3], 1) == (0, len(LAYOUTS) - 3)
        of_then.execute(
            "INSERT INTO sessions (session_id, created_at, executor_name, executor_path, project_dir, blueprint,"
            " executor_config, is_simulated, agent_name) VALUES ('ses_1', %s, 'x', '/x', '/', '{}', '{}', 0, 'a')",
            (NOW,),
        )
        of_then.execute(
            "INSERT INTO runs (run_id, session_id, mode, parameters, started_at, status, owner)"
            " VALUES ('run_1', 'ses_1', 'start', '{\"prompt\": \"hi\"}', %s, 'running', 'worker')",
            (NOW,),
        )
        with pytest.raises(StoreUnusable, match=r"has layout [0-9]+, and this program needs [0-9]+: ao store migrate"):
            old.open()

        assert migrate(of_then) == (len(LAYOUTS) - 3, len(LAYOUTS))

        with opened(old) as store, connect(new.url) as other:
            assert [one.run.parameters for one in store.runs.states("running")] == [{"prompt": "hi"}]
            assert store.events.add_of_attempt("run_1", 1, 1, [b'{"seq":1}'], "worker") == 1
            for query in (COLUMNS, INDEXES):
                assert sorted(of_then.execute(query).fetchall()) == sorted(other.execute(query).fetchall())
