"""Deleting sessions from the local store: all their runs, events and results with them, and never an open run."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Final

from ao_runner.errors import RunnerError
from ao_runner.store.store import Store
from ao_runner.store.store_file import transaction

SESSIONS_AT_ONCE: Final = 20
"""So many old sessions are deleted in one transaction, so that a worker beside it can write in between."""

_HAS_OPEN_RUN: Final = (
    "EXISTS (SELECT 1 FROM runs WHERE runs.session_id = sessions.session_id AND status IN ('queued', 'running'))"
)
_LAST_ACTIVITY: Final = (
    "max(created_at, coalesce((SELECT max(max(started_at, coalesce(ended_at, ''))) FROM runs"
    " WHERE runs.session_id = sessions.session_id), ''))"
)
_COLUMNS: Final = (
    "session_id, iif(json_valid(blueprint), json_extract(blueprint, '$.name'), ''),"  # noqa: S608  # own words
    " (SELECT count(*) FROM runs WHERE runs.session_id = sessions.session_id),"
    f" {_LAST_ACTIVITY}, {_HAS_OPEN_RUN}"
)


@dataclass(frozen=True, slots=True)
class DeletableSession:
    """A session of which nothing but its size and age has to be known. It can also be a damaged one."""

    session_id: str
    agent_name: str
    runs: int
    last_activity: str
    """When its last run began or ended."""


@dataclass(eq=False)
class SessionsOpen(RunnerError):
    """Sessions have runs that are queued or running."""

    session_ids: Sequence[str]

    def __str__(self) -> str:
        first = self.session_ids[0]
        return (
            f"nothing was deleted: a run is queued or running in {', '.join(self.session_ids)}; wait for its end,"
            f" or cancel it with: ao cancel {first}"
        )


def delete_sessions(store: Store, session_ids: Sequence[str], *, dry_run: bool = False) -> list[DeletableSession]:
    """Delete sessions in one transaction and return what they were.

    Raises:
        SessionsOpen: one of them has a run that has not ended; nothing was deleted.
        StoreUnwritable: the store cannot be written now; nothing was deleted.
    """
    with _changing(store):
        rows = [row for one in dict.fromkeys(session_ids) for row in _rows(store, "WHERE session_id = ?", one)]
        if still_open := [row[0] for row in rows if row[-1]]:
            raise SessionsOpen(still_open)
        if not dry_run:
            _delete(store, [row[0] for row in rows])
    return [DeletableSession(*row[:-1]) for row in rows]


def prune_sessions(store: Store, older_than: datetime, *, dry_run: bool = False) -> list[DeletableSession]:
    """Delete the sessions without an open run whose last activity was before a time; return what they were.

    Each session is deleted whole or not at all.

    Raises:
        StoreUnwritable: the store cannot be written any more; what was deleted before stays deleted.
    """
    before = older_than.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    clause = f"WHERE NOT {_HAS_OPEN_RUN} AND {_LAST_ACTIVITY} < ?"
    found = [row[0] for row in _rows(store, clause, before)]
    pruned: list[DeletableSession] = []
    for chosen in _chunks(found):
        with _changing(store):
            # Looked at again in here: a run may have been added meanwhile.
            rows = [row for one in chosen for row in _rows(store, f"{clause} AND session_id = ?", before, one)]
            if not dry_run:
                _delete(store, [row[0] for row in rows])
        pruned += [DeletableSession(*row[:-1]) for row in rows]
    return pruned


def _changing(store: Store) -> AbstractContextManager[None]:
    store.connection.execute("PRAGMA secure_delete = ON")  # prompts and answers do not stay in free pages
    return transaction(store.connection)


def _rows(store: Store, clause: str, *values: str) -> list[tuple[str, str, int, str, int]]:
    return store.connection.execute(
        f"SELECT {_COLUMNS} FROM sessions {clause} ORDER BY rowid",  # noqa: S608  # own words
        values,
    ).fetchall()


def _delete(store: Store, session_ids: Sequence[str]) -> None:
    values = [(session_id,) for session_id in session_ids]
    runs = "(SELECT run_id FROM runs WHERE session_id = ?)"
    for condition in (f"events WHERE run_id IN {runs}", "runs WHERE session_id = ?", "sessions WHERE session_id = ?"):
        store.connection.executemany(f"DELETE FROM {condition}", values)  # noqa: S608  # own words


def _chunks(session_ids: Sequence[str]) -> Iterator[list[str]]:
    remaining = iter(session_ids)
    while chunk := list(islice(remaining, SESSIONS_AT_ONCE)):
        yield chunk
