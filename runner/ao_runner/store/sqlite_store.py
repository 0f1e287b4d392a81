"""The store of one host: an SQLite file that several processes write at the same time.

Leases use the clock of the machine's uptime, which all processes share and which cannot be set.
"""

import json
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ClassVar, Final

from ao_runner.store.ownership import (
    Wakeup,
    notify,
    own_wakeup,
)
from ao_runner.store.records import TAIL_CHARACTERS
from ao_runner.store.sqlite_tables import SqliteEvents, SqliteWorkers
from ao_runner.store.store import Store
from ao_runner.store.store_file import BUSY_SECONDS, StoreFile

_LAST_SEQ: Final = (
    "(SELECT coalesce(last_seq, seq) FROM events WHERE events.run_id = runs.run_id ORDER BY seq DESC LIMIT 1)"
)
_TAIL: Final = (
    f"(SELECT substr(line, -{TAIL_CHARACTERS}) FROM events WHERE events.run_id = runs.run_id"  # noqa: S608  # own words
    " AND (instr(line, '\"heartbeat\"') = 0 OR last_seq > seq) ORDER BY seq DESC LIMIT 1)"
)

_TAGS: Final = (
    "NOT EXISTS (SELECT 1 FROM json_each(iif(json_valid(requires), requires, '[]')) AS required"
    " WHERE required.value NOT IN (SELECT value FROM json_each(?)))"
)


class SqliteStore(StoreFile, Store):
    """The store in a folder of this host, created if it is missing.

    If an SQLite error leaves the `with` block, `StoreDamaged` or `StoreUnwritable` is raised instead.
    """

    waits_for_a_server: ClassVar[bool] = False
    own_run_columns: ClassVar[tuple[str, ...]] = ()
    greatest: ClassVar[str] = "max"
    beginning_sql: ClassVar[str] = "json_quote(substr({column}, 1, {characters}))"
    last_seq_sql: ClassVar[str] = _LAST_SEQ
    among_sql: ClassVar[str] = "IN (SELECT value FROM json_each(?))"
    tags_sql: ClassVar[str] = _TAGS
    now_sql: ClassVar[str] = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')"
    claim_lock_sql: ClassVar[str] = ""
    claim_setting_sql: ClassVar[str] = "NULL"
    lock_sql: ClassVar[str] = ""
    tail_sql: ClassVar[str] = _TAIL

    host: str | None = None

    def __init__(self, home: Path, busy_seconds: float = BUSY_SECONDS) -> None:
        StoreFile.__init__(self, home, busy_seconds)
        Store.__init__(self, SqliteEvents, SqliteWorkers)

    def listed(self, values: Collection[str]) -> object:
        """See `Engine`."""
        return json.dumps(list(values))

    def lock_claims(self) -> None:
        """Do nothing, since a transaction has locked all writers out."""

    def notify(self) -> None:
        """See `Engine`."""
        notify(self.home)

    @asynccontextmanager
    async def listening(self, owner: str) -> AsyncIterator[Wakeup]:
        """See `Engine`."""
        with own_wakeup(self.home, owner) as wakeup:
            yield wakeup

    def overwrite_what_is_deleted(self) -> None:
        """See `Engine`."""
        self.connection.execute("PRAGMA secure_delete = ON")  # prompts and answers do not stay in free pages
