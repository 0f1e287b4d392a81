"""Requests to a person, as far as one request at a time and a real process do not show them."""

import asyncio
import json
from typing import Any, cast

import pytest

from ao_executors.core import ALLOW_OR_DENY, Emitter, InputRequest, Inputs
from ao_executors.core.executor import input_required
from ao_protocol.input_answers import Resolution

FIRST = InputRequest("q1", "permission", "Bash: ls", ALLOW_OR_DENY, tool_call_id="c1", tool_input={"command": "ls"})
SECOND = InputRequest("q2", "question", "How many?", schema={"type": "integer"})


class Written:
    """The events of a run, as documents."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.events = Emitter(self.lines.append, run_id="run_1", session_id="ses_1")

    def inputs(self, given: dict[str, dict[str, Any]] | None = None) -> Inputs:
        return Inputs(self.events, is_open=True, given=given or {})

    def told(self, event_type: str) -> list[dict[str, Any]]:
        documents: list[dict[str, Any]] = [json.loads(line) for line in self.lines]
        return [document for document in documents if document["event_type"] == event_type]


@pytest.mark.parametrize(
    "request_",
    [
        InputRequest("", "question", "Why?", ALLOW_OR_DENY),
        InputRequest("q", "question", cast("Any", ["Why?"]), ALLOW_OR_DENY),
        InputRequest("q", "question", "Why?"),
        InputRequest("q", "question", "Why?", schema={"type": "unheard of"}),
    ],
    ids=["no id", "no text", "no answer", "no schema"],
)
async def test_a_request_that_nobody_can_answer_is_not_asked(request_: InputRequest) -> None:
    written = Written()
    with pytest.raises(ValueError, match=r".+"):
        await written.inputs().ask(request_)
    assert written.lines == []


@pytest.mark.requirement("AOX-154")
async def test_requests_that_are_open_at_once_are_resolved_each_by_its_own_answer() -> None:
    written = Written()
    inputs = written.inputs()
    async with asyncio.TaskGroup() as group:
        first, second = group.create_task(inputs.ask(FIRST)), group.create_task(inputs.ask(SECOND))
        await asyncio.sleep(0)
        inputs.receive("q2", {"value": 3})
        inputs.receive("q1", {"option_id": "deny"})

    assert (first.result(), second.result()) == (
        Resolution("declined", "person", "deny"),
        Resolution("accepted", "person", None, 3),
    )
    assert [event["request_id"] for event in written.told("input_resolved")] == ["q2", "q1"]
    assert written.told("log") == []


@pytest.mark.requirement("AOX-158")
async def test_a_park_resolves_all_open_requests_and_its_failure_has_them_as_they_were_asked() -> None:
    written = Written()
    inputs = written.inputs()
    parked = list[int]()
    inputs.when_parked = lambda: parked.append(len(inputs.parked))
    inputs.park()
    async with asyncio.TaskGroup() as group:
        asked = [group.create_task(inputs.ask(one)) for one in (FIRST, SECOND)]
        await asyncio.sleep(0)
        inputs.park()
        inputs.park()

    assert [one.result() for one in asked] == [Resolution("expired", "timeout")] * 2
    assert parked == [2]
    failure = input_required(inputs.parked)
    assert (failure.error_type, failure.extra) == (
        "input_required",
        {"details": {"requests": [FIRST.to_fields(), SECOND.to_fields()]}},
    )


@pytest.mark.requirement("AOX-159")
async def test_an_answer_of_a_resume_that_is_not_valid_leaves_the_request_open() -> None:
    written = Written()
    inputs = written.inputs({"q1": {"option_id": "always"}})
    async with asyncio.TaskGroup() as group:
        asked = group.create_task(inputs.ask(FIRST))
        await asyncio.sleep(0)
        assert not asked.done()
        inputs.receive("q1", {"option_id": "allow"})

    assert asked.result() == Resolution("accepted", "person", "allow")
    assert 'option_id is "always"; expected one of allow, deny' in written.told("log")[0]["message"]


@pytest.mark.requirement("AOX-156")
async def test_a_request_whose_asker_was_cancelled_takes_no_answer_and_ends_with_its_run() -> None:
    written = Written()
    inputs = written.inputs()
    asked = asyncio.ensure_future(inputs.ask(FIRST))
    await asyncio.sleep(0)
    asked.cancel()
    await asyncio.wait([asked])

    inputs.receive("q1", {"option_id": "allow"})
    written.events.end("failure", {"status": "cancelled", "error": {"type": "cancelled"}})

    resolved = [(event["outcome"], event["by"]) for event in written.told("input_resolved")]
    assert resolved == [("cancelled", "policy")]
