"""Runs and events between the vocabularies: logic alone."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ao_protocol.events import BODIES, parse_event
from ao_protocol.older_events import older_event
from ao_protocol.wire import JsonObject
from ao_runner.coordinators.http.assignments import RunDetails, UnusableRun, offered_run
from ao_runner.coordinators.http.event_delivery import SessionClocks
from ao_runner.coordinators.http.registration import OwnedAgent, RunnerIdentity
from ao_runner.coordinators.http.transport import ServerReply, Unanswered, understood
from ao_runner.coordinators.port import Assignment
from tests.process.runner.coordinators.drivers import IDENTITY
from tests.process.runner.coordinators.lines import line

NOW = datetime(2026, 1, 10, 12, tzinfo=UTC)
times = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1)).map(lambda moment: f"{moment.isoformat()}Z")


@given(st.lists(st.tuples(st.sampled_from(["ses_1", "ses_2"]), times), max_size=20))
def test_timestamps_grow_within_each_session_as_text_wherever_the_clock_goes(stamps: list[tuple[str, str]]) -> None:
    clocks = SessionClocks()
    made: dict[str, list[str]] = {}
    for session_id, timestamp in stamps:
        made.setdefault(session_id, []).append(clocks.stamp(session_id, timestamp))
    for texts in made.values():
        assert texts == sorted(set(texts))
        assert {len(text) for text in texts} == {32}


def test_a_timestamp_that_is_late_enough_stays_what_it_is() -> None:
    clocks = SessionClocks()
    given_ = ["2026-01-10T12:00:00.25Z", "2026-01-10T12:00:01+00:00", "2026-12-31T23:59:60Z"]
    assert [clocks.stamp("ses_1", timestamp) for timestamp in given_] == [
        "2026-01-10T12:00:00.250000+00:00",
        "2026-01-10T12:00:01.000000+00:00",
        "2026-12-31T23:59:59.999999+00:00",
    ]


def test_four_kinds_of_events_have_a_place_in_the_older_vocabulary() -> None:
    samples: dict[str, dict[str, Any]] = {
        "message": {"message_id": "m", "role": "user", "content": []},
        "tool_started": {"tool_call_id": "c", "tool_name": "Read", "tool_input": [1]},
        "tool_finished": {"tool_call_id": "c", "tool_name": "Read", "status": "failed", "error": "no"},
        "result": {"result_text": "x", "result_data": None, "stop_reason": "end_turn"},
        "heartbeat": {"phase": "model", "last_progress_seq": 0},
        "_vendor/thing": {"anything": 1},
    }
    told = {name: older_event(parse_event(line(name, 1, **fields)).body) for name, fields in samples.items()}
    assert told == {
        "message": {"event_type": "message", "role": "user", "content": []},
        "tool_started": {"event_type": "pre_tool", "tool_name": "Read", "tool_input": {"value": [1]}},
        "tool_finished": {
            "event_type": "post_tool",
            "tool_name": "Read",
            "tool_input": None,
            "tool_output": None,
            "error": "no",
        },
        "result": {"event_type": "result", "result_text": "x", "result_data": None},
        "heartbeat": None,
        "_vendor/thing": None,
    }
    assert set(samples) - {"_vendor/thing"} <= set(BODIES)


def test_reasoning_and_unknown_blocks_have_no_place_in_the_older_vocabulary() -> None:
    thought, other = {"type": "reasoning", "text": "Hm"}, {"type": "_acme/picture", "data": "x"}
    said: list[dict[str, Any]] = [{"type": "text", "text": "Yes"}]
    told = [
        older_event(parse_event(line("message", 1, message_id="m", role="assistant", content=content)).body)
        for content in ([thought, other, *said], [thought], [other])
    ]
    assert told == [{"event_type": "message", "role": "assistant", "content": said}, None, None]


def assignment(
    run: dict[str, Any], identity: RunnerIdentity = IDENTITY, known: dict[str, Any] | None = None
) -> Assignment:
    minimal = {"run_id": "run_1", "session_id": "ses_1", "type": "start_session", "parameters": {}}
    offered = offered_run(minimal | run)
    assert offered is not None
    return offered.to_assignment(identity, RunDetails(known or {}, run.get("resolved_agent_blueprint")), NOW)


def test_a_run_without_a_blueprint_gets_the_least_one() -> None:
    found = assignment({"agent_name": "greeter", "timeout_at": "2026-01-10T12:05:00Z", "unknown": {}})
    assert found.session.blueprint == {"name": "greeter"}
    assert (found.session.executor_name, found.session.executor_path) == ("profile", "ao-echo-exec")
    assert (found.run.timeout_seconds, found.key.attempt, found.queued_seconds) == (None, 1, 0.0)


def test_a_procedural_agent_that_the_worker_brought_along_keeps_its_command() -> None:
    agent: JsonObject = {
        "name": "adder",
        "command": "add.py",
        "parameters_schema": {"type": "object"},
        "output_schema": None,
    }
    identity = RunnerIdentity(
        "h", "/p", "tools", "procedural", "ao-procedural-exec", agents=[OwnedAgent(agent, "/programs")]
    )
    run = {"agent_name": "adder", "resolved_agent_blueprint": {"name": "adder", "description": "Adds", "command": None}}
    session = assignment(run, identity).session
    assert session.executor_config == {"commands_dir": "/programs"}
    assert session.blueprint == {
        "name": "adder",
        "type": "procedural",
        "command": "add.py",
        "parameters_schema": {"type": "object"},
        "description": "Adds",
    }


def test_a_server_of_the_registry_is_http_and_its_config_becomes_headers() -> None:
    servers = {
        "a": {"url": "http://x", "config": {"X-Id": "ses_1"}, "headers": {"A": "b"}},
        "b": {"command": "c"},
    }
    blueprint = assignment({"resolved_agent_blueprint": {"name": "n", "mcp_servers": servers}}).session.blueprint
    assert blueprint["mcp_servers"] == {
        "a": {"type": "http", "required": False, "url": "http://x", "headers": {"X-Id": "ses_1", "A": "b"}},
        "b": {"command": "c"},
    }


def test_how_long_a_run_has_waited_and_where_it_came_from_is_passed_on() -> None:
    run = {"created_at": "2026-01-10T11:59:50", "parent_session_id": "ses_0", "execution_mode": "sync", "attempt": 3}
    found = assignment(run)
    assert (found.queued_seconds, found.key.attempt) == (10.0, 3)
    assert found.run.metadata == {"parent_session_id": "ses_0", "execution_mode": "sync"}


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        ({"type": "teleport"}, "invalid_invocation: type is 'teleport'"),
        ({"parameters": None}, "invalid_invocation: parameters are None"),
        ({"type": "resume_session"}, "session_not_found: session ses_1"),
        ({"parameters": {"prompt": "\ud800"}}, r"invalid_invocation: \$\.parameters\.prompt: .* half a"),
        (
            {"parameters": {"a": [float("nan")]}},
            r"\$\.parameters\.a\[0\]: NaN is not a JSON number",
        ),
        ({"resolved_agent_blueprint": {"name": "\udc00"}}, r"invalid_invocation: \$\."),
        ({"parameters": {"n": 2**53}}, r"invalid_invocation: \$\.parameters\.n: 9007199254740992 is outside"),
    ],
    ids=["type", "parameters", "resume", "half a pair", "not a number", "blueprint", "large integer"],
)
def test_a_run_that_cannot_be_performed_says_why(run: dict[str, Any], reason: str) -> None:
    with pytest.raises(UnusableRun, match=reason):
        assignment(run)


@given(st.integers(200, 599), st.binary(max_size=60), st.dictionaries(st.just("retry-after"), st.text(max_size=5)))
def test_every_answer_is_understood_or_is_none(status: int, body: bytes, headers: dict[str, str]) -> None:
    try:
        said: ServerReply | Unanswered = understood("place", status, headers, body)
    except Unanswered as error:
        said = error
    if isinstance(said, ServerReply):
        assert len(said.reason) < 500
        assert isinstance(said.document, dict)
    else:
        assert len(str(said)) < 500
        assert said.retry_after_seconds is None or said.retry_after_seconds >= 0
