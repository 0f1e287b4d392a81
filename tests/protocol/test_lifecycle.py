"""What may follow what: the whole table, and what breaks a run."""

import pytest

from ao_protocol.events import BODIES, event_from_document
from ao_protocol.lifecycle import TRANSITIONS, VENDOR, EventOutOfOrder, Phase, RunLifecycle, SequenceBroken, advance
from ao_protocol.vector_store import load_vectors

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
    lifecycle.receive(event_from_document(start))
    with pytest.raises(SequenceBroken, match="seq is 5, expected 2"):
        lifecycle.receive(event_from_document({**result, "seq": 5}))

    lifecycle.receive(event_from_document({**result, "seq": 6}))

    assert lifecycle.phase is Phase.ENDED
