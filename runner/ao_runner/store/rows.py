"""How runs and events stand in the tables of the local store."""

import json
from collections.abc import Sequence
from typing import Any, Final

from ao_protocol.wire import JsonObject
from ao_runner.store.records import Run

RUN_COLUMNS: Final = "run_id, session_id, mode, parameters, started_at, status, ended_at, error_type, contract"
RUN_WIDTH: Final = RUN_COLUMNS.count(",") + 1
INSERT_EVENTS: Final = "INSERT INTO events (run_id, seq, last_seq, event_type, line) VALUES (?, ?, ?, '', ?)"


def run_of(row: Sequence[Any]) -> Run:
    """Return the run that stands in a row of `RUN_COLUMNS`."""
    damages: list[str] = []
    run_id, session_id, mode, parameters, started_at, status, ended_at, error_type, contract = row
    return Run(
        run_id=run_id,
        session_id=session_id,
        mode=mode,
        parameters=read_object(parameters, "parameters", damages),
        started_at=started_at,
        status=status,
        ended_at=ended_at,
        error_type=error_type,
        contract=None if contract is None else read_object(contract, "contract", damages),
        damages=tuple(damages),
    )


def read_object(text: object, column: str, damages: list[str]) -> JsonObject:
    """Return the object that stands in a column; what is none is told to `damages`, and an empty object stands for it.

    So a damaged row ends its own run, and hides no other from a list.
    """
    try:
        value = json.loads(text)  # type: ignore[arg-type]  # a TypeError tells what it is
    except (TypeError, ValueError, RecursionError) as error:
        damages.append(f"{column} in the store is not readable: {error}")
        return {}
    if not isinstance(value, dict):
        damages.append(f"{column} in the store is {type(value).__name__}, expected an object")
        return {}
    return value


def events_row(run_id: str, first_seq: int, lines: Sequence[bytes]) -> tuple[str, int, int, str]:
    """Return the values of `INSERT_EVENTS` for events that follow each other: one row holds them all."""
    return run_id, first_seq, first_seq + len(lines) - 1, b"\n".join(lines).decode()
