"""A database that several processes use for the first time at once."""

from concurrent.futures import ThreadPoolExecutor

import psycopg

from ao_runner.store.opening import StorePlace
from ao_runner.store.postgres_layout import LOCK
from tests.process.runner.postgres.acting import await_blocked, opened


def test_processes_that_open_an_empty_database_at_once_create_its_tables_once(place: StorePlace) -> None:
    def open_it(_: int) -> int:
        with opened(place) as store:
            return len(store.list_sessions())

    with ThreadPoolExecutor(4) as threads, psycopg.connect(place.url) as blocker:
        blocker.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
        opening = threads.map(open_it, range(4))
        await_blocked(place.url, 4)
        blocker.rollback()

        assert list(opening) == [0, 0, 0, 0]
