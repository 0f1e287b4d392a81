"""The simulator as an HTTP service: what it answers, counts and records."""

import http.client
import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from ao_model_simulator import ModelSimulator, Script, ScriptNotSatisfied, Verdict

TURN = {"model": "m", "max_tokens": 10, "messages": [{"role": "user", "content": "Hello?"}]}
STREAMED = TURN | {"stream": True}
WAIT_SECONDS = 100.0
"""Longer than anything here takes; a test that needs it has failed."""


def simulate(*answers: dict[str, Any], record_file: Path | None = None) -> ModelSimulator:
    return ModelSimulator(Script.from_answers(answers), record_file=record_file)


def connect(sim: ModelSimulator) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(urlsplit(sim.url).netloc, timeout=WAIT_SECONDS)


def ask(
    sim: ModelSimulator, method: str, path: str, body: object = None, headers: dict[str, str] | None = None
) -> tuple[int, dict[str, str], bytes]:
    connection = connect(sim)
    try:
        payload = None if body is None else json.dumps(body)
        connection.request(method, path, payload, headers or {})
        response = connection.getresponse()
        return response.status, {k.lower(): v for k, v in response.getheaders()}, response.read()
    finally:
        connection.close()


def post(sim: ModelSimulator, body: object = TURN) -> tuple[int, dict[str, str], bytes]:
    return ask(sim, "POST", "/v1/messages?beta=true", body)


def get_json(sim: ModelSimulator, path: str) -> Any:
    return json.loads(ask(sim, "GET", path)[2])


def test_one_connection_serves_many_turns_in_one_piece_or_as_a_stream() -> None:
    with simulate({"text": "Hello.", "repeat": 3}) as sim:
        connection = connect(sim)
        for body in (TURN, STREAMED, TURN):
            connection.request("POST", "/v1/messages", json.dumps(body))
            response = connection.getresponse()
            assert response.headers["transfer-encoding"] == ("chunked" if body is STREAMED else None)
            assert b"Hello." in response.read()
        connection.close()
        sim.require_satisfied()


def test_an_answer_of_several_megabytes_arrives_whole() -> None:
    with simulate({"text": "0123456789abcdef", "text_times": 200_000}) as sim:
        assert len(json.loads(post(sim)[2])["content"][0]["text"]) == 3_200_000


def test_the_model_is_the_answers_then_the_scripts_then_the_one_that_was_asked() -> None:
    script = Script.from_answers([{"text": "x", "model": "a"}, {"text": "x"}], model="b")
    with ModelSimulator(script) as sim:
        assert [json.loads(post(sim)[2])["model"] for _ in range(2)] == ["a", "b"]
    with simulate({"text": "x"}) as sim:
        assert json.loads(post(sim)[2])["model"] == "m"


def test_messages_of_different_simulators_have_different_ids() -> None:
    ids = []
    for _ in range(2):
        with simulate({"text": "x", "repeat": 2}) as sim:
            ids += [json.loads(post(sim)[2])["id"] for _ in range(2)]
    assert len(set(ids)) == 4


def test_a_request_beyond_the_script_is_an_error_that_says_so() -> None:
    with simulate({"text": "x"}, {"text": "y"}) as sim:
        post(sim)
        post(sim)
        status, _, body = post(sim)
        message = "model-sim: request 3 is not in the script (2 answers)"
        assert (status, json.loads(body)["error"]["message"]) == (400, message)
        assert [request.number for request in sim.unexpected] == [3]
        with pytest.raises(ScriptNotSatisfied, match=r"request 3 is not in the script \(2 answers\)"):
            sim.require_satisfied()


def test_a_mismatch_is_an_error_that_says_what_was_found() -> None:
    with simulate({"text": "x", "expect": {"last_user_equals": "Bye."}}) as sim:
        status, _, body = post(sim)
        problem = "request 1: answers[0].expect.last_user_equals: expected 'Bye.', found 'Hello?'"
        assert (status, json.loads(body)["error"]["message"]) == (400, f"model-sim: {problem}")
        assert sim.find_problems() == [problem]
        assert [request.answer_index for request in sim.mismatches] == [0]


def test_answers_that_nobody_asked_for_are_a_problem_only_when_strict() -> None:
    with simulate({"text": "x"}, {"text": "y"}) as sim:
        post(sim)
        assert sim.find_problems() == []
        assert sim.find_problems(strict=True) == ["1 of the script's answers were not asked for"]


