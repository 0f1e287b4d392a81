"""A copy of a run asks for what the run asked for: run again from a page, queued at a reset, continued by an answer."""

import asyncio
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from ao_runner.runs.answering import find_request, give_answer
from ao_runner.store.opening import StorePlace
from ao_runner.store.records import Run, Session
from ao_runner.store.store import Store
from tests.process.doors.known import COPIES, UNCOPIED
from tests.process.doors.spelling import placed
from tests.process.doors.stored import AT, RUN_COLUMNS, News, prepare
from tests.process.doors.table import ACCEPTED, ANSWERED, USUAL
from tests.process.server.test_lists import asking

ROWS: Final = {name: {**USUAL, **one.row} for name, one in ACCEPTED.items()} | {"an answer": {**USUAL, **ANSWERED}}
RESET: Final = "2020-02-01T00:00:00.000Z"
OPTIONS: Final = [{"id": one, "label": one, "effect": one} for one in ("allow", "deny")]
GIVEN: Final = [{"request_id": "ask_1", "option_id": "allow"}]
CHANGES: Final[dict[str, dict[str, Any]]] = {
    "again": {"not_before": None},
    "requeue": {"not_before": RESET, "requeue": 1},
    "continuation": {
        "not_before": None,
        "mode": "resume",
        "parameters": {},
        "input_responses": GIVEN,
        "attachments": [],
    },
}
"""By copy: the columns that it has of its own. The time of a first claim is over, or that of the reset."""
AGENT_OF_NOW: Final[dict[str, dict[str, Any]]] = {
    "settings of the executor": {"executor_config": {}},
    "common settings": {"executor_config": {}},
    "a procedural agent": {"executor_config": {"commands_dir": "@/home"}},
}
"""By request: the columns of a run again of an agent that the store knows, which is taken as it is now."""
NOT_AGAIN: Final = {"an answer": "the answers to a parked run count once"}

Copied = dict[str, dict[str, Any] | None]
"""By request: the row of the copy; None where it was refused."""


def put(store: Store, name: str, row: dict[str, Any], folder: Path) -> Run:
    """Store a queued run with a row of the table, in a session of its own."""
    number = list(ROWS).index(name)
    config = json.loads(json.dumps(row["executor_config"]).replace("@", str(folder)))
    session = Session(
        f"ses_{number}", AT, "teller", "/bin/teller", row["project_dir"].replace("@", str(folder)), row["blueprint"],
        config, f"bound_{number}", row["session_profile"], None, bool(row["is_simulated"]), row["session_parent"],
    )  # fmt: skip
    run = Run(
        run_id=f"run_{number}", session_id=session.session_id, started_at=AT, status="queued",
        **{name: row[name] for name in RUN_COLUMNS if name not in {"requires", "requeue", "attachments"}},
        attachments=tuple(placed(row["attachments"], folder)), requires=tuple(row["requires"]),
        requeue=bool(row["requeue"]),
    )  # fmt: skip
    with store.transaction():
        store.sessions.add(session)
        store.queue.add(run)
    return run


def again(folder: Path) -> Copied:
    """Run each again from a page of the server."""
    place = StorePlace(folder / "home")
    copies: Copied = {}
    rows = {name: row for name, row in ROWS.items() if name not in NOT_AGAIN}

    async def story() -> None:
        async with asking(place) as client:
            for name, row in rows.items():
                with place.open() as store:
                    run = put(store, name, row, folder)
                    store.runs.end(run.run_id, "completed", AT, None)
                news = News(folder / "home")
                answer = await client.post(f"/ui/runs/{run.run_id}/again")
                copies[name] = news.row() if answer.status_code == 303 else None

    asyncio.run(asyncio.wait_for(story(), 100))
    return copies


def requeue(folder: Path) -> Copied:
    """End each at a usage limit, as one that asked for a copy at the reset."""
    copies: Copied = {}
    with StorePlace(folder / "home").open() as store:
        for name, row in ROWS.items():
            run = put(store, name, {**row, "requeue": 1}, folder)
            store.runs.end(run.run_id, "failed", AT, "rate_limited")
            news = News(folder / "home")
            with store.transaction():
                assert store.queue.requeue(run.run_id, (f"copy_{run.run_id}", f"copy_{run.session_id}"), RESET, AT)
            copies[name] = news.row()
    return copies


def continuation(folder: Path) -> Copied:
    """Park each at a request to a person, and answer it."""
    copies: Copied = {}
    with StorePlace(folder / "home").open() as store:
        for name, row in ROWS.items():
            run = put(store, name, row, folder)
            park(store, run)
            news = News(folder / "home")
            with store.transaction():
                assert give_answer(store, find_request(store, run.run_id), {"option_id": "allow"}, "ann").next_run_id
            copies[name] = news.row()
    return copies


def park(store: Store, run: Run) -> None:
    """End a run because nobody has answered its request."""
    head = {"session_id": run.session_id, "run_id": run.run_id, "seq": 1, "timestamp": AT, "request_id": "ask_1"}
    asked: dict[str, Any] = {
        **head,
        "event_type": "input_requested",
        "kind": "permission",
        "title": "May I?",
        "options": OPTIONS,
    }
    store.write("UPDATE runs SET status = 'running', attempt = 1, has_begun = 1 WHERE run_id = ?", (run.run_id,))
    store.inputs.note(run.run_id, asked)
    assert store.inputs.decide(run.run_id, "ask_1", None, AT) is None
    resolved: dict[str, Any] = {**head, "event_type": "input_resolved", "outcome": "expired", "by": "person"}
    store.inputs.note(run.run_id, resolved)
    store.runs.end(run.run_id, "failed", AT, "input_required")


KINDS: Final[dict[str, Callable[[Path], Copied]]] = {
    "again": again,
    "requeue": requeue,
    "continuation": continuation,
}


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Copied]:
    """Copy all runs of the table in one way, once."""

    def copies(kind: str) -> Copied:
        folder = tmp_path_factory.mktemp("copies")
        prepare(folder / "home")
        return KINDS[kind](folder)

    return cache(copies)


def expected(kind: str, name: str) -> dict[str, Any]:
    return {**ROWS[name], **CHANGES[kind], **(AGENT_OF_NOW.get(name, {}) if kind == "again" else {})}


def marked(reason: str | None) -> list[pytest.MarkDecorator]:
    return [pytest.mark.xfail(strict=True, reason=reason)] if reason else []


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        pytest.param(kind, name, id=f"{kind}: {name}", marks=marked(UNCOPIED.get((kind, name))))
        for kind in KINDS
        for name in ROWS
        if kind != "again" or name not in NOT_AGAIN
    ],
)
def test_every_run_can_be_copied(copied: Callable[[str], Copied], kind: str, name: str) -> None:
    assert copied(kind)[name] is not None


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        pytest.param(kind, column, id=f"{kind}: {column}", marks=marked(COPIES.get((kind, column))))
        for kind in KINDS
        for column in USUAL
    ],
)
def test_a_copy_keeps_what_the_run_asked_for(copied: Callable[[str], Copied], kind: str, column: str) -> None:
    copies = {name: row for name, row in copied(kind).items() if row is not None}
    found = {name: row[column] for name, row in copies.items()}
    assert found == {name: expected(kind, name)[column] for name in copies}
