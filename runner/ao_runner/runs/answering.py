"""Give an answer to a request of a run, from outside the run's process (SPEC 8.3, 11.6)."""

import json
import re
from dataclasses import dataclass, replace
from typing import Any, Final

from pydantic import JsonValue

from ao_protocol.input_answers import InvalidAnswer, resolution_of
from ao_protocol.wire import JsonObject
from ao_protocol.written import MAX_WRITTEN_DEPTH, NotInteroperable, check_interoperable, parse_json
from ao_runner.errors import RunnerError
from ao_runner.runs.submission import new_run_id
from ao_runner.store.input_table import StoredRequest
from ao_runner.store.records import timestamp
from ao_runner.store.store import Store

PLAIN_NAME: Final = re.compile(r"[\w-]{1,40}")


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer that was given.

    Args:
        request: The request.
        outcome: `accepted` or `declined`, or the outcome that the answer names.
        next_run_id: The run that was queued to continue a parked run; None if none was, because its process still runs,
            or another request of it waits.
    """

    request: StoredRequest
    outcome: str
    next_run_id: str | None = None


class NoSuchRequest(RunnerError):
    """The run has no request with that id, or several that fit."""


class AnswerRefused(RunnerError):
    """The answer does not fit the request."""


@dataclass(eq=False)
class AnsweredBefore(RunnerError):
    """Another answer counts, or the request waits no more."""

    request: StoredRequest

    def __str__(self) -> str:
        request = self.request
        told = f"request {request.request_id} of run {request.run_id} is not waiting any more"
        if request.answer is not None and request.answered_by is None:
            return f"{told}: nobody answered it in time"
        if request.answer is not None:
            return f"{told}: {request.answered_by} answered {json.dumps(_response(request.answer))}"
        if request.is_parked:
            return f"{told}: its session has another run now"
        return f"{told}: it was {request.outcome or 'left open by a run that ended'}"


def input_of(tool_input: Any) -> list[str]:  # noqa: ANN401  # any JSON
    """Return the exact input of a tool as lines: JSON, or the names and texts of an object that has only texts."""
    if tool_input is None:
        return []
    if not isinstance(tool_input, dict) or not all(
        isinstance(value, str) and PLAIN_NAME.fullmatch(name) for name, value in tool_input.items()
    ):
        return json.dumps(tool_input, ensure_ascii=False, indent=2).split("\n")
    lines = []
    for name, value in tool_input.items():
        first, *others = value.split("\n")
        lines += [f"{name}: {first}", *(f"  {line}" for line in others)]
    return lines


def find_request(store: Store, run_id: str, wanted: str | None = None) -> StoredRequest:
    """Return a request of a run.

    Args:
        store: The store.
        run_id: The run.
        wanted: The id of the request or the beginning of it; None: the only one that waits.

    Raises:
        NoSuchRequest: None fits, or several do.
    """
    requests = store.inputs.of_run(run_id)
    found = [one for one in requests if one.request_id == wanted]
    found = found or [one for one in requests if wanted is not None and one.request_id.startswith(wanted)]
    if wanted is None:
        found = [one for one in requests if one.is_waiting]
    if len(found) == 1:
        return found[0]
    known = ", ".join(one.request_id for one in found or requests) or "none"
    asked = "no request that waits" if wanted is None else f"no request {wanted}"
    problem = f"several requests fit: {known}; name one" if found else f"it has {asked}; its requests: {known}"
    raise NoSuchRequest(f"run {run_id}: {problem}")


def give_answer(store: Store, request: StoredRequest, answer: JsonObject, by: str) -> Answered:
    """Store the answer to a request if it is the first, and queue the run that continues a parked one.

    It is a step of a transaction; `store.notify` afterwards wakes the workers.

    Args:
        store: The store.
        request: The request.
        answer: The fields of an `input_response` line: `option_id`, `value`, `outcome`.
        by: Who answers, for other people.

    Raises:
        AnswerRefused: The answer does not fit.
        AnsweredBefore: Another one was first, or the request waits no more.
    """
    if not request.is_waiting:
        raise AnsweredBefore(request)
    try:
        check_interoperable(answer, MAX_WRITTEN_DEPTH - 1)  # an invocation holds it one level deeper than parameters
        resolution = resolution_of(request.fields, answer)
    except (InvalidAnswer, NotInteroperable) as error:
        raise AnswerRefused(f"request {request.request_id} of run {request.run_id}: {error}") from error
    counts = store.inputs.answer(request.run_id, request.request_id, {**answer, "by": "person"}, by)
    request = find_request(store, request.run_id, request.request_id)  # it may have been parked meanwhile
    if not counts:
        raise AnsweredBefore(request)
    next_run_id = _continue_parked(store, request) if request.is_parked else None
    return Answered(request, resolution.outcome, next_run_id)


def _continue_parked(store: Store, request: StoredRequest) -> str | None:
    """Queue the run that continues a parked one, once all its parked requests are answered."""
    requests = [one for one in store.inputs.of_run(request.run_id) if one.is_parked]
    if any(one.answer is None for one in requests):
        return None
    parked = store.runs.exactly(request.run_id)
    if parked.model_script is None and store.sessions.find(request.session_id).is_simulated:
        raise AnswerRefused(
            f"run {request.run_id} had a model script that is not stored, so no worker can continue it;"
            " begin such a run with `ao submit --model-script`"
        )
    run = replace(
        parked,
        run_id=new_run_id(),
        mode="resume",
        parameters={},
        attachments=(),
        started_at=timestamp(store.now()),
        status="queued",
        not_before=None,
        ended_at=None,
        error_type=None,
        succeeds=None if parked.batch_id is None else parked.run_id,
        input_responses=[{"request_id": one.request_id, **_response(one.answer or {})} for one in requests],
    )
    store.queue.add(run)
    return run.run_id


def _response(answer: JsonObject) -> JsonObject:
    return {name: answer[name] for name in ("option_id", "value") if answer.get(name) is not None}


def value_from(schema: JsonValue, text: str) -> JsonValue:
    """Return the value that a person typed: a text if the schema asks for one, else JSON.

    Raises:
        InvalidAnswer: It is not JSON.
    """
    if isinstance(schema, dict) and schema.get("type") == "string":
        return text
    try:
        return parse_json(text)
    except NotInteroperable as error:
        raise InvalidAnswer(f"{text[:40]!r} is not JSON: {error}") from error
