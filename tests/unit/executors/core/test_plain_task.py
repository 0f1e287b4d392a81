"""The short way to a task leads where the long way does, or nowhere."""

from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ao_executors.core.emitter import Emitter
from ao_executors.core.executor import Answer, Executor, Task
from ao_executors.core.runs import plain_task
from ao_executors.core.task_from_invocation import prepare, prepare_turn
from ao_protocol.control_lines import Turn
from ao_protocol.documents import Blueprint, Control, Invocation, Limits
from ao_protocol.prompt_only import _is_simple, asks_a_prompt_alone
from ao_protocol.published import validator_for
from ao_protocol.wire import WireModel

PLAIN: Final[dict[str, Any]] = {
    "schema_version": "3.0",
    "mode": "start",
    "run_id": "run_1",
    "session_id": "ses_1",
    "parameters": {"prompt": "Hi"},
    "agent_name": "a",
    "agent_blueprint": {"name": "a", "system_prompt": "Be brief.", "mcp_servers": None},
    "project_dir": "/",
    "executor_config": {},
    "limits": {"timeout_seconds": 5, "max_event_bytes": 8192, "cancel_grace_seconds": 2.5},
    "control": {"stdin": "open", "turns": True},
    "metadata": {"traceparent": "00-1"},
    "output_schema": None,
    "requires": [],
    "an unknown field": 1,
}

SIMPLE: Final = {name: value for name, value in PLAIN.items() if name not in {"an unknown field", "requires"}}

NUMBERS = [True, 0, 1, -1, 1.0, 0.5, 4096, 2**53 - 1, float("inf")]
TEXTS = ["", "a", "/", "3.0", "2.2", "3.1", "start", "resume", "open", "procedural"]
OTHERS = [None, [], ["a"], {}, {"prompt": "a"}, {"prompt": ""}, {"prompt": "a", "b": 1}, {"name": 1}]
ANY = st.sampled_from([*NUMBERS, *TEXTS, *OTHERS])


VALIDATOR: Final = validator_for("invocation")

PARTS: Final[dict[str, type[WireModel]]] = {"agent_blueprint": Blueprint, "limits": Limits, "control": Control}
PLACES = [("", name) for name in Invocation.model_fields] + [
    (part, name) for part, model in PARTS.items() for name in model.model_fields
]
CHANGES = st.lists(st.tuples(st.sampled_from(PLACES), ANY), max_size=2)


def changed(document: dict[str, Any], place: tuple[str, str], value: object) -> dict[str, Any]:
    part, name = place
    inner = document.get(part)
    return document | ({part: inner | {name: value}} if isinstance(inner, dict) else {name: value})


def task_of(prepared: Task) -> tuple[object, ...]:
    return (
        prepared.limits,
        prepared.system_prompt,
        prepared.contract,
        prepared.config,
        prepared.project_dir,
        prepared.text,
        prepared.events.max_event_bytes,
        prepared.invocation,
    )


def emitter() -> Emitter:
    return Emitter(lambda _: None, run_id=None, session_id=None)


async def perform(_: Task) -> Any:  # never called
    raise NotImplementedError


EXECUTORS = st.sampled_from(
    [
        {},
        {"agent_types": ["procedural"]},
        {"agent_types": ["procedural", "autonomous"], "capabilities": {"output_schema": {"strategies": ["prompt"]}}},
        {"config_schema": {"type": "object", "properties": {"a": {"type": "string"}}}},
        {"config_schema": {"type": "object", "required": ["a"]}},
        {"config_schema": {"enum": [1]}},
    ]
)


@given(EXECUTORS, st.sampled_from([PLAIN, SIMPLE]), CHANGES)
def test_the_short_way_comes_to_the_same_task(
    description: dict[str, Any], document: dict[str, Any], changes: list[tuple[tuple[str, str], object]]
) -> None:
    for place, value in changes:
        document = changed(document, place, value)
    executor = Executor("any", "1", perform, description)
    short = plain_task(executor, document, emitter())

    assert short is None or task_of(short) == task_of(prepare(executor, document, emitter()))


def test_a_usual_invocation_goes_the_short_way() -> None:
    task = plain_task(Executor("any", "1", perform), PLAIN, emitter())

    assert task is not None
    assert (task.text, task.system_prompt, task.project_dir) == ("Hi", "Be brief.", Path("/"))
    assert (task.limits.listens, task.limits.takes_turns, task.limits.timeout_seconds) == (True, True, 5.0)
    assert task.invocation.metadata == {"traceparent": "00-1"}


def test_a_simple_invocation_needs_no_validator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ao_protocol.published.validator_for", pytest.fail)
    assert asks_a_prompt_alone(SIMPLE)


@given(CHANGES)
def test_what_needs_no_validator_is_valid(changes: list[tuple[tuple[str, str], object]]) -> None:
    document = SIMPLE
    for place, value in changes:
        document = changed(document, place, value)
    assert not _is_simple(document) or not asks_a_prompt_alone(document) or VALIDATOR.is_valid(document)


@pytest.mark.parametrize("place", PLACES, ids=" ".join)
def test_no_field_of_an_invocation_is_passed_over(place: tuple[str, str]) -> None:
    assert asks_a_prompt_alone(PLAIN)
    assert not asks_a_prompt_alone(changed(PLAIN, place, [[1]]))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"text": None, "message_id": "m"}, "Answer.text is None; expected a text"),
        ({"text": "", "message_id": ""}, "Answer.message_id is ''; expected a text that is not empty"),
        ({"text": "", "message_id": "m", "stop_reason": 1}, "Answer.stop_reason is 1; expected a text that is not"),
    ],
)
def test_an_answer_that_no_message_could_carry_is_not_made(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        Answer(**fields)


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


def begun(document: dict[str, Any], bound: str | None) -> Task:
    executor = Executor("x", "1", perform, {"capabilities": {"multi_turn": True, "resume": True}})
    events = emitter()
    events.bound_session = bound
    return prepare_turn(executor, prepare(executor, document, events), TURN, events)


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
