"""What an operator does with a PostgreSQL store: change its layout, look at its state, drop what is old."""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import psycopg

from ao_runner.store.opening import StorePlace
from ao_runner.store.postgres_layout import (
    LOCK_SECONDS,
    check_encoding,
    layout_of,
    migrate,
    missing_partitions,
    partition_name,
)
from ao_runner.store.postgres_notifications import POLLING, direct_url, missing_notifications
from ao_runner.store.postgres_store import LOST, PostgresStore, connect, explain

_PARTITIONS: Final = """
WITH parts AS (
    SELECT relname AS name, to_date(relname, '"events_"YYYY_MM_DD') AS week, pg_total_relation_size(oid) AS bytes
    FROM pg_inherits JOIN pg_class ON oid = inhrelid WHERE inhparent = 'events'::regclass
    AND relname ~ '^events_[0-9]{4}_[0-9]{2}_[0-9]{2}$'
)
SELECT name, parts.week::text, bytes, count(run_id),
       count(run_id) FILTER (WHERE status IN ('queued', 'running'))
FROM parts LEFT JOIN runs ON runs.week = parts.week
WHERE parts.week + 7 <= (clock_timestamp() - make_interval(secs => ?)) AT TIME ZONE 'UTC'
GROUP BY name, parts.week, bytes ORDER BY name
"""

_GONE_WORKERS: Final = """
WITH open_runs AS (
    SELECT owner, host FROM runs JOIN sessions ON sessions.session_id = runs.session_id
    WHERE status IN ('queued', 'running')
)
{} FROM workers WHERE lease_until < clock_timestamp() - interval '1 week'
AND worker_id NOT IN (SELECT owner FROM open_runs)
AND (host, lease_until) NOT IN (
    SELECT host, max(lease_until) FROM workers WHERE host IN (SELECT host FROM open_runs) GROUP BY host
)
"""
"""A run may wait for the host of its session for longer than a week. The last worker of the host says since when it is
gone."""


@dataclass(frozen=True, slots=True)
class ServerState:
    """The facts about a server and its store that decide whether runs can be performed."""

    version: str
    layout: int
    is_read_only: bool
    """Whether it is a standby, or its configuration makes transactions read-only."""
    clock_ahead_seconds: float
    """By how much the clock of the server is ahead of the clock of this host."""
    missing_partitions: Sequence[str]
    """The missing tables for the events of this week and the next one."""
    abandoned: Sequence[tuple[str, str]]
    """The running runs whose worker is gone, each with the host of the worker."""
    workers: int
    waiting_commits: int
    """The commits of this role that wait for a synchronous standby."""
    polling: str | None = None
    """A sentence if notifications do not arrive on this host, so that its workers poll."""


@dataclass(frozen=True, slots=True)
class EventPartition:
    """The events of the runs that were added in one week. `week` is its Monday."""

    name: str
    week: str
    bytes: int
    runs: int
    open_runs: int


def layout_at(place: StorePlace) -> int:
    """Return the layout of a database; 0 if it has no tables."""
    with _connected(place) as connection:
        return layout_of(connection)[0]


def migrate_at(place: StorePlace) -> tuple[int, int]:
    """Change a database to the newest layout and return the layouts before and after; see `migrate`."""
    with _connected(place) as connection:
        return migrate(connection)


def look(place: StorePlace, now: Callable[[], float] = time.time) -> ServerState:
    """Return the state of a server and its store, whose tables exist.

    Raises:
        StoreUnusable: The layout or the encoding does not fit this program.
        StoreUnreachable: The server does not answer or refuses the connection.
    """
    with PostgresStore(place.home, place.url, place.name) as store, store.explaining():
        before = now()
        ((seconds, version, is_read_only),) = store.fetch(
            "SELECT extract(epoch FROM clock_timestamp())::float8, current_setting('server_version'),"
            " current_setting('transaction_read_only') = 'on'"
        )
        clock_ahead_seconds = seconds - (before + now()) / 2
        layout, _ = layout_of(store.connection)
        missing = [partition_name(week) for week in missing_partitions(store.connection, 1)]
        rows = store.fetch(f"SELECT run_id, coalesce(host, 'an unknown host') FROM {LOST} ORDER BY run_id")  # noqa: S608
        abandoned = [(run_id, host) for run_id, host in rows]
        workers = store.workers.fleet().workers
        ((waiting,),) = store.fetch("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
    reason = None if is_read_only else asyncio.run(missing_notifications(place.url, direct_url(place.url)))
    polling = None if reason is None else POLLING.format(reason=reason)
    return ServerState(
        version, layout, is_read_only, clock_ahead_seconds, missing, abandoned, workers, waiting, polling
    )


def prune_events(
    place: StorePlace, older_than: timedelta, *, dry_run: bool = False
) -> tuple[list[EventPartition], list[EventPartition]]:
    """Drop the events of the weeks that ended longer ago than a time, by the clock of the server.

    A week with a run that is not over stays. No row is deleted: sessions, runs and their records stay.

    Returns:
        The dropped partitions, and those that are as old but stay.

    Raises:
        StoreLocked: Another session uses the events. Earlier weeks are dropped.
    """
    with PostgresStore(place.home, place.url, place.name) as store:
        old = [EventPartition(*row) for row in store.fetch(_PARTITIONS, (older_than.total_seconds(),))]
        dropped = [one for one in old if one.open_runs == 0]  # and stays so: a run that has ended never opens again
        for one in [] if dry_run else dropped:
            with store.transaction():
                store.write(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'")
                store.write(f"DROP TABLE IF EXISTS {one.name}")
    return dropped, [one for one in old if one.open_runs]


def forget_workers(place: StorePlace, *, dry_run: bool = False) -> int:
    """Delete the workers that ended more than a week ago, and return their number.

    A worker with a running run stays, and so does the last one of a host whose session has a queued or running run.
    """
    with PostgresStore(place.home, place.url, place.name) as store:
        return store.write(_GONE_WORKERS.format("SELECT" if dry_run else "DELETE"))


@contextmanager
def _connected(place: StorePlace) -> Iterator["psycopg.Connection[tuple[Any, ...]]"]:
    """Yield a connection to a database, whatever its layout."""
    try:
        with closing(connect(place.url)) as connection:
            check_encoding(connection, place.name)
            yield connection
    except psycopg.Error as error:
        raise explain(place.name, error) from error
