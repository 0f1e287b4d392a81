"""The errors of the store."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from ao_runner.errors import RunnerError

BEHIND: Final = "Probably it failed over to a replica that was behind: make that one synchronous"
MOST_CANDIDATES: Final = 5
BATCH: Final = "bat_"
"""The beginning of the ids of batches."""


@dataclass(eq=False)
class NotHeld(RunnerError):
    """A worker reports on a run that it does not hold."""

    run_id: str
    reason: str

    def __str__(self) -> str:
        return f"run {self.run_id} is not held by this worker: {self.reason}"


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


@dataclass(eq=False)
class _IdUnknown(RunnerError):
    """Nothing of a kind, or more than one, matches an id."""

    wanted: str
    candidates: Sequence[str] = ()

    def __str__(self) -> str:
        if self.candidates:
            return f"{self.wanted!r} is ambiguous: {', '.join(self.candidates[:MOST_CANDIDATES])}; give more of the id"
        return self._none_matches()

    def _none_matches(self) -> str:
        raise NotImplementedError


class SessionUnknown(_IdUnknown):
    """No session, or more than one, matches an id."""

    def _none_matches(self) -> str:
        if self.wanted.startswith(BATCH):
            return f"{self.wanted!r} names a batch; show it with `ao results`, `ao wait` or `ao runs --batch`"
        return f"there is no session or run {self.wanted!r}; `ao sessions` and `ao runs` list them"


class BatchUnknown(_IdUnknown):
    """No batch, or more than one, matches an id."""

    def _none_matches(self) -> str:
        known = (
            "`ao submit --batch` prints its id, `last` is the newest one, and `ao events RUN --follow` follows a run"
        )
        return f"there is no batch {self.wanted!r}; {known}"


@dataclass(eq=False)
class OfAnotherSession(RunnerError):
    """An id is known, but belongs to another session than the one named with it."""

    wanted: str
    owner: str
    session_id: str

    def __str__(self) -> str:
        return f"{self.wanted!r} is of session {self.owner}, not of {self.session_id}; name one of them only"


@dataclass(eq=False)
class SessionBusy(RunnerError):
    """The session has an unfinished run: a conversation has one run at a time."""

    session_id: str

    def __str__(self) -> str:
        return f"session {self.session_id} has a run that has not ended; follow it with: ao events {self.session_id} -f"


@dataclass(eq=False)
class RowDamaged(RunnerError):
    """A row of the store cannot be read. `row_id` is the id of the run or session, or the number of the row."""

    kind: str
    row_id: str
    reason: str

    def __str__(self) -> str:
        return (
            f"the store's row of {self.kind} {self.row_id} is damaged: {self.reason}. Other rows can be read; restore"
            " the store from a backup, or correct or delete this row with sqlite3"
        )


class Damage(dict[str, RowDamaged]):
    """The damaged rows that lists have omitted, keyed by their error messages."""

    def add(self, damaged: RowDamaged) -> None:
        """Record a row, once."""
        self[str(damaged)] = damaged

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Discard additions of the `with` block."""
        before = dict(self)
        try:
            yield
        finally:
            self.clear()
            self.update(before)


@dataclass(eq=False)
class RowConflict(RunnerError):
    """A run or event with that id already exists."""

    what: str

    def __str__(self) -> str:
        return f"{self.what} is kept already; give it another id or number"


NEWER: Final = (
    "a newer version of ao made its layout {layout}, and this version knows layouts up to {known}: install the newer"
    " version on this host"
)


@dataclass(eq=False)
class RepeatedBefore(RowConflict):
    """Another run has taken the place of a run of a batch."""

    run_id: str

    def __str__(self) -> str:
        return f"run {self.what} was run again before, as {self.run_id}"


@dataclass(eq=False)
class StoreUnusable(RunnerError):
    """The store cannot be opened, or was made by another version of this program. `path` is its file or server."""

    path: Path | str
    reason: str

    def __str__(self) -> str:
        if isinstance(self.path, str):
            return f"cannot use {self.path}: {self.reason}"
        return f"cannot use {self.path}: {self.reason}. Choose another folder with --home or AO_HOME"


@dataclass(eq=False)
class StoreDamaged(StoreUnusable):
    """The contents of the store's file cannot be read: pages, tables or columns are broken or missing.

    With `kept`, the file was set aside under this path.
    """

    kept: Path | None = None

    def __str__(self) -> str:
        if self.kept is not None:
            return (
                f"{self.path} was damaged: {self.reason}. It was set aside as {self.kept}, and the next command begins"
                " a new one without its sessions: its runs that had not ended are over, as attempt_lost. Restore"
                f" {self.path} from a backup, or save what is left with `sqlite3 {self.kept} .recover`"
            )
        return (
            f"{self.path} is damaged: {self.reason}. Restore it from a backup, or save what is left with"
            f" `sqlite3 {self.path} .recover`; until then choose another folder with --home or AO_HOME"
        )


@dataclass(eq=False)
class StoreUnwritable(RunnerError):
    """The store cannot be written: its disk is full or broken, or another process holds it."""

    path: Path | str
    reason: str
    exit_code: ClassVar[int] = 1

    def __str__(self) -> str:
        return (
            f"cannot write to {self.path}: {self.reason}. Free disk space, make the folder writable, or choose another "
            "one with --home or AO_HOME. An active run was stopped; the next ao command records its end"
        )


class StoreUnreachable(StoreUnwritable):
    """The server of the store does not answer, or cannot write now."""

    def __str__(self) -> str:
        return f"cannot use {self.path}: {self.reason}. Check --store or AO_STORE and that the server runs, then retry"


class StoreLocked(StoreUnwritable):
    """Another session of the server uses a table that has to be changed."""

    def __str__(self) -> str:
        return f"cannot change {self.path}: another session uses its tables (see pg_stat_activity); retry when it ends"


class StoreBusy(StoreUnwritable):
    """Another process has held the write lock longer than the timeout."""

    def __str__(self) -> str:
        return (
            f"cannot write to {self.path}: another process does not release the write lock. Find it: lsof {self.path};"
            " if it is suspended, resume it: kill -CONT; then retry. An active run was stopped"
        )
