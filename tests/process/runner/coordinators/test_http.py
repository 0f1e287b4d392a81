"""The worker's end of the REST contract, against a server that keeps it, and one that misbehaves."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from ao_runner.coordinators.http.http_coordinator import HttpCoordinator
from ao_runner.coordinators.http.transport import Exchange, Timing
from ao_runner.coordinators.port import (
    Assignment,
    CoordinatorUnavailable,
    CoordinatorUnusable,
    LeaseLost,
    Orders,
    Refused,
)
from ao_runner.profiles import COORDINATOR_TOKEN
from ao_runner.run_events import RunKey
from ao_runner.runs.run_request import invocation_of
from ao_runner.worker.assignment import Host, served_order
from tests.foreign_coordinator.faults import ANSWER_LOST, BROKEN, DOWN, HALF_OPEN, PROXY_PAGE, Fault, busy, refusing
from tests.foreign_coordinator.server import ForeignCoordinator
from tests.foreign_coordinator.state import State
from tests.process.runner.coordinators.drivers import IDENTITY, QUICK, the_run
from tests.process.runner.coordinators.lines import batch, failure, line, result, said

KEY = RunKey("run_1", 1)
IMPATIENT = replace(QUICK, answer_seconds=1)


class Teller:
    """Keeps what it is told, and lets somebody wait for it."""

    def __init__(self) -> None:
        self.sentences: list[str] = []
        self._news = asyncio.Event()

    def __call__(self, sentence: str) -> None:
        self.sentences.append(sentence)
        self._news.set()

    async def until(self, text: str) -> None:
        while not any(text in sentence for sentence in self.sentences):
            self._news.clear()
            await self._news.wait()


def worker(
    server: ForeignCoordinator,
    tell: Callable[[str], None] = lambda _: None,
    environ: Mapping[str, str] = MappingProxyType({}),
    timing: Timing = QUICK,
) -> HttpCoordinator:
    return HttpCoordinator(server.url, IDENTITY, tell, environ, timing)


@asynccontextmanager
async def a_run(**fields: Any) -> AsyncIterator[tuple[ForeignCoordinator, HttpCoordinator, Assignment]]:
    """A run that a worker has begun."""
    timing = fields.pop("timing", QUICK)
    async with ForeignCoordinator() as server, worker(server, timing=timing) as coordinator:
        server.state.enqueue("run_1", "ses_1", **fields)
        assignment = await the_run(coordinator)
        await coordinator.started(assignment.key)
        yield server, coordinator, assignment


async def knock(coordinator: HttpCoordinator) -> None:
    """Try again until it opens, or never will."""
    while True:
        with suppress(CoordinatorUnavailable):
            await coordinator.__aenter__()
            return


async def test_a_worker_registers_sends_heartbeats_and_says_goodbye() -> None:
    async with ForeignCoordinator() as server:
        beaten = asyncio.Event()
        server.on_request = lambda request: beaten.set() if request == "POST /runner/heartbeat" else None
        async with worker(server):
            (registered,) = server.state.runners.values()
            assert registered["executor"]["type"] == "autonomous"
            assert registered["executor_profile"] == "profile"
            await beaten.wait()
        assert server.state.runners == {}


async def test_a_worker_whose_identity_is_taken_waits_for_a_bounded_time_and_says_so() -> None:
    teller = Teller()
    async with ForeignCoordinator() as server:
        await server.state.answer("POST", ["runner", "register"], "", IDENTITY.to_document())
        coordinator = worker(server, teller)
        with pytest.raises(CoordinatorUnusable, match="use another project_dir or profile"):
            await knock(coordinator)
        assert len(teller.sentences) == 1
        assert "waiting for up to" in teller.sentences[0]
        server.state.forget_runners()
        async with coordinator:
            assert len(server.state.runners) == 1


async def test_a_server_that_has_forgotten_everybody_is_registered_with_again() -> None:
    teller = Teller()
    async with ForeignCoordinator() as server, worker(server, teller) as coordinator:
        server.state.forget_runners()
        await teller.until("registered again")
        server.state.enqueue("run_1", "ses_1")
        assert (await the_run(coordinator)).key == KEY
        assert server.count("POST /runner/register") == 2


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (DOWN, "disconnected"),
        (BROKEN, "500"),
        (busy(7), "429"),
        (PROXY_PAGE, "Please log in"),
        (Fault("answer", 302, b"", ("Location: https://login.example",)), "https://login.example"),
        (Fault("answer", 404, b"<html>no such site</html>"), "no such site"),
    ],
    ids=["down", "broken", "busy", "proxy_page", "redirect", "not_its_own_404"],
)
async def test_what_may_pass_leaves_the_events_to_be_sent_again(fault: Fault, reason: str) -> None:
    async with a_run() as (server, coordinator, _):
        server.misbehave(fault, "POST /sessions/ses_1/events")
        with pytest.raises(CoordinatorUnavailable, match=reason) as caught:
            await coordinator.events(batch(1, said(1, "a"), said(2, "b")))
        assert caught.value.retry_after_seconds == (7 if "429" in reason else None)
        assert await coordinator.events(batch(1, said(1, "a"), said(2, "b"))) == 2
        assert len(server.state.answers("ses_1")) == 2


async def test_a_server_that_does_not_answer_is_given_up_after_a_time() -> None:
    async with ForeignCoordinator() as server:
        server.misbehave(HALF_OPEN, "POST /runner/register")
        with pytest.raises(CoordinatorUnavailable, match="no answer within 1 s"):
            await worker(server, timing=IMPATIENT).__aenter__()


async def test_events_before_one_that_fails_are_acknowledged_first() -> None:
    async with a_run() as (server, coordinator, _):
        server.on_request = lambda request: (
            server.misbehave(refusing(422, "odd"), "events")
            if request.endswith("/events") and server.count("/events") == 3
            else None
        )
        lines = said(1, "a"), said(2, "b"), said(3, "c")
        assert await coordinator.events(batch(1, *lines)) == 1
        server.misbehave(refusing(422, "odd"), "events")
        with pytest.raises(Refused, match=r"event 2 \(message\) of run run_1: 422: odd"):
            await coordinator.events(batch(2, *lines[1:]))
        assert await coordinator.events(batch(3, lines[2])) == 3


async def test_an_event_whose_answer_was_lost_comes_again_with_the_same_timestamp() -> None:
    async with a_run() as (server, coordinator, _):
        server.misbehave(ANSWER_LOST, "events")
        with pytest.raises(CoordinatorUnavailable):
            await coordinator.events(batch(1, said(1, "a")))
        await coordinator.events(batch(1, said(1, "a"), said(2, "b")))
        first, double, second = (row["timestamp"] for row in server.state.answers("ses_1"))
        assert first == double < second


@pytest.mark.parametrize("where", ["POST /sessions/ses_1/events", "POST /runner/runs/run_1/completed"])
async def test_an_end_whose_answer_was_lost_is_read_back_and_not_said_twice(where: str) -> None:
    async with a_run() as (server, coordinator, _):
        server.misbehave(ANSWER_LOST, where)
        with pytest.raises(CoordinatorUnavailable):
            await coordinator.terminal(KEY, 1, result(1))
        await coordinator.terminal(KEY, 1, result(1))
        assert [row["event_type"] for row in server.state.answers("ses_1")] == ["result"]
        ends = [end for end in server.state.runs["run_1"]["said"] if "completed" in end]
        assert ends == [{"completed": {"status": "success", "session_status": "finished"}}]


async def test_a_worker_that_starts_again_does_not_repeat_an_end_that_the_one_before_has_said() -> None:
    async with a_run() as (server, coordinator, _):
        await coordinator.terminal(KEY, 1, result(1))
        await coordinator.__aexit__()
        async with worker(server) as successor:
            said_before = list(server.state.runs["run_1"]["said"])
            await successor.terminal(KEY, 1, result(1))
            assert server.state.runs["run_1"]["said"] == said_before
            with pytest.raises(LeaseLost, match="the run is completed, not failed"):
                await successor.terminal(RunKey("run_1", 2), 1, failure(1))
        await coordinator.__aenter__()


async def test_a_run_that_the_server_does_not_know_must_not_begin() -> None:
    async with ForeignCoordinator() as server, worker(server) as coordinator:
        with pytest.raises(LeaseLost, match="404: Run not found"):
            await coordinator.started(KEY)


async def test_a_token_opens_the_door_and_is_never_shown() -> None:
    async with ForeignCoordinator(token="s3cret") as server:
        async with worker(server, environ={COORDINATOR_TOKEN: "s3cret\n"}):
            assert len(server.state.runners) == 1
        for wrong in ("wr0ng", "wr0ng\nmore", "wr0ng\u00e9"):
            with pytest.raises(CoordinatorUnusable, match="token") as caught:
                await worker(server, environ={COORDINATOR_TOKEN: wrong}).__aenter__()
            assert "wr0ng" not in f"{caught.value} {caught.value!r} {caught.value.__cause__!r}"


@pytest.mark.parametrize(
    ("found", "advice"),
    [
        ({"versions": ["2.0", "3.1"]}, "upgrade the worker"),
        ({"versions": ["0.9"]}, "upgrade the coordinator"),
        ({"versions": ["newest"]}, "upgrade the coordinator"),
        ({}, "upgrade the coordinator"),
        ({"versions": ["2.0", "1.3"], "what_else": 1}, None),
    ],
    ids=["newer", "older", "malformed", "none", "common"],
)
async def test_a_server_without_a_common_version_is_not_used(found: dict[str, Any], advice: str | None) -> None:
    async with ForeignCoordinator(State(registration_extra={"ao_protocol": found, "unknown": []})) as server:
        if advice is None:
            async with worker(server):
                return
        with pytest.raises(CoordinatorUnusable, match=advice):
            await worker(server).__aenter__()


async def test_a_page_instead_of_a_coordinator_may_pass_and_does_not_for_ever() -> None:
    async with ForeignCoordinator() as server:
        server.misbehave(PROXY_PAGE, times=5)
        coordinator = worker(server)
        for _ in range(4):
            with pytest.raises(CoordinatorUnavailable, match="Please log in"):
                await coordinator.__aenter__()
        with pytest.raises(CoordinatorUnusable, match="check the address"):
            await coordinator.__aenter__()


@pytest.mark.parametrize("url", ["localhost:8765", "ftp://host", "http://", "http://[", ""])
async def test_what_is_no_address_is_not_tried(url: str) -> None:
    with pytest.raises(CoordinatorUnusable, match="http://host:8765"):
        await HttpCoordinator(url, IDENTITY, lambda _: None, {}).__aenter__()


async def test_a_server_that_is_not_there_may_come() -> None:
    async with ForeignCoordinator() as server:
        coordinator = worker(server)
    with pytest.raises(CoordinatorUnavailable, match="All connection attempts failed"):
        await coordinator.__aenter__()
    async with server, coordinator:
        assert len(server.state.runners) == 1


async def test_a_resume_asks_for_the_executors_session_and_fails_where_there_is_none() -> None:
    async with ForeignCoordinator() as server, worker(server) as coordinator:
        server.state.enqueue("run_1", "ses_1", type="resume_session")
        server.state.enqueue("run_2", "ses_2", type="resume_session", project_dir="/elsewhere")
        server.state.sessions["ses_2"]["executor_session_id"] = "exec_2"
        server.misbehave(BROKEN, "GET /sessions/ses_1")
        with pytest.raises(CoordinatorUnavailable):
            await the_run(coordinator)
        assignment = await the_run(coordinator)
        assert (assignment.key.run_id, assignment.run.mode) == ("run_2", "resume")
        assert assignment.session.executor_session_id == "exec_2"
        assert assignment.session.project_dir == "/elsewhere"
        (end,) = server.state.runs["run_1"]["said"]
        assert end["failed"]["error"].startswith("session_not_found: session ses_1")


async def test_a_worker_that_is_full_takes_one_run_in_hand_and_still_hears_a_stop() -> None:
    async with a_run() as (server, coordinator, _):
        for number in (2, 3):
            server.state.enqueue(f"run_{number}", f"ses_{number}")
        watched = asyncio.Event()
        server.on_request = lambda request: watched.set() if request == "GET /runs/run_2" else None
        await watched.wait()
        server.state.runs["run_1"]["status"] = "stopping"
        assert await coordinator.orders() == Orders(cancel_runs=frozenset({"run_1"}))
        watched.clear()
        await watched.wait()
        assert await coordinator.heartbeat([KEY]) == Orders()
        assert [server.state.runs[f"run_{number}"]["status"] for number in (2, 3)] == ["claimed", "pending"]


async def test_a_run_in_hand_that_is_stopped_never_begins() -> None:
    async with ForeignCoordinator() as server, worker(server) as coordinator:
        stopped = asyncio.Event()
        server.on_request = lambda request: stopped.set() if request.endswith("run_1/stopped") else None
        server.state.enqueue("run_1", "ses_1")
        server.state.runs["run_1"]["status"] = "stopping"
        server.state.pending[0] = dict(server.state.runs["run_1"])
        await stopped.wait()
        server.state.enqueue("run_2", "ses_2")
        assert (await the_run(coordinator)).key.run_id == "run_2"


async def test_a_run_that_nobody_claimed_fails_when_the_worker_leaves() -> None:
    async with ForeignCoordinator() as server:
        watched = asyncio.Event()
        server.on_request = lambda request: watched.set() if request == "GET /runs/run_1" else None
        async with worker(server):
            server.state.enqueue("run_1", "ses_1")
            await watched.wait()
        (end,) = server.state.runs["run_1"]["said"]
        assert end["failed"]["error"].startswith("attempt_lost: the worker had to exit before it could begin")


async def test_a_worker_that_is_deregistered_drains_and_scripts_are_none_of_its_business() -> None:
    async with ForeignCoordinator() as server, worker(server) as coordinator:
        server.state.notify({"sync_scripts": ["a"], "remove_scripts": []})
        server.state.notify({"deregistered": True})
        assert await coordinator.orders() == Orders(drain=True)


async def test_a_worker_that_is_deregistered_still_hears_that_its_run_is_to_stop() -> None:
    async with a_run() as (server, coordinator, _):
        server.state.notify({"deregistered": True})
        assert await coordinator.orders() == Orders(drain=True)
        server.state.runs["run_1"]["status"] = "stopping"
        assert await coordinator.orders() == Orders(cancel_runs=frozenset({"run_1"}))


async def test_a_stop_of_a_session_names_the_run_of_it_that_the_worker_has() -> None:
    async with a_run() as (server, coordinator, _):
        server.state.notify({"stop_sessions": ["ses_1", "ses_of_others"]})
        orders = await coordinator.orders()
        assert orders == Orders(frozenset({"run_1"}), frozenset({"ses_1", "ses_of_others"}))


async def test_an_executor_that_ignores_a_stop_has_four_seconds_after_sigterm(tmp_path: Path) -> None:
    """With the second before SIGTERM, clients of this contract see the end after five, as of the existing runner."""
    async with a_run() as (_, _, assignment), served_order(assignment, Host(tmp_path, {}, "echo")) as request:
        sent: Any = invocation_of(request, request.session, "3.0", has_inputs=False)
    assert sent["limits"]["cancel_grace_seconds"] == request.grace_periods.terminate_seconds == 4


async def test_a_server_that_comes_back_is_polled_again_and_both_is_told_once() -> None:
    teller = Teller()
    async with ForeignCoordinator() as server, worker(server, teller) as coordinator:
        server.misbehave(DOWN, "GET /runner/runs", times=5)
        server.state.enqueue("run_1", "ses_1")
        assert (await the_run(coordinator)).key == KEY
        await teller.until("answers again")
        assert [sentence.count("retrying") for sentence in teller.sentences].count(1) == 1


async def test_a_worker_that_is_thrown_out_hears_of_it() -> None:
    async with ForeignCoordinator() as server, worker(server) as coordinator:
        server.token = "changed"
        with pytest.raises(CoordinatorUnusable, match="denies access"):
            await coordinator.claim(1)


async def test_an_error_in_the_block_arrives_as_it_is() -> None:
    async with ForeignCoordinator() as server:
        with pytest.raises(ZeroDivisionError):
            async with worker(server):
                raise ZeroDivisionError
        assert server.state.runners == {}


async def test_a_whole_run_in_the_older_vocabulary() -> None:
    async with a_run() as (server, coordinator, _):
        call = {"tool_call_id": "c1", "tool_name": "Read"}
        lines = [
            line("run_started", 1, schema_version="3.0", executor={"name": "echo", "version": "1"}),
            line("session_bound", 2, executor_session_id="exec_1"),
            line("tool_started", 3, **call, tool_input={"path": "a"}, timestamp="2099-01-10T12:00:09Z"),
            line("tool_finished", 4, **call, tool_input={"path": "a"}, status="denied"),
            said(5, "Hello"),
            line("usage", 6, input_tokens=1),
        ]
        assert await coordinator.events(batch(1, *lines)) == 6
        await coordinator.terminal(KEY, 7, result(7, None, result_data=[1, 2]))
        assert server.state.sessions["ses_1"]["executor_session_id"] == "exec_1"
        assert server.state.sessions["ses_1"]["hostname"] == "host"
        second = "2099-01-10T12:00:09"
        tool = {"tool_name": "Read", "tool_input": {"path": "a"}, "session_id": "ses_1"}
        assert server.state.answers("ses_1") == [
            {"event_type": "pre_tool", **tool, "timestamp": f"{second}.000000+00:00"},
            {
                "event_type": "post_tool",
                **tool,
                "tool_output": None,
                "error": "denied",
                "timestamp": f"{second}.000001+00:00",
            },
            {
                "event_type": "message",
                "role": "assistant",
                "content": [{"type": "text", "text": "Hello"}],
                "session_id": "ses_1",
                "timestamp": f"{second}.000002+00:00",
            },
            {
                "event_type": "result",
                "result_text": None,
                "result_data": {"value": [1, 2]},
                "session_id": "ses_1",
                "timestamp": f"{second}.000003+00:00",
            },
        ]


async def test_a_run_whose_result_is_refused_has_not_ended_and_may_fail_instead() -> None:
    async with a_run() as (server, coordinator, _):
        server.misbehave(refusing(422, "too large"), "events")
        with pytest.raises(Refused, match=r"event 1 \(result\) of run run_1: 422: too large"):
            await coordinator.terminal(KEY, 1, result(1))
        assert server.state.runs["run_1"]["status"] == "running"
        await coordinator.terminal(KEY, 1, failure(1))
        assert [name for one in server.state.runs["run_1"]["said"] for name in one] == ["started", "failed"]


async def test_a_failure_says_of_what_type_it_is_and_what_did_not_validate() -> None:
    async with a_run() as (server, coordinator, _):
        await coordinator.terminal(KEY, 1, failure(1, validation_errors=["$.a: 1 is not a string"]))
        end = server.state.runs["run_1"]["said"][-1]
        assert end == {"failed": {"error": "rate_limited: no more\n$.a: 1 is not a string"}}
        assert server.state.answers("ses_1") == []


@pytest.mark.parametrize("seconds", ["1" + "0" * 400, "Infinity", "1e-300"], ids=["huge", "infinite", "tiny"])
async def test_times_that_no_worker_can_wait_for_do_no_harm(seconds: str) -> None:
    async with ForeignCoordinator() as server:
        times = f'"poll_timeout_seconds":{seconds},"heartbeat_interval_seconds":{seconds}'
        answer = f'{{"runner_id":"lnch_1","poll_endpoint":"/runner/runs",{times}}}'.encode()
        server.misbehave(Fault("answer", 200, answer), "POST /runner/register")
        async with worker(server) as coordinator:
            server.state.enqueue("run_1", "ses_1")
            assert (await the_run(coordinator)).key == KEY


@pytest.mark.parametrize("name", ["run_id", "session_id"])
async def test_a_run_whose_name_fits_in_no_address_is_told_and_left_alone(name: str) -> None:
    teller = Teller()
    async with ForeignCoordinator() as server:
        offered = {"run_id": "run_0", "session_id": "ses_0", "type": "start_session", "parameters": {}}
        answer = json.dumps({"run": {**offered, name: "\ud800"}}).encode()
        server.misbehave(Fault("answer", 200, answer), "GET /runner/runs")
        async with worker(server, teller) as coordinator:
            await teller.until("without a run_id and a session_id")
            server.state.enqueue("run_1", "ses_1")
            assert (await the_run(coordinator)).key == KEY


@pytest.mark.thorough
async def test_a_server_that_says_the_same_to_each_poll_at_once_is_not_polled_without_a_pause() -> None:
    async with ForeignCoordinator() as server:
        server.misbehave(Fault("answer", 200, b'{"stop_sessions":["ses_0"]}'), "GET /runner/runs", times=1000)
        async with worker(server, timing=replace(QUICK, shortest_poll_seconds=1000)) as coordinator:
            assert await coordinator.orders() == Orders(cancel_sessions=frozenset({"ses_0"}))
            for _ in range(5):  # other requests would leave room for further polls
                with pytest.raises(LeaseLost):
                    await coordinator.started(KEY)
        assert server.count("GET /runner/runs") == 1


async def test_an_answer_without_end_is_not_read_to_its_end() -> None:
    async with ForeignCoordinator() as server, Exchange(server.url, None, QUICK, 1000) as exchange:
        server.misbehave(Fault("answer", 200, b" " * 1001), "GET /runs/run_1")
        with pytest.raises(CoordinatorUnavailable, match="longer than 1000 bytes"):
            await exchange.ask("GET", "/runs/run_1")
        server.misbehave(Fault("answer", 200, b" " * 1000), "GET /runs/run_1")
        assert (await exchange.ask("GET", "/runs/run_1")).is_success


@pytest.mark.parametrize("encoding", ["gzip", "gzip, gzip", "deflate", "identity, gzip"])
async def test_an_answer_that_is_packed_is_refused_and_not_unpacked(encoding: str) -> None:
    async with ForeignCoordinator() as server, Exchange(server.url, None, QUICK) as exchange:
        body = gzip.compress(gzip.compress(b"{}"))
        server.misbehave(Fault("answer", 200, body, (f"Content-Encoding: {encoding}",)), "GET /runs/run_1")
        with pytest.raises(CoordinatorUnavailable, match=f"Content-Encoding '{encoding}', expected identity"):
            await exchange.ask("GET", "/runs/run_1")
        server.misbehave(Fault("answer", 200, b"{}", ("Content-Encoding: identity",)), "GET /runs/run_1")
        assert (await exchange.ask("GET", "/runs/run_1")).is_success


@pytest.mark.parametrize(
    ("fields", "question"),
    [
        ({"parameters": {"prompt": "Hi"}}, "Hi"),
        (
            {
                "parameters": {"topic": "tea"},
                "resolved_agent_blueprint": {"name": "n", "parameters_schema": {"type": "object"}},
            },
            "<inputs>\ntopic: tea\n</inputs>",
        ),
        ({"resolved_agent_blueprint": {"name": "n", "type": "procedural", "command": "c"}}, None),
    ],
    ids=["prompt", "inputs", "procedural"],
)
async def test_a_timeline_begins_with_what_the_agent_is_asked(fields: dict[str, Any], question: str | None) -> None:
    async with a_run(**fields) as (server, _, _):
        asked = [row["content"][0]["text"] for row in server.state.events.get("ses_1", [])]
        assert asked == ([] if question is None else [question])


async def test_a_session_whose_process_stays_is_idle_until_the_process_leaves() -> None:
    async with a_run() as (server, coordinator, _):
        await coordinator.terminal(KEY, 1, result(1), stays=True)
        assert server.state.sessions["ses_1"]["status"] == "idle"
        assert server.state.sessions["ses_1"]["executor_session_id"] == "profile-ses_1"
        assert server.state.sessions["ses_1"]["hostname"] == "host"
        await coordinator.session_left("ses_1")
        assert server.state.sessions["ses_1"]["status"] == "finished"
        await coordinator.session_left("ses_1")
        assert server.count("POST /runner/sessions/") == 1


async def test_a_stop_of_an_idle_session_is_answered_even_if_its_process_has_gone_long_ago() -> None:
    async with ForeignCoordinator() as server, worker(server) as coordinator:
        server.state.sessions["ses_1"] = {"session_id": "ses_1", "status": "stopping"}
        server.state.notify({"stop_sessions": ["ses_1"]})
        assert await coordinator.orders() == Orders(cancel_sessions=frozenset({"ses_1"}))
        await coordinator.session_left("ses_1")
        assert server.state.sessions["ses_1"]["status"] == "finished"


@pytest.mark.parametrize("has_result", [True, False], ids=["earlier_result", "no_result"])
async def test_a_resume_that_fails_leaves_the_earlier_result_to_be_read(has_result: bool) -> None:
    async with ForeignCoordinator() as server, worker(server) as coordinator:
        server.state.enqueue("run_1", "ses_1", type="resume_session")
        server.state.sessions["ses_1"]["executor_session_id"] = "exec_1"
        if has_result:
            server.state.events["ses_1"] = [{"event_type": "result", "result_text": "earlier"}]
        await coordinator.started((await the_run(coordinator)).key)
        await coordinator.terminal(KEY, 1, failure(1))
        assert server.state.runs["run_1"]["status"] == "failed"
        assert server.state.sessions["ses_1"]["status"] == ("finished" if has_result else "failed")


@pytest.mark.parametrize("claimed", [False, True], ids=["refused", "given-back"])
async def test_a_resume_that_never_began_leaves_the_earlier_result_to_be_read(claimed: bool) -> None:
    async with ForeignCoordinator() as server, worker(server) as coordinator:
        server.state.enqueue("run_1", "ses_1", type="resume_session")
        server.state.events["ses_1"] = [{"event_type": "result", "result_text": "earlier"}]
        server.state.sessions["ses_1"]["executor_session_id"] = "exec_1" if claimed else None
        if claimed:
            await coordinator.release((await the_run(coordinator)).key, None)
        else:
            assert await coordinator.claim(1) == ()
        assert server.state.runs["run_1"]["status"] == "failed"
        assert server.state.sessions["ses_1"]["status"] == "finished"


@pytest.mark.parametrize(
    ("end", "signal"),
    [(failure(1, "cancelled"), "SIGTERM"), (failure(1, type="cancel_timeout"), "SIGKILL")],
    ids=["left", "had_to_be_killed"],
)
async def test_a_run_that_was_stopped_is_stopped_however_its_process_ended(end: bytes, signal: str) -> None:
    async with a_run() as (server, coordinator, _):
        await coordinator.terminal(KEY, 1, end)
        assert server.state.runs["run_1"]["said"][-1] == {"stopped": {"signal": signal}}
