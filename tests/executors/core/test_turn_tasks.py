"""What a turn asks of an executor, from the invocation that its process began with."""

from typing import Any

import pytest

from ao_executors.core.emitter import Emitter
from ao_executors.core.executor import Executor
from ao_executors.core.task_from_invocation import prepare, prepare_turn
from ao_protocol.documents import Turn

START: dict[str, Any] = {
    "schema_version": "3.0",
    "mode": "start",
    "run_id": "run_1",
    "session_id": "ses_1",
    "parameters": {"topic": "Bees"},
    "agent_blueprint": {"name": "a", "parameters_schema": {"required": ["topic"]}},
    "control": {"stdin": "open", "turns": True},
}
RESUME = {**START, "mode": "resume", "parameters": {"prompt": "And?"}, "executor_session_id": "kept"}
TURN = Turn(run_id="run_2", parameters={"prompt": "And then?"})


async def perform(task: object) -> Any:
    raise AssertionError(task)


def begun(document: dict[str, Any], bound: str | None) -> Any:
    executor = Executor("x", "1", perform, {"capabilities": {"multi_turn": True, "resume": True}})
    events = Emitter(lambda line: None, run_id="run_1", session_id="ses_1", secrets=[])
    events.bound_session = bound
    return prepare_turn(prepare(executor, document, events), TURN, events)


@pytest.mark.parametrize("document", [START, RESUME], ids=["start", "resume"])
@pytest.mark.requirement("AOX-068")
def test_a_turn_goes_on_with_the_session_that_was_bound(document: dict[str, Any]) -> None:
    task = begun(document, "bound")

    assert (task.invocation.mode, task.invocation.executor_session_id) == ("resume", "bound")
    assert (task.invocation.run_id, task.text) == ("run_2", "And then?")


@pytest.mark.parametrize(
    ("document", "session"), [(START, ("start", None)), (RESUME, ("resume", "kept"))], ids=["start", "resume"]
)
@pytest.mark.requirement("AOX-068")
def test_where_none_was_bound_it_begins_as_the_run_that_was_cut_off_did(
    document: dict[str, Any], session: tuple[str, str | None]
) -> None:
    task = begun(document, None)

    assert (task.invocation.mode, task.invocation.executor_session_id) == session
    assert (task.invocation.run_id, task.text) == ("run_2", "And then?")
