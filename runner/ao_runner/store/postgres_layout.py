"""The tables of a PostgreSQL store, and the steps from each layout to the next."""

import datetime
from collections.abc import Sequence
from typing import Final, cast

import psycopg

from ao_runner.store.columns import ADDED
from ao_runner.store.store_errors import StoreUnusable

LOCK: Final = 0x_A0_57_0E
"""The key of the advisory lock that serialises changes of the layout; it is held for one transaction."""
LOCK_SECONDS: Final = 2
"""How long a change of a table waits for the sessions that use it."""
WEEKS_AHEAD: Final = 4

LAYOUTS: Final = (
    """
CREATE TABLE sessions (
    rowid bigint GENERATED ALWAYS AS IDENTITY, session_id text COLLATE "C" PRIMARY KEY, created_at text NOT NULL,
    executor_name text NOT NULL, executor_path text NOT NULL, project_dir text NOT NULL, blueprint text NOT NULL,
    executor_config text NOT NULL, executor_session_id text, is_simulated integer NOT NULL, profile text,
    agent_name text NOT NULL, host text
);
CREATE TABLE runs (
    rowid bigint GENERATED ALWAYS AS IDENTITY UNIQUE, run_id text COLLATE "C" PRIMARY KEY,
    session_id text COLLATE "C" NOT NULL REFERENCES sessions, mode text NOT NULL, parameters text NOT NULL,
    started_at text NOT NULL, status text NOT NULL, ended_at text, error_type text, record text, owner text NOT NULL,
    contract text, schema_name text, attempt integer NOT NULL DEFAULT 1, queued_at text, profile text,
    timeout_seconds double precision, metadata text, has_begun integer NOT NULL DEFAULT 1,
    stop_wanted integer NOT NULL DEFAULT 0, model_script text, last_seq bigint NOT NULL DEFAULT 0,
    requires text NOT NULL DEFAULT '[]', priority integer NOT NULL DEFAULT 0, not_before text,
    requeue integer NOT NULL DEFAULT 0, succeeds text COLLATE "C",
    week date NOT NULL DEFAULT date_trunc('week', clock_timestamp() AT TIME ZONE 'UTC')::date
) WITH (fillfactor = 80);
CREATE UNIQUE INDEX one_running_run ON runs (session_id) WHERE status = 'running';
CREATE INDEX runs_of_session ON runs (session_id, rowid);
CREATE INDEX runs_of_schema ON runs (schema_name) WHERE schema_name IS NOT NULL;
CREATE INDEX queued_runs ON runs (priority DESC, rowid) WHERE status = 'queued';
CREATE INDEX copies_of_runs ON runs (succeeds) WHERE succeeds IS NOT NULL;
CREATE INDEX running_runs ON runs (owner) WHERE status = 'running';
CREATE SEQUENCE event_positions;
CREATE TABLE events (
    week date NOT NULL, run_id text COLLATE "C" NOT NULL, seq bigint NOT NULL, last_seq bigint NOT NULL,
    position bigint NOT NULL DEFAULT nextval('event_positions'), line text NOT NULL, PRIMARY KEY (run_id, seq, week)
) PARTITION BY RANGE (week);
CREATE INDEX events_in_order ON events (run_id, position);
CREATE TABLE workers (
    worker_id text COLLATE "C" PRIMARY KEY, host text NOT NULL, pid integer NOT NULL, offer text NOT NULL,
    lease_until timestamptz NOT NULL
) WITH (fillfactor = 50);
CREATE TABLE limits (
    kind text NOT NULL, name text COLLATE "C" NOT NULL, most integer NOT NULL, until text, PRIMARY KEY (kind, name)
);
CREATE TABLE schemas (
    name text COLLATE "C" PRIMARY KEY, description text NOT NULL, schema text NOT NULL, created_at text NOT NULL,
    deleted_at text
);
""",
    """
ALTER TABLE sessions ADD COLUMN parent_session_id text COLLATE "C";
CREATE INDEX children_of_sessions ON sessions (parent_session_id) WHERE parent_session_id IS NOT NULL;
ALTER TABLE runs ADD COLUMN parent_session_id text COLLATE "C";
ALTER TABLE runs ADD COLUMN execution_mode text;
ALTER TABLE runs ADD COLUMN announced integer NOT NULL DEFAULT 1;
ALTER TABLE runs ADD COLUMN cost_usd double precision;
ALTER TABLE runs ADD COLUMN input_tokens bigint;
ALTER TABLE runs ADD COLUMN output_tokens bigint;
CREATE INDEX runs_to_announce ON runs (status) WHERE announced = 0;
CREATE TABLE agents (
    name text COLLATE "C" PRIMARY KEY, document text NOT NULL, status text NOT NULL, created_at text NOT NULL,
    modified_at text NOT NULL
);
CREATE TABLE answers (
    key text COLLATE "C" PRIMARY KEY, digest text NOT NULL, answer text NOT NULL, created_at text NOT NULL
);
CREATE TABLE webhooks (
    webhook_id text COLLATE "C" PRIMARY KEY, url text NOT NULL, secret text NOT NULL, created_at text NOT NULL
);
CREATE TABLE deliveries (
    kind text NOT NULL, target text COLLATE "C" NOT NULL, run_id text COLLATE "C" NOT NULL, since text NOT NULL,
    tries integer NOT NULL, next_at text, problem text, PRIMARY KEY (kind, target, run_id)
);
CREATE INDEX waiting_deliveries ON deliveries (target, next_at) WHERE next_at IS NOT NULL;
CREATE TABLE actions (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at text COLLATE "C" NOT NULL, role text NOT NULL,
    what text NOT NULL, target text NOT NULL
);
CREATE INDEX actions_by_time ON actions (at);
""",
    """
ALTER TABLE runs ADD COLUMN input_responses text;
CREATE TABLE inputs (
    run_id text COLLATE "C" NOT NULL, request_id text COLLATE "C" NOT NULL, asked_at text NOT NULL,
    fields text NOT NULL, answer text, answered_by text, outcome text, parked integer NOT NULL,
    PRIMARY KEY (run_id, request_id)
);
CREATE INDEX waiting_inputs ON inputs (asked_at) WHERE answer IS NULL AND (outcome IS NULL OR parked = 1);
CREATE INDEX answered_inputs ON inputs (run_id) WHERE answer IS NOT NULL AND outcome IS NULL;
ALTER TABLE workers ADD COLUMN drain integer NOT NULL DEFAULT 0;
ALTER TABLE workers ADD COLUMN outbox_seconds double precision NOT NULL DEFAULT 0;
CREATE INDEX given_up_deliveries ON deliveries (since) WHERE next_at IS NULL;
""",
    *ADDED,
)
"""Never edit a released step; append a new one. A step must let programs of the layout before it go on working, or
raise `OLDEST_PROGRAM`."""
OLDEST_PROGRAM: Final = 1
"""The layout of the oldest program that can use a store of the newest layout."""


