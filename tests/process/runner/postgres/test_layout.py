"""The tables of a PostgreSQL store are made once, also by processes that start together."""

from concurrent.futures import ThreadPoolExecutor

from ao_runner.store.postgres_layout import LAYOUTS, LOCK, layout_of, migrate
from ao_runner.store.postgres_store import connect
from tests.postgres_server import PostgresServer
from tests.process.executors.driver import wait_until
from tests.process.runner.cli.calling import SECONDS

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
