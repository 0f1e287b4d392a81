"""Events of several attempts in, those of one run out: the cases that are easier written than performed."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from ao_protocol.contracts import JsonFormat, OutputContract, SchemaSource, Strategy
from ao_protocol.events import Result, event_from_document
from ao_protocol.lifecycle import RunLifecycle
from ao_protocol.wire import ExecutorIdentity
from ao_runner.run_events import Relayed, RunIdentity
from ao_runner.runs.contract_loop import MAX_BYTES_JUDGED_AT_ONCE, ContractLoop

SCHEMA = {"type": "object", "required": ["n"]}
CONTRACT = OutputContract(JsonFormat(SCHEMA), SchemaSource.INLINE, strategy=Strategy.SYSTEM_PROMPT)
IDENTITY = RunIdentity("run_1", "ses_1", ExecutorIdentity(name="mini", version="1"))
MINI = {"name": "mini", "version": "1"}
STARTED: dict[str, Any] = {"event_type": "run_started", "schema_version": "3.0", "executor": MINI}
BOUND: dict[str, Any] = {"event_type": "session_bound", "executor_session_id": "mini_1"}


class Played:
    """A run that is told what its attempts relay, as documents without an envelope."""

    def __init__(self, contract: OutputContract = CONTRACT) -> None:
        self.kept = ContractLoop(contract, IDENTITY, lambda: "2026-01-10T12:00:00Z", can_resume=True)
        self.told: list[dict[str, Any]] = []

    def attempt(self, *bodies: dict[str, Any]) -> None:
        run_id = self.kept.begin_attempt()
        for seq, body in enumerate([STARTED, BOUND, *bodies], start=1):
            envelope = {"session_id": "ses_1", "run_id": run_id, "seq": seq, "timestamp": "2026-01-10T12:00:00Z"}
            line = json.dumps({**body, **envelope}).encode()
            for item in self.kept.receive(Relayed(event_from_document(json.loads(line)), line)):
                self.told.append(json.loads(item.line))

    @property
    def types(self) -> list[str]:
        return [document["event_type"] for document in self.told]

    def check_whole(self) -> None:
        lifecycle = RunLifecycle("run_1", "ses_1")
        for document in self.told:
            lifecycle.receive(document)
        lifecycle.end()


@pytest.mark.parametrize(
    ("pattern", "characters"),
    [
        pytest.param("^x", MAX_BYTES_JUDGED_AT_ONCE, id="large answer"),
        pytest.param("^(?=(x|y)*$)x", MAX_BYTES_JUDGED_AT_ONCE // 2, id="pattern that may take long"),
    ],
)
def test_an_answer_that_may_take_long_is_not_judged_before_it_is_asked_for(pattern: str, characters: int) -> None:
    schema = {"type": "object", "properties": {"n": {"pattern": pattern}}}
    played = Played(replace(CONTRACT, format=JsonFormat(schema)))
    answer = json.dumps({"n": "x" * characters})
    played.attempt(result(answer))

    assert (played.kept.terminal, "output_validation" in played.types) == (None, False)

    played.told += [json.loads(item.line) for item in asyncio.run(played.kept.judge_apart())]

    assert isinstance(played.kept.terminal, Result)
    assert played.types[-2:] == ["output_validation", "result"]
    assert played.told[-1]["result_data"] == json.loads(answer)
    played.check_whole()


def message(text: str) -> dict[str, Any]:
    content = [{"type": "text", "text": text}]
    return {"event_type": "message", "message_id": "m", "role": "assistant", "content": content}


def result(text: str, **fields: Any) -> dict[str, Any]:
    terminal = {"event_type": "result", "result_text": text, "result_data": None, "stop_reason": "end_turn"}
    return {**terminal, **fields}


def tool(kind: str, **fields: Any) -> dict[str, Any]:
    return {"event_type": kind, "tool_call_id": "call_1", "tool_name": "Read", **fields}


USES_A_TOOL = (tool("tool_started", tool_input=None), tool("tool_finished", status="completed"))


def test_what_was_said_on_the_way_to_an_answer_is_told_with_it() -> None:
    played = Played()
    played.attempt(message("Let me look."), *USES_A_TOOL, message('{"n": 1}'), result('{"n": 1}'))

    assert played.types == [
        "run_started",
        "session_bound",
        "tool_started",
        "tool_finished",
        "output_validation",
        "message",
        "message",
        "result",
    ]
    played.check_whole()


def test_only_what_may_be_the_answer_waits_for_the_end_of_the_attempt() -> None:
    thought = [{"type": "reasoning", "text": "Hm"}]
    part = {"parent_tool_call_id": "call_1"}
    nested, end = {**message('{"n": 1}'), **part}, tool("tool_finished", status="completed")
    both = {**message("x"), "content": [*thought, {"type": "text", "text": "x"}]}
    played = Played()
    played.attempt(
        {**message(""), "event_type": "message_delta", "content": thought},
        {**message(""), "content": thought},
        both,
        tool("tool_started", tool_input=None),
        {**nested, "event_type": "message_delta"},
        nested,
        end,
    )

    told = played.told[2:]
    assert [(one["event_type"], one.get("content")) for one in told] == [
        ("message", thought),
        ("tool_started", None),
        ("message_delta", nested["content"]),
        ("message", nested["content"]),
        ("tool_finished", None),
    ]
    assert [one["seq"] for one in told] == [3, 4, 5, 6, 7]


def test_an_answer_that_does_not_fit_is_told_nowhere_not_even_in_pieces() -> None:
    delta = {**message("MARK"), "event_type": "message_delta"}
    played = Played()
    played.attempt(delta, message("MARK"), {"event_type": "log", "level": "info", "message": "x"}, result("MARK"))
    played.attempt(message('{"n": 1}'), result('{"n": 1}'))

    assert "MARK" not in json.dumps(played.told)
    assert played.types[-4:] == ["output_validation", "output_validation", "message", "result"]
    played.check_whole()


def test_figures_of_all_attempts_are_added_up() -> None:
    used = {"input_tokens": 10, "output_tokens": 1, "cost_usd": 0.5}
    played = Played()
    played.attempt({"event_type": "usage", **used}, result("no", usage=used))
    played.attempt({"event_type": "usage", **used}, result('{"n": 1}', usage=used))

    figures = [document for document in played.told if document["event_type"] == "usage"]
    assert [(f["input_tokens"], f["cost_usd"]) for f in figures] == [(10, 0.5), (20, 1.0)]
    assert played.told[-1]["usage"]["input_tokens"] == 20
    played.check_whole()


def test_a_cost_that_only_some_attempts_tell_is_left_out_and_still_counts_for_the_limit() -> None:
    told, untold = {"input_tokens": 10, "cost_usd": 0.5}, {"input_tokens": 10}
    played = Played()
    played.attempt(result("no", usage=told))
    played.attempt(result("no", usage=untold))

    assert played.kept.spent_usd == 0.5
    played.attempt(result('{"n": 1}', usage=told))
    assert played.told[-1]["usage"] == {"input_tokens": 30, "output_tokens": 0}
    played.check_whole()


def test_what_is_unknown_here_is_passed_on() -> None:
    played = Played()
    played.attempt(
        {"event_type": "_vendor/thought", "deep": True},
        result("no"),
        {"event_type": "log", "level": "info", "message": "x"},
    )
    played.attempt({"event_type": "_vendor/thought", "deep": True}, result('{"n": 1}', later="field"))

    assert [document["deep"] for document in played.told if document["event_type"] == "_vendor/thought"] == [True, True]
    assert played.told[-1]["later"] == "field"


def test_an_answer_that_was_cut_off_is_given_up() -> None:
    played = Played()
    played.attempt(result('{"n": ', stop_reason="max_tokens"))

    assert played.types == ["run_started", "session_bound", "failure"]
    assert played.told[-1]["error"]["type"] == "output_truncated"
    played.check_whole()


def test_data_that_the_executor_gave_by_itself_is_judged_too() -> None:
    played = Played()
    played.attempt(
        result("", result_text=None, result_data={"n": [1]}, output={"schema_source": "x", "retry_count": 0})
    )

    assert played.told[-1]["result_data"] == {"n": [1]}
    assert played.told[-1]["output"]["schema_source"] == "inline"


@pytest.mark.requirement("AOX-175")
@pytest.mark.parametrize(
    "between",
    [
        pytest.param([{"event_type": "_vendor/thought"}], id="vendor"),
        pytest.param(
            [
                {"event_type": "input_requested", "request_id": "r", "kind": "k", "title": "t", "schema": {}},
                {"event_type": "input_resolved", "request_id": "r", "outcome": "expired", "by": "timeout"},
            ],
            id="question",
        ),
        pytest.param([{**message("Who?"), "role": "user"}], id="user"),
        pytest.param([message("MARK")], id="the answer again"),
        pytest.param(USES_A_TOOL, id="tool"),
    ],
)
def test_nothing_that_comes_behind_an_answer_brings_it_out(between: list[dict[str, Any]]) -> None:
    played = Played()
    played.attempt(message("Let me look."), message("MARK"), *between, result("MARK"))

    assert "MARK" not in json.dumps(played.told)
    assert "Let me look." in json.dumps(played.told)


@pytest.mark.requirement("AOX-081")
def test_a_heartbeat_names_the_progress_of_the_run() -> None:
    beat = {"event_type": "heartbeat", "phase": "model", "last_progress_seq": 2}
    played = Played()
    played.attempt(beat, result("no"))
    played.attempt(beat, {"event_type": "log", "level": "info", "message": "x"}, beat, result('{"n": 1}'))

    beats = [(d["seq"], d["last_progress_seq"]) for d in played.told if d["event_type"] == "heartbeat"]
    assert beats == [(3, 2), (5, 4), (7, 4)]


def failure(error_type: str, **fields: Any) -> dict[str, Any]:
    error = {"type": error_type, "message": "m", "retryable": True, "side_effects": "none", "origin": "provider"}
    return {"event_type": "failure", "status": "failed", "error": error, **fields}


def test_a_later_failure_is_that_of_the_whole_run() -> None:
    played = Played()
    played.attempt(*USES_A_TOOL, {"event_type": "usage", "input_tokens": 100}, result("no"))
    played.attempt(failure("rate_limited", usage={"input_tokens": 1}))

    ended = played.told[-1]
    assert (ended["error"]["type"], ended["error"]["side_effects"]) == ("rate_limited", "possible")
    assert ended["usage"]["input_tokens"] == 101
    played.check_whole()


def test_a_refusal_to_go_on_is_no_refusal_of_the_run() -> None:
    played = Played()
    played.attempt(result("no"))
    played.attempt(failure("invalid_invocation"))

    error = played.told[-1]["error"]
    assert error["type"] == "protocol_violation"
    assert "refused it: invalid_invocation: m" in error["message"]


def test_text_that_is_given_as_data_is_not_opened() -> None:
    played = Played()
    played.attempt({**result(""), "result_text": None, "result_data": '{"n": 1}'})

    assert played.told[-1]["errors"] == ['$: "{\\"n\\": 1}" is not of type "object"']


def test_figures_of_earlier_attempts_stay_where_the_last_gives_none() -> None:
    played = Played()
    played.attempt(result("no", usage={"input_tokens": 7}))
    played.attempt(result('{"n": 1}'))

    assert played.told[-1]["usage"]["input_tokens"] == 7