def check_encoding(connection: "psycopg.Connection[tuple[object, ...]]", place: str) -> None:
    """Raise `StoreUnusable` if a database cannot store every text."""
    if (found := connection.info.parameter_status("server_encoding")) != "UTF8":
        raise StoreUnusable(place, f"its encoding is {found}; create the database with ENCODING 'UTF8'")


def layout_of(connection: "psycopg.Connection[tuple[object, ...]]") -> tuple[int, int]:
    """Return the layout of a database and the layout of the oldest program that can use it; zeros if it is empty."""
    # `to_regclass` may answer from the cache of this connection, from before it waited for the lock.
    query = "SELECT EXISTS (SELECT FROM pg_class WHERE relname = 'ao_layout' AND pg_table_is_visible(oid))"
    (exists,) = connection.execute(query).fetchone() or (False,)
    if not exists:
        return 0, 0
    layout, oldest_program = connection.execute("SELECT layout, oldest_program FROM ao_layout").fetchone() or (0, 0)
    return int(str(layout)), int(str(oldest_program))


def migrate(
    connection: "psycopg.Connection[tuple[object, ...]]",
    layouts: Sequence[str] = LAYOUTS,
    oldest_program: int = OLDEST_PROGRAM,
) -> tuple[int, int]:
    """Change a database to the newest layout and return the layouts before and after. One process does it at a time.

    Raises:
        StoreUnusable: Workers are active whose version cannot use the newest layout; nothing was changed.
    """
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
        before, _ = layout_of(connection)
        if before < len(layouts):
            # While a change of a table waits for a long query, writers queue up behind it.
            connection.execute(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'")
            if 0 < before < oldest_program:
                _refuse_old_workers(connection, len(layouts))
            connection.execute("CREATE TABLE IF NOT EXISTS ao_layout (layout integer, oldest_program integer)")
            for step in layouts[before:]:
                connection.execute(step)
            connection.execute("DELETE FROM ao_layout")
            connection.execute("INSERT INTO ao_layout VALUES (%s, %s)", (len(layouts), oldest_program))
    make_partitions(connection)
    return before, max(before, len(layouts))


def _refuse_old_workers(connection: "psycopg.Connection[tuple[object, ...]]", layout: int) -> None:
    rows = connection.execute(
        "SELECT DISTINCT host FROM workers WHERE lease_until > clock_timestamp() AND offer <> '{}' ORDER BY host"
    ).fetchall()
    if rows:
        hosts = ", ".join(str(host) for (host,) in rows)
        raise StoreUnusable(
            f"database {connection.info.dbname}",
            f"layout {layout} excludes older workers, and some are active on {hosts}. Stop them with SIGTERM, which"
            " lets their runs finish, then retry",
        )


def make_partitions(connection: "psycopg.Connection[tuple[object, ...]]") -> None:
    """Create the partitions of events for this week, by the clock of the server, and for some weeks ahead.

    They are attached and not created in place, because that would wait for a backup, and all writers behind it.
    """
    if not missing_partitions(connection, WEEKS_AHEAD):
        return
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
        for week in missing_partitions(connection, WEEKS_AHEAD):
            name, behind = partition_name(week), week + datetime.timedelta(weeks=1)
            connection.execute(f"CREATE TABLE {name} (LIKE events INCLUDING ALL)")
            connection.execute(f"ALTER TABLE events ATTACH PARTITION {name} FOR VALUES FROM ('{week}') TO ('{behind}')")


def missing_partitions(connection: "psycopg.Connection[tuple[object, ...]]", ahead: int) -> list[datetime.date]:
    """Return the weeks, from this one to the number of weeks ahead, whose partitions are missing."""
    (now,) = connection.execute("SELECT clock_timestamp() AT TIME ZONE 'UTC'").fetchone() or (None,)
    today = cast("datetime.datetime", now).date()
    monday = today - datetime.timedelta(days=today.weekday())
    names = {partition_name(week): week for week in (monday + datetime.timedelta(weeks=n) for n in range(ahead + 1))}
    rows = connection.execute("SELECT relname FROM pg_class WHERE relname = ANY(%s)", (list(names),)).fetchall()
    return [names[name] for name in sorted(names.keys() - {str(name) for (name,) in rows})]


def partition_name(week: datetime.date) -> str:
    """Return the name of the partition with the events of runs that were added in a week."""
    return f"events_{week:%Y_%m_%d}"
