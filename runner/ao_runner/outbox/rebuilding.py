"""The state of an outbox, opened; one that is damaged is made anew from the segments where nothing is lost by that.

Events are in the segments, and what is sent twice is dropped. Only the state knew of runs that had begun and
have no event in a segment, and what was noted of events that are deleted. So it is made anew where there were no such
runs, or the coordinator knows them itself, and every segment is whole. A gap at the beginning of a key is what was
acknowledged: segments are deleted for no other reason.
"""

import sqlite3
from pathlib import Path
from typing import Final

from ao_runner.outbox.errors import StateDamaged
from ao_runner.outbox.recovery import Damage, Recovered, recover
from ao_runner.outbox.state import FILE_NAME, Progress, State
from ao_runner.run_events import RunKey

_DAMAGED: Final = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_SIDE_FILES: Final = ("-wal", "-shm", "")
"""The file itself comes last: a log without its file would be taken for that of a new one."""


def open_state(folder: Path, *, may_forget_begun: bool) -> tuple[State, tuple[Damage, ...]]:
    """Return the state, and the damaged file that was set aside if it was made anew.

    Args:
        folder: that of the outbox, which is owned.
        may_forget_begun: no run had begun that is not over, or the coordinator knows those that had.

    Raises:
        StateDamaged: it cannot be made anew without losing what nobody else knows.
        OSError: a file cannot be made, read or moved.
        sqlite3.Error: it cannot be opened for another reason.
    """
    try:
        return _opened(folder), ()
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _DAMAGED:
            raise
        if not may_forget_begun:
            raise StateDamaged(folder, str(error), "runs that had begun") from error
        recovered = recover(folder, lambda _: None)
        if (lost := _known_to_nobody(recovered)) is not None:
            raise StateDamaged(folder, str(error), lost) from error
    aside = _set_aside(folder)
    state = State(folder)
    try:
        state.flush(_acknowledged(recovered))
    except BaseException:
        state.close()
        raise
    return state, (Damage(aside, 0, aside.stat().st_size),)


def _opened(folder: Path) -> State:
    state = State(folder)
    try:
        state.list_open()  # it reads all pages
    except BaseException:
        state.close()
        raise
    return state


def _known_to_nobody(recovered: Recovered) -> str | None:
    for damage in recovered.damages:
        if not damage.was_cut and (damage.bytes or any(lost.from_seq > 1 for lost in damage.lost)):
            return f"what is missing in {damage.path}"
    for key, records in recovered.records.items():
        if records[0].header.first_seq > 1 and not records[-1].header.ends:
            return f"what was noted of the first events of {key}"
    return None


def _acknowledged(recovered: Recovered) -> dict[RunKey, Progress]:
    first = {key: records[0].header.first_seq for key, records in recovered.records.items()}
    return {key: Progress(seq - 1, is_closed=False) for key, seq in first.items() if seq > 1}


def _set_aside(folder: Path) -> Path:
    number = len(list(folder.glob("damaged-*"))) + 1
    for side in _SIDE_FILES:
        if (path := folder / f"{FILE_NAME}{side}").exists():
            path.rename(folder / f"damaged-{number}-{path.name}")
    return folder / f"damaged-{number}-{FILE_NAME}"
