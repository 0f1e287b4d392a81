"""The tables of an SQLite store, and the steps from each layout to the next."""

import sqlite3
from typing import Final

from ao_runner.store.columns import ADDED

LAYOUTS: Final = (
    """
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
""",
    """
ALTER TABLE runs ADD COLUMN contract TEXT;
ALTER TABLE runs ADD COLUMN schema_name TEXT AS (json_extract(contract, '$.schema_name'));
CREATE INDEX runs_of_schema ON runs (schema_name);
CREATE TABLE schemas (
    name TEXT PRIMARY KEY, description TEXT NOT NULL, schema TEXT NOT NULL, created_at TEXT NOT NULL, deleted_at TEXT
) STRICT;
""",
    """
ALTER TABLE events ADD COLUMN last_seq INTEGER;
ALTER TABLE sessions ADD COLUMN profile TEXT;
ALTER TABLE runs ADD COLUMN attempt INTEGER NOT NULL DEFAULT 1;
ALTER TABLE runs ADD COLUMN queued_at TEXT;
ALTER TABLE runs ADD COLUMN profile TEXT;
ALTER TABLE runs ADD COLUMN timeout_seconds REAL;
ALTER TABLE runs ADD COLUMN metadata TEXT;
ALTER TABLE runs ADD COLUMN has_begun INTEGER NOT NULL DEFAULT 1;
ALTER TABLE runs ADD COLUMN lease_until REAL;
ALTER TABLE runs ADD COLUMN stop_wanted INTEGER NOT NULL DEFAULT 0;
CREATE INDEX runs_that_are_not_over ON runs (status) WHERE status IN ('queued', 'running');
""",
    """
ALTER TABLE runs ADD COLUMN model_script TEXT;
""",
    """
ALTER TABLE sessions ADD COLUMN agent_name TEXT NOT NULL DEFAULT '';
UPDATE sessions SET agent_name = iif(json_valid(blueprint), coalesce(json_extract(blueprint, '$.name'), ''), '');
ALTER TABLE sessions ADD COLUMN host TEXT;
ALTER TABLE runs ADD COLUMN requires TEXT NOT NULL DEFAULT '[]';
ALTER TABLE runs ADD COLUMN priority INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN not_before TEXT;
ALTER TABLE runs ADD COLUMN requeue INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN succeeds TEXT;
CREATE INDEX copies_of_runs ON runs (succeeds) WHERE succeeds IS NOT NULL;
CREATE TABLE limits (
    kind TEXT NOT NULL, name TEXT NOT NULL, most INTEGER NOT NULL, until TEXT, PRIMARY KEY (kind, name)
) STRICT;
""",
    """
CREATE INDEX queued_runs ON runs (priority DESC) WHERE status = 'queued';
""",
    """
ALTER TABLE sessions ADD COLUMN parent_session_id TEXT;
CREATE INDEX children_of_sessions ON sessions (parent_session_id) WHERE parent_session_id IS NOT NULL;
ALTER TABLE runs ADD COLUMN parent_session_id TEXT;
ALTER TABLE runs ADD COLUMN execution_mode TEXT;
ALTER TABLE runs ADD COLUMN announced INTEGER NOT NULL DEFAULT 1;
ALTER TABLE runs ADD COLUMN cost_usd REAL;
ALTER TABLE runs ADD COLUMN input_tokens INTEGER;
ALTER TABLE runs ADD COLUMN output_tokens INTEGER;
CREATE INDEX runs_to_announce ON runs (status) WHERE announced = 0;
CREATE TABLE agents (
    name TEXT PRIMARY KEY, document TEXT NOT NULL, status TEXT NOT NULL, created_at TEXT NOT NULL,
    modified_at TEXT NOT NULL
) STRICT;
CREATE TABLE answers (
    key TEXT PRIMARY KEY, digest TEXT NOT NULL, answer TEXT NOT NULL, created_at TEXT NOT NULL
) STRICT;
CREATE TABLE webhooks (
    webhook_id TEXT PRIMARY KEY, url TEXT NOT NULL, secret TEXT NOT NULL, created_at TEXT NOT NULL
) STRICT;
CREATE TABLE deliveries (
    kind TEXT NOT NULL, target TEXT NOT NULL, run_id TEXT NOT NULL, since TEXT NOT NULL, tries INTEGER NOT NULL,
    next_at TEXT, problem TEXT, PRIMARY KEY (kind, target, run_id)
) STRICT;
CREATE INDEX waiting_deliveries ON deliveries (target, next_at) WHERE next_at IS NOT NULL;
CREATE TABLE workers (
    worker_id TEXT PRIMARY KEY, host TEXT NOT NULL, pid INTEGER NOT NULL, offer TEXT NOT NULL, lease_until REAL NOT NULL
) STRICT;
CREATE TABLE actions (
    number INTEGER PRIMARY KEY AUTOINCREMENT, at TEXT NOT NULL, role TEXT NOT NULL, what TEXT NOT NULL,
    target TEXT NOT NULL
) STRICT;
CREATE INDEX actions_by_time ON actions (at);
""",
    """
ALTER TABLE runs ADD COLUMN input_responses TEXT;
CREATE TABLE inputs (
    run_id TEXT NOT NULL, request_id TEXT NOT NULL, asked_at TEXT NOT NULL, fields TEXT NOT NULL, answer TEXT,
    answered_by TEXT, outcome TEXT, parked INTEGER NOT NULL, PRIMARY KEY (run_id, request_id)
) STRICT;
CREATE INDEX waiting_inputs ON inputs (asked_at) WHERE answer IS NULL AND (outcome IS NULL OR parked = 1);
CREATE INDEX answered_inputs ON inputs (run_id) WHERE answer IS NOT NULL AND outcome IS NULL;
ALTER TABLE workers ADD COLUMN drain INTEGER NOT NULL DEFAULT 0;
ALTER TABLE workers ADD COLUMN outbox_seconds REAL NOT NULL DEFAULT 0;
CREATE INDEX given_up_deliveries ON deliveries (since) WHERE next_at IS NULL;
""",
    *ADDED,
)
"""The steps from each layout to the next. Never edit a step; append a new layout.

A new file takes all steps and an old one the missing steps, so both end with the same layout."""


def upgrade(connection: sqlite3.Connection) -> None:
    """Change a file to the newest layout, in one transaction."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have upgraded the file while this one waited.
        for number, layout in enumerate(LAYOUTS[layout_of(connection) :], layout_of(connection) + 1):
            for statement in layout.split(";\n"):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number}")
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def layout_of(connection: sqlite3.Connection) -> int:
    """Return the layout of a file; 0 if it has no tables."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])