def test_probes_and_token_counts_use_up_no_answer() -> None:
    with simulate({"text": "x"}) as sim:
        assert ask(sim, "HEAD", "/")[::2] == (200, b"")
        assert ask(sim, "GET", "/")[0] == 200
        assert ask(sim, "HEAD", "/api/hello")[0] == 200
        assert json.loads(ask(sim, "POST", "/v1/messages/count_tokens", TURN)[2])["input_tokens"] > 0
        assert get_json(sim, "/v1/models")["data"][0]["type"] == "model"
        assert sim.answers_left == 1
        assert {request.verdict for request in sim.all_requests} == {Verdict.SIDE}
        assert sim.requests == ()


@pytest.mark.parametrize(("method", "path"), [("GET", "/v1/messages"), ("POST", "/v1/complete")])
def test_what_the_api_does_not_know_is_not_found_and_unexpected(method: str, path: str) -> None:
    with simulate({"text": "x"}) as sim:
        assert ask(sim, method, path)[0] == 404
        assert sim.find_problems() == [f"no simulated API has {method} {path}"]


def test_a_body_may_come_in_chunks() -> None:
    body = json.dumps(TURN).encode()
    with simulate({"text": "x"}) as sim:
        connection = connect(sim)
        connection.request("POST", "/v1/messages", iter([body[:9], body[9:]]), encode_chunked=True)
        assert connection.getresponse().status == 200
        connection.close()
        assert sim.requests[0].body == TURN


def test_what_the_model_was_told_can_be_asked_in_python_and_over_http() -> None:
    with simulate({"text": "x"}) as sim:
        ask(
            sim,
            "POST",
            "/v1/messages",
            TURN | {"system": "Be kind.", "tools": [{"name": "Bash", "input_schema": {"type": "object"}}]},
        )
        (request,) = sim.requests
        assert (request.system_text, request.last_user_text) == ("Be kind.", "Hello?")
        assert (list(request.messages), request.tool_names) == (TURN["messages"], ["Bash"])
        (record,) = get_json(sim, "/_sim/requests")["requests"]
        assert record["body"]["system"] == "Be kind."
        assert (record["number"], record["verdict"], record["answer_index"]) == (1, "answered", 0)


def test_the_state_tells_what_is_left_and_what_was_wrong() -> None:
    with simulate({"text": "x"}, {"text": "y", "expect": {"model": "n"}}) as sim:
        post(sim)
        post(sim)
        ask(sim, "GET", "/nowhere")
        state = get_json(sim, "/_sim/state")
    assert (state["answers_given"], state["answers_left"], state["requests"]) == (1, 1, 3)
    assert [record["number"] for record in state["mismatches"]] == [2]
    assert [record["number"] for record in state["unexpected"]] == [3]


def test_each_request_is_one_line_of_the_record_file_without_credentials(tmp_path: Path) -> None:
    record_file = tmp_path / "requests.ndjson"
    headers = {"X-Api-Key": "sk-1", "Authorization": "Bearer sk-2", "X-Goog-Api-Key": "sk-3", "X-Other": "kept"}
    for _ in range(2):
        with simulate({"text": "x"}, record_file=record_file) as sim:
            ask(sim, "POST", "/v1/messages?key=sk-4&x=1", TURN, headers)
            ask(sim, "POST", "/v1/messages", TURN)
    shown = [sim.requests[0].headers[name] for name in ("x-api-key", "authorization", "x-goog-api-key", "x-other")]
    assert shown == ["[redacted]", "[redacted]", "[redacted]", "kept"]
    records = [json.loads(line) for line in record_file.read_text().splitlines()]
    assert [record["verdict"] for record in records] == ["answered", "unexpected"] * 2
    assert records[0]["path"] == "/v1/messages?key=[redacted]&x=1"
    assert "sk-" not in record_file.read_text()


def test_another_process_can_wait_for_the_model_to_be_asked() -> None:
    with simulate({"text": "x"}) as sim:
        assert get_json(sim, "/_sim/requests?at_least=1&timeout_seconds=0.01")["requests"] == []
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(get_json, sim, "/_sim/requests?at_least=1&timeout_seconds=5")
            post(sim)
            assert len(waiting.result(WAIT_SECONDS)["requests"]) == 1
        assert ask(sim, "GET", "/_sim/requests?at_least=many")[0] == 400


