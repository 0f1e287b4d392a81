"""Nothing is missing in the table: every field of a run is set by a request, at every door, and is compared."""

import dataclasses
from pathlib import Path
from typing import Any, Final

import pytest

from ao_runner.runs.submission import NewRun
from ao_runner.store.records import Run, Session
from tests.process.doors.doors import DOORS
from tests.process.doors.known import COPIES, GAPS, KNOWN, UNCOPIED
from tests.process.doors.stored import NOT_COMPARED, RUN_COLUMNS, SESSION_COLUMNS, columns_of, prepare
from tests.process.doors.table import ACCEPTED, ANSWERED, FIELDS, REFUSED, REQUESTS, USUAL

RECORDS: Final = (Session, Run)
OF_A_SESSION: Final = {("Session", name): shown for name, shown in SESSION_COLUMNS.items()}
NAMES_OF_NEW_RUN: Final = {"blueprint": "agent"}
"""The fields of `NewRun` that have another name in `FIELDS`."""
BESIDE: Final = {
    "executor": "a door without profiles names the executor itself",
    "executor_session_id": "a session that another coordinator keeps",
    "created_at": "a session that another coordinator keeps",
    "batch_id": "of a batch, whose runs are asked for together",
    "succeeds": "of a copy",
    "is_simulated": "a door that plays the script itself stores none",
}
"""The fields of `NewRun` that nobody asks for, with the reason."""


def columns_of_records() -> list[str]:
    """Return the column of a row of the table for each field of a record."""
    fields = [(kind.__name__, field.name) for kind in RECORDS for field in dataclasses.fields(kind)]
    return [OF_A_SESSION.get(one, one[1]) for one in fields]


def test_every_column_of_the_store_is_compared_or_has_a_reason(tmp_path: Path) -> None:
    prepare(tmp_path / "home")
    assert columns_of(tmp_path / "home") - {*RUN_COLUMNS, *SESSION_COLUMNS} == set(NOT_COMPARED)
    assert USUAL.keys() == {*RUN_COLUMNS, *SESSION_COLUMNS.values()}


@pytest.mark.parametrize("column", sorted({*columns_of_records(), *USUAL} - NOT_COMPARED.keys()))
def test_every_field_of_a_record_is_set_by_a_request(column: str) -> None:
    rows: list[Any] = [*(request.row for request in ACCEPTED.values()), ANSWERED]
    assert any(row.get(column, USUAL[column]) != USUAL[column] for row in rows)


def test_every_field_of_a_new_run_is_one_of_the_table() -> None:
    names = {field.name for field in dataclasses.fields(NewRun)} - BESIDE.keys()
    assert {NAMES_OF_NEW_RUN.get(name, name) for name in names} | {"session"} == FIELDS.keys()


@pytest.mark.parametrize("field", FIELDS)
def test_every_field_is_set_by_a_request_that_is_accepted_somewhere(field: str) -> None:
    assert any(field in request.asked for request in ACCEPTED.values())
    taken = [door for door in DOORS if field not in DOORS[door].lacks and field not in GAPS.get(door, {})]
    assert taken


@pytest.mark.parametrize("door", DOORS)
def test_a_door_takes_each_field_or_says_why_not(door: str) -> None:
    one = DOORS[door]
    played = [request for name, request in ACCEPTED.items() if one.takes(name, request)]
    asked = {field for request in played for field in request.asked}
    assert FIELDS.keys() - one.lacks.keys() - asked == set()
    assert one.lacks.keys() <= FIELDS.keys()
    assert one.lacks.keys() & GAPS.get(door, {}).keys() == set()
    assert all([*one.lacks.values(), *one.not_played.values(), *one.unstored.values()])


def test_what_is_known_is_about_requests_and_fields_of_the_table() -> None:
    assert all(request.asked.keys() <= FIELDS.keys() for request in REQUESTS.values())
    assert {request.at.partition(".")[0] for request in REFUSED.values()} <= FIELDS.keys()
    assert {name for door in DOORS.values() for name in door.not_played} <= REQUESTS.keys()
    assert {door for door, _ in KNOWN} | GAPS.keys() <= DOORS.keys()
    assert {name for _, name in KNOWN} <= REQUESTS.keys()
    assert {column for _, column in COPIES} <= USUAL.keys()
    assert {name for _, name in UNCOPIED} <= {*ACCEPTED, "an answer"}
