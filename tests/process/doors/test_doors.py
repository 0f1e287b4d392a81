"""One table of requests at every door: the same is accepted, refused at the same place, and stored."""

import fcntl
import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import cache
from typing import Any

import pytest

from tests.process.doors.doors import DOORS
from tests.process.doors.known import GAPS, KNOWN
from tests.process.doors.playing import Door, Outcome, Request
from tests.process.doors.stored import shown_by_an_invocation
from tests.process.doors.table import REQUESTS, USUAL, Accepted, Refused

Play = Callable[[str], dict[str, Outcome]]


def played(door: str) -> dict[str, Request]:
    """Return the requests that a door is asked for."""
    return {name: request for name, request in REQUESTS.items() if DOORS[door].takes(name, request)}


@pytest.fixture(scope="session")
def play(tmp_path_factory: pytest.TempPathFactory) -> Play:
    """Play all requests of a door, once for all processes of pytest-xdist."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def outcomes(door: str) -> dict[str, Outcome]:
        number = list(DOORS).index(door)
        found = shared / f"door-{number}.json"
        with (shared / f"door-{number}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not found.exists():
                found.write_text("{}")  # so that a door that cannot be played is not tried again for each request
                played_now = DOORS[door].play(played(door), tmp_path_factory.mktemp("door"))
                found.write_text(json.dumps({name: asdict(outcome) for name, outcome in played_now.items()}))
        return {name: Outcome(**outcome) for name, outcome in json.loads(found.read_text()).items()}

    return cache(outcomes)


def pairs() -> Iterator[Any]:
    """Yield each request that each door is asked for, marked where it is known to go wrong."""
    for door in DOORS:
        for name, request in played(door).items():
            gaps = sorted(GAPS.get(door, {}).keys() & request.asked.keys())
            reason = KNOWN.get((door, name), ", ".join(f"{gap}: {GAPS[door][gap]}" for gap in gaps))
            marks = [pytest.mark.xfail(strict=True, reason=reason)] if reason else []
            marks += [pytest.mark.slow] if door == "submit_batch" else []  # it reads each line as `pipe` does
            yield pytest.param(door, name, id=f"{door}: {name}", marks=marks)


@pytest.mark.parametrize(("door", "name"), list(pairs()))
def test_every_door_accepts_refuses_and_stores_the_same(play: Play, door: str, name: str) -> None:
    outcome, request = play(door)[name], REQUESTS[name]
    if isinstance(request, Accepted):
        check_accepted(DOORS[door], request, outcome)
    else:
        check_refused(DOORS[door], request, outcome)


def expected(door: Door, request: Accepted) -> dict[str, Any]:
    """Return the columns of a request that a door shows."""
    row = {**USUAL, **request.row, **{name: v for name, v in door.always.items() if name not in request.asked}}
    if not door.is_stored:
        return shown_by_an_invocation(row)
    return {name: value for name, value in row.items() if name not in door.unstored}


def check_accepted(door: Door, request: Accepted, outcome: Outcome) -> None:
    """Check that a run is stored as the table says."""
    assert outcome.refusal is None
    assert outcome.row is not None
    wanted = expected(door, request)
    assert {column: outcome.row[column] for column in wanted} == wanted
    asked = request.asked
    assert asked.get("session_id", asked.get("session")) in {None, outcome.row["session_id"]}
    assert asked.get("run_id") in {None, outcome.row["run_id"]}


def check_refused(door: Door, request: Refused, outcome: Outcome) -> None:
    """Check that a refusal names the place, and that nothing is stored."""
    assert outcome.refusal is not None
    assert re.search(request.words, outcome.refusal)
    field, rest = re.fullmatch(r"(\w+)(.*)", request.at).groups()  # type: ignore[union-attr]  # each begins with a field
    place = f"(?i:{door.names.get(field, field)})"
    assert re.search(place if request.value is None else f"{place}|{request.value}", outcome.refusal)
    assert rest in outcome.refusal or rest.replace(".", " ", 1) in outcome.refusal  # as in `--output-option retries`
    assert (outcome.row is not None) == (door.performs and request.is_of_the_run)