@pytest.mark.parametrize("body", [TURN, STREAMED], ids=["body", "stream"])
def test_what_is_cut_ends_before_its_end(body: object) -> None:
    with simulate({"text": "Hello.", "cut": True}) as sim, pytest.raises(http.client.IncompleteRead):
        post(sim, body)


def test_a_delay_is_waited_out() -> None:
    with simulate({"text": "Hello.", "delay_seconds": 0.05, "chunk_delay_seconds": 0.05}) as sim:
        began = time.monotonic()
        assert b"message_stop" in post(sim, STREAMED)[2]
        assert time.monotonic() - began >= 0.1


def test_an_unknown_kind_is_refused_with_the_known_ones() -> None:
    with simulate() as sim, pytest.raises(ValueError, match="called 'ollama'; choose one of anthropic, openai-chat"):
        sim.base_url("ollama")


def test_one_script_serves_all_apis_in_the_order_of_arrival() -> None:
    paths = ["/v1/messages", "/v1/chat/completions", "/v1/responses", "/v1beta/models/m:generateContent"]
    body = TURN | {"input": "Hello?", "contents": [{"parts": [{"text": "Hello?"}]}]}
    answers = [{"text": f"answer {n}", "expect": {"last_user_equals": "Hello?"}} for n in range(4)]
    with simulate(*answers) as sim:
        for number, path in enumerate(paths):
            assert f"answer {number}".encode() in ask(sim, "POST", path, body, {"traceparent": "00-a"})[2]
        sim.require_satisfied()
        assert {request.headers["traceparent"] for request in sim.requests} == {"00-a"}
        kinds = [record["kind"] for record in get_json(sim, "/_sim/requests?at_least=4")["requests"]]
    assert kinds == ["anthropic", "openai-chat", "openai-responses", "gemini"]


FACES = {
    "/v1/messages": {
        "type": "error",
        "error": {"type": "invalid_request_error", "message": "The request body is not valid JSON"},
    },
    "/v1/messages/count_tokens": {
        "type": "error",
        "error": {"type": "invalid_request_error", "message": "The request body is not valid JSON"},
    },
    "/v1/chat/completions": {
        "error": {
            "message": "We could not parse the JSON body of your request.",
            "type": "invalid_request_error",
            "param": None,
            "code": None,
        }
    },
    "/v1/responses": {
        "error": {
            "message": "We could not parse the JSON body of your request.",
            "type": "invalid_request_error",
            "param": None,
            "code": None,
        }
    },
    "/v1beta/models/m:generateContent": {
        "error": {"code": 400, "message": "Invalid JSON payload received.", "status": "INVALID_ARGUMENT"}
    },
}
UNREADABLE = {
    "200,000 levels": b'{"a":' + b"[" * 200_000,
    "closed": b"[" * 200_000 + b"]" * 200_000,
    "900 levels": b'{"messages":' + b"[" * 900 + b"]" * 900 + b"}",
    "5,000 digits": b'{"max_tokens":' + b"9" * 5000 + b"}",
    "no JSON": b"max_tokens=1",
}


@pytest.mark.parametrize("path", FACES)
@pytest.mark.parametrize("body", UNREADABLE.values(), ids=UNREADABLE)
def test_a_body_that_no_service_can_parse_gets_the_services_400(path: str, body: bytes) -> None:
    with simulate({"text": "Hi."}) as sim:
        connection = connect(sim)
        connection.request("POST", path, body)
        response = connection.getresponse()
        told = response.status, json.loads(response.read())
        connection.request("GET", "/_sim/requests")  # the connection, and the record of requests, go on
        recorded = json.loads(connection.getresponse().read())
        connection.close()

        assert sim.answers_left == 1
        assert sim.find_problems() == ["the body of a request is no valid JSON"]
    assert told == (400, FACES[path])
    assert len(recorded["requests"]) == 1


def test_arguments_of_a_tool_that_nest_too_deep_stay_a_text() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "[" * 200_000}}
    messages = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": ""},
    ]
    with simulate({"text": "Hi."}) as sim:
        status, _, _ = ask(sim, "POST", "/v1/chat/completions", {"model": "m", "messages": messages})
        assert (status, sim.requests[0].messages[0]["content"][0]["input"]) == (200, "[" * 200_000)
