"""Requests to a person in a store: one answer counts. The same tests for a file and for a database."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from ao_protocol.wire import JsonObject
from ao_runner.runs.answering import AnsweredBefore, AnswerRefused, find_request, give_answer
from ao_runner.runs.projection import project_lines
from ao_runner.store.opening import StorePlace
from ao_runner.store.records import Run, Session
from ao_runner.store.store import Store

SESSION = Session("ses_1", "2026-01-01T00:00:00Z", "x", "/bin/x", "/project", {"name": "agent"}, {"model": "m"})
RUN = Run("run_1", "ses_1", "start", {"prompt": "hi"}, "2026-01-01T00:00:00Z")
ALLOW: JsonObject = {"option_id": "allow"}
DENY: JsonObject = {"option_id": "deny"}
OPTIONS = [{"id": "allow", "label": "Allow", "effect": "allow"}, {"id": "deny", "label": "Deny", "effect": "deny"}]
NOW = "2026-01-01T00:00:09Z"


def event(event_type: str, request_id: str, **fields: object) -> bytes:
    head = {"event_type": event_type, "session_id": "ses_1", "run_id": "run_1", "seq": 1, "timestamp": NOW}
    return json.dumps({**head, "request_id": request_id, **fields}).encode()


def requested(request_id: str) -> bytes:
    return event("input_requested", request_id, kind="permission", title="Bash: ls", options=OPTIONS)


def resolved(request_id: str, outcome: str) -> bytes:
    return event("input_resolved", request_id, outcome=outcome, by="person")


def asking(store: Store, *request_ids: str) -> None:
    """Fill a store with a running run that asks."""
    store.sessions.add(SESSION)
    store.runs.begin(RUN, "owner")
    project_lines(store, "run_1", [requested(request_id) for request_id in request_ids])


def parked(store: Store, *request_ids: str) -> None:
    """Fill a store with a run that was parked."""
    asking(store, *request_ids)
    for request_id in request_ids:
        assert store.inputs.decide("run_1", request_id, None, NOW) is None
        project_lines(store, "run_1", [resolved(request_id, "expired")])
    store.runs.end("run_1", "failed", NOW, "input_required")


def test_of_answers_that_are_given_at_once_one_counts(place: StorePlace) -> None:
    with place.open() as store:
        asking(store, "call_1")

    def answer(by: str) -> str | None:
        with place.open() as other:
            if by == "the runner":
                with other.transaction():
                    decided = other.inputs.decide("run_1", "call_1", {"outcome": "expired", "by": "timeout"}, NOW)
                return by if decided == {"outcome": "expired", "by": "timeout"} else None
            return by if other.inputs.answer("run_1", "call_1", ALLOW, by) else None

    with ThreadPoolExecutor() as threads:
        winners = [by for by in threads.map(answer, ["ann", "the runner", "bob", "eve"]) if by is not None]

    assert len(winners) == 1
    with place.open() as store:
        (request,) = store.inputs.of_run("run_1")
        assert request.answered_by == (None if winners == ["the runner"] else winners[0])
        assert not request.is_waiting
        assert store.inputs.answers_for("owner") == [request]


def test_a_decision_before_the_event_counts_and_the_event_completes_the_request(store: Store) -> None:
    asking(store)
    assert store.inputs.decide("run_1", "call_1", DENY, "earlier", "ann") == DENY

    project_lines(store, "run_1", [requested("call_1")])

    assert not store.inputs.answer("run_1", "call_1", ALLOW, "bob")
    (request,) = store.inputs.of_run("run_1")
    assert (request.answer, request.answered_by, request.asked_at) == (DENY, "ann", NOW)
    assert request.fields["title"] == "Bash: ls"


def test_repeated_events_change_nothing(store: Store) -> None:
    asking(store, "call_1")
    store.inputs.answer("run_1", "call_1", ALLOW, "ann")
    project_lines(store, "run_1", [resolved("call_1", "accepted")])
    (before,) = store.inputs.of_run("run_1")

    project_lines(store, "run_1", [requested("call_1"), b'{"event_type":"log"}', resolved("call_1", "accepted")])

    assert store.inputs.of_run("run_1") == [before]
    assert (before.outcome, before.is_waiting) == ("accepted", False)
    assert store.inputs.waiting() == store.inputs.answers_for("owner") == []


def test_a_request_waits_while_its_run_goes_on(store: Store) -> None:
    asking(store, "call_1", "call_2")
    project_lines(store, "run_1", [resolved("call_1", "cancelled")])
    assert [one.request_id for one in store.inputs.waiting()] == ["call_2"]

    store.runs.end("run_1", "failed", NOW, "internal_error")

    assert store.inputs.waiting() == []
    assert not store.inputs.answer("run_1", "call_2", ALLOW, "ann")


def test_the_run_that_continues_a_parked_one_is_queued_with_the_last_answer(store: Store) -> None:
    parked(store, "call_1", "call_2")
    assert [(one.request_id, one.is_parked) for one in store.inputs.waiting()] == [("call_1", True), ("call_2", True)]

    assert give_answer(store, find_request(store, "run_1", "call_1"), ALLOW, "ann").next_run_id is None
    run_id = give_answer(store, find_request(store, "run_1"), DENY, "bob").next_run_id

    assert run_id is not None
    (queued,) = [run for run in store.runs.of_sessions("ses_1") if run.run_id == run_id]
    assert (queued.mode, queued.status, queued.parameters) == ("resume", "queued", {})
    assert queued.input_responses == [{"request_id": "call_1", **ALLOW}, {"request_id": "call_2", **DENY}]
    with pytest.raises(AnsweredBefore, match="bob answered"):
        give_answer(store, find_request(store, "run_1", "call_2"), ALLOW, "ann")


def test_a_parked_request_waits_no_more_once_its_session_has_another_run(store: Store) -> None:
    parked(store, "call_1")
    store.runs.begin(replace(RUN, run_id="run_2", mode="resume"), "owner")

    assert store.inputs.waiting() == []
    with pytest.raises(AnsweredBefore, match="its session has another run now"):
        give_answer(store, find_request(store, "run_1", "call_1"), ALLOW, "ann")


def test_a_run_that_was_to_be_parked_and_ended_otherwise_waits_for_nobody(store: Store) -> None:
    asking(store, "call_1")
    store.inputs.decide("run_1", "call_1", None, NOW)
    project_lines(store, "run_1", [resolved("call_1", "cancelled")])
    store.runs.end("run_1", "failed", NOW, "attempt_lost")

    assert store.inputs.waiting() == []
    assert not store.inputs.answer("run_1", "call_1", ALLOW, "ann")


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        pytest.param({"option_id": "maybe"}, "expected one of allow, deny", id="option"),
        pytest.param({"value": 1}, "the request takes none", id="value"),
        pytest.param({}, "option_id is missing", id="nothing"),
    ],
)
def test_an_answer_that_does_not_fit_is_refused_and_the_request_still_waits(
    answer: JsonObject, problem: str, store: Store
) -> None:
    asking(store, "call_1")

    with pytest.raises(AnswerRefused, match=problem):
        give_answer(store, find_request(store, "run_1"), answer, "ann")

    assert [one.request_id for one in store.inputs.waiting()] == ["call_1"]


def test_requests_are_deleted_with_their_session(store: Store) -> None:
    parked(store, "call_1")

    store.deletions.delete(["ses_1"])

    assert store.inputs.of_run("run_1") == store.inputs.waiting() == []
