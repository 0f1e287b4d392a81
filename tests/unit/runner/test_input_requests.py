"""Requests of a run to a person: which answer counts, and what follows when nobody answers."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest

from ao_protocol.wire import JsonObject
from ao_runner.runs.input_requests import EXPIRED, PARKED, Decide, InputPolicy, InputRequests

ALLOW: JsonObject = {"option_id": "allow"}
DENY: JsonObject = {"option_id": "deny"}


@dataclass
class Run:
    """What a run sends to its executor, how it was cancelled, and the answers that were recorded elsewhere."""

    sent: list[JsonObject] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    recorded: dict[str, JsonObject] = field(default_factory=dict)
    """The first answer to each request."""
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def requests(self, policy: InputPolicy, decide: Decide | None = None) -> InputRequests:
        async def record(request_id: str, answer: JsonObject) -> JsonObject:
            return self.recorded.setdefault(request_id, answer)

        return InputRequests(policy, decide or record, self.cancel)

    def send(self, line: JsonObject) -> None:
        self.sent.append(line)
        self.news.set()

    def cancel(self, reason: str) -> None:
        self.cancelled.append(reason)


def response(request_id: str, answer: JsonObject) -> JsonObject:
    return {"type": "input_response", "request_id": request_id, **answer}


def perform(
    story: Callable[[Run, InputRequests], Awaitable[None]], policy: InputPolicy, decide: Decide | None = None
) -> Run:
    """Let a story happen while the run can send."""

    async def everything() -> Run:
        run = Run()
        requests = run.requests(policy, decide)
        with requests.sent_by(run.send):
            await story(run, requests)
        return run

    return asyncio.run(everything())


def test_the_first_answer_is_sent_and_no_other() -> None:
    async def story(run: Run, requests: InputRequests) -> None:
        requests.opened("call_1")
        requests.give("call_1", ALLOW)
        requests.give("call_1", DENY)
        await run.news.wait()
        requests.receive("call_1", DENY)
        assert not requests.is_waiting

    assert perform(story, InputPolicy()).sent == [response("call_1", ALLOW)]


def test_an_answer_that_was_recorded_elsewhere_before_is_the_one_that_is_sent() -> None:
    async def story(run: Run, requests: InputRequests) -> None:
        run.recorded["call_1"] = DENY
        requests.opened("call_1")
        requests.give("call_1", ALLOW)
        await run.news.wait()

    assert perform(story, InputPolicy()).sent == [response("call_1", DENY)]


@pytest.mark.parametrize(
    ("then", "sent", "is_cancelled"),
    [
        ("deny", [response("call_1", EXPIRED)], False),
        ("cancel", [response("call_1", EXPIRED)], True),
        ("park", [{"type": "park", "reason": "nobody answered in time"}], False),
    ],
)
def test_when_the_time_is_over_the_policy_decides(then: str, sent: list[JsonObject], is_cancelled: bool) -> None:
    async def story(run: Run, requests: InputRequests) -> None:
        requests.opened("call_1")
        await run.news.wait()

    run = perform(story, InputPolicy(0.01, then))  # type: ignore[arg-type]  # one of its words

    assert run.sent == sent
    assert bool(run.cancelled) == is_cancelled


def test_a_run_is_parked_with_all_its_open_requests_but_those_that_are_answered() -> None:
    async def story(run: Run, requests: InputRequests) -> None:
        run.recorded["call_2"] = ALLOW
        for request_id in ("call_1", "call_2", "call_3"):
            requests.opened(request_id)
        requests.give("call_1", PARKED)
        while run.sent[-1:] != [{"type": "park", "reason": "nobody answered in time"}]:
            run.news.clear()
            await run.news.wait()

    run = perform(story, InputPolicy(3600, "park"))

    assert run.recorded == {"call_1": PARKED, "call_2": ALLOW, "call_3": PARKED}
    assert run.sent[0] == response("call_2", ALLOW)


def test_an_answer_recorded_before_the_end_of_the_time_prevents_the_cancel() -> None:
    async def story(run: Run, requests: InputRequests) -> None:
        run.recorded["call_1"] = ALLOW
        requests.opened("call_1")
        await run.news.wait()

    run = perform(story, InputPolicy(0.01, "cancel"))

    assert (run.sent, run.cancelled) == ([response("call_1", ALLOW)], [])


def test_a_request_that_is_resolved_takes_no_answer_and_its_time_ends() -> None:
    async def story(run: Run, requests: InputRequests) -> None:
        requests.opened("call_1")
        requests.closed("call_1")
        requests.receive("call_1", ALLOW)
        requests.receive("never_opened", ALLOW)
        requests.opened("call_2")  # the time of the first one would be over before
        await run.news.wait()

    assert perform(story, InputPolicy(0.01)).sent == [response("call_2", EXPIRED)]


def test_an_answer_that_is_decided_after_the_end_of_the_run_is_sent_to_nobody() -> None:
    async def everything() -> list[JsonObject]:
        run, decided = Run(), asyncio.Event()

        async def decide(request_id: str, answer: JsonObject) -> JsonObject:
            await decided.wait()
            run.recorded[request_id] = answer
            run.news.set()
            return answer

        requests = run.requests(InputPolicy(), decide)
        with requests.sent_by(run.send):
            requests.opened("call_1")
            requests.give("call_1", ALLOW)
        assert not requests.is_waiting
        decided.set()
        await run.news.wait()
        await asyncio.sleep(0)
        return run.sent

    assert asyncio.run(everything()) == []
