"""What may follow what: the whole table, and what breaks a run."""

from typing import Any

import pytest

from ao_protocol.events import BODIES
from ao_protocol.lifecycle import (
    TRANSITIONS,
    VENDOR,
    EventOutOfOrder,
    Phase,
    RunLifecycle,
    SequenceBroken,
    WrongRun,
    advance,
)
from ao_protocol.published import load_vectors

ALLOWED = {
    ("invoked", "run_started"): "running",
    ("running", "session_bound"): "running",
    ("running", "message"): "running",
    ("running", "message_delta"): "running",
    ("running", "tool_started"): "running",
    ("running", "tool_finished"): "running",
    ("running", "output_validation"): "running",
    ("running", "retry_scheduled"): "running",
    ("running", "usage"): "running",
    ("running", "heartbeat"): "running",
    ("running", "log"): "running",
    ("running", "input_requested"): "running",
    ("running", "_acme/progress"): "running",
    ("running", "result"): "ended",
    ("running", "failure"): "ended",
}
EVERY_PAIR = [(phase, event_type) for phase in Phase for event_type in (*BODIES, "_acme/progress")]


@pytest.mark.parametrize(("phase", "event_type"), EVERY_PAIR, ids=[f"{phase}-{kind}" for phase, kind in EVERY_PAIR])
@pytest.mark.requirement("AOX-090", "AOX-092", "AOX-094")
def test_an_event_leads_where_the_protocol_says_or_is_out_of_order(phase: Phase, event_type: str) -> None:
    following = ALLOWED.get((phase, event_type))
    if following is not None:
        assert advance(phase, event_type) == following
        return
    with pytest.raises(EventOutOfOrder) as out_of_order:
        advance(phase, event_type)
    assert str(out_of_order.value) == f"{event_type!r} is not allowed while the run is {phase}"


def test_the_table_names_every_phase_and_only_known_events() -> None:
    assert set(TRANSITIONS) == set(Phase)
    assert {kind for row in TRANSITIONS.values() for kind in row} == {*BODIES, VENDOR}


def test_after_a_fault_the_next_event_is_judged_by_the_one_received() -> None:
    start, result = next(v for v in load_vectors("conversation") if v["id"] == "conversation-shortest")["events"]
    lifecycle = RunLifecycle("run_1", "ses_1")
    lifecycle.receive(start)
    with pytest.raises(SequenceBroken, match="seq is 5, expected 2"):
        lifecycle.receive({**result, "seq": 5})

    lifecycle.receive({**result, "seq": 6})

    assert lifecycle.phase is Phase.ENDED


def unnamed(document: dict[str, Any], *names: str) -> dict[str, Any]:
    return {**document, **dict.fromkeys(names or ("run_id", "session_id"))}


START, RESULT = next(v for v in load_vectors("conversation") if v["id"] == "conversation-shortest")["events"]
REFUSAL = next(v for v in load_vectors("conversation") if v["id"] == "conversation-unreadable-line")["events"][1]
NAMES = {"run_id": "run_1", "session_id": "ses_1"}


@pytest.mark.requirement("AOX-043")
def test_a_refusal_of_a_line_that_could_not_be_read_names_no_run() -> None:
    lifecycle = RunLifecycle("run_1", "ses_1")

    lifecycle.receive(unnamed(START))
    lifecycle.receive(unnamed(REFUSAL))

    assert lifecycle.phase is Phase.ENDED


@pytest.mark.requirement("AOX-043")
def test_one_name_may_be_missing_too() -> None:
    lifecycle = RunLifecycle("run_1", "ses_1")

    lifecycle.receive(unnamed(START, "run_id"))
    lifecycle.receive({**REFUSAL, "run_id": None, "session_id": "ses_1"})

    assert lifecycle.phase is Phase.ENDED


@pytest.mark.parametrize(
    ("start", "following", "sentence"),
    [
        (unnamed(START), unnamed(RESULT), "run_id is None, expected 'run_1'"),
        (unnamed(START), RESULT, "run_id is None, expected 'run_1'"),
        (unnamed(START, "session_id"), RESULT, "session_id is None, expected 'ses_1'"),
        (unnamed(START), {**REFUSAL, **NAMES}, "run_id is None, expected 'run_1'"),
        (START, unnamed(REFUSAL), "run_id is None, expected 'run_1'"),
    ],
    ids=["a result without names", "a result with names", "one name", "a refusal with names", "a start with names"],
)
@pytest.mark.requirement("AOX-073")
def test_otherwise_a_run_that_has_names_keeps_them(
    start: dict[str, Any], following: dict[str, Any], sentence: str
) -> None:
    lifecycle = RunLifecycle("run_1", "ses_1")
    lifecycle.receive(start)

    with pytest.raises(WrongRun, match=sentence):
        lifecycle.receive(following)

    assert lifecycle.phase is Phase.RUNNING


def test_a_start_of_another_session_leaves_the_run_as_it_was() -> None:
    lifecycle = RunLifecycle("run_1", "ses_1")
    with pytest.raises(WrongRun, match="session_id is 'ses_2'"):
        lifecycle.receive({**START, "run_id": None, "session_id": "ses_2"})

    lifecycle.receive({**START, "seq": 2})
    lifecycle.receive({**RESULT, "seq": 3})

    assert lifecycle.phase is Phase.ENDED
