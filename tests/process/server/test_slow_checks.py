"""Requests that take long to check or to read: they are refused, and meanwhile the server answers others."""

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.process.server.conftest import Serve, Served
from tests.process.server.test_inputs import Asking, runs_that_ask
from tests.unit.protocol.contracts.test_slow_checks import LOOKING_AHEAD, conditions

MAX_ANSWER_SECONDS = 10.0
"""Twenty times the promise, for a busy machine. Without a bound, the slowest took 27 to 49 s."""
PATTERN = {"type": "object", "properties": {"z": {"pattern": LOOKING_AHEAD}}}


@pytest.fixture
def server(share: Serve) -> Served:
    return share("--no-worker")


@pytest.fixture
def asking(server: Served) -> Iterator[Asking]:
    with runs_that_ask(server.home) as run:
        yield run


def answered_beside(server: Served, *requests: Callable[[], httpx.Response]) -> list[httpx.Response]:
    """Return the answers to requests, during which the server answers others in time."""
    with ThreadPoolExecutor(len(requests)) as sending:
        answers = [sending.submit(request) for request in requests]
        while not all(answer.done() for answer in answers):
            began_at = time.monotonic()
            server.client.get("/health").raise_for_status()
            server.client.get("/runs?limit=1").raise_for_status()
            assert time.monotonic() - began_at < MAX_ANSWER_SECONDS
            time.sleep(0.02)
        return [answer.result() for answer in answers]


def posted(server: Served, path: str, body: Any) -> Callable[[], httpx.Response]:
    content = json.dumps(body).encode()
    headers = {"content-type": "application/json"}
    return lambda: httpx.post(f"{server.url}{path}", content=content, headers=headers, timeout=100, trust_env=False)


def started(server: Served, agent: str, parameters: dict[str, Any]) -> Callable[[], httpx.Response]:
    return posted(server, "/runs", {"type": "start_session", "agent_name": agent, "parameters": parameters})


def test_a_value_that_a_pattern_takes_too_long_to_match_is_refused(server: Served) -> None:
    server.add_agent({"name": "slow-pattern", "system_prompt": "x", "parameters_schema": PATTERN})
    page = {"name": "x", "output_schema": json.dumps(PATTERN), "output_sample": json.dumps({"z": "a" * 400_000})}

    run, shown = answered_beside(
        server,
        started(server, "slow-pattern", {"z": "a" * 1_000_000}),
        lambda: httpx.post(f"{server.url}/ui/schemas/_check", data=page, timeout=100, trust_env=False),
    )

    assert run.status_code == 400
    assert run.json()["detail"]["validation_errors"] == [
        {
            "path": "$",
            "message": "could not be checked against its schema: it took longer than 10 s; give a shorter value, or"
            " simplify the patterns and lists of the schema",
        }
    ]
    assert "could not be checked against its schema" in shown.text


def test_a_value_that_is_slow_to_check_is_accepted_if_it_fits_in_time(server: Served) -> None:
    server.add_agent({"name": "thorough", "system_prompt": "x", "parameters_schema": PATTERN})

    (answer,) = answered_beside(server, started(server, "thorough", {"z": "ba" * 5_000 + "ab"}))

    assert answer.status_code == 201


@pytest.mark.parametrize(
    ("answer", "status"), [("ba" * 5_000 + "ab", 200), ("b" * 10_000, 422)], ids=["fits", "does not"]
)
def test_an_answer_of_a_person_that_is_slow_to_check_is_checked(
    server: Served, asking: Asking, answer: str, status: int
) -> None:
    asking("run_1", schema={"pattern": LOOKING_AHEAD}, tool_input=None)

    (answered,) = answered_beside(server, posted(server, "/runs/run_1/inputs/call/1", {"value": answer}))

    assert answered.status_code == status, answered.text


def test_a_chain_of_two_thousand_conditions_is_explained_as_far_as_it_is_quick(server: Served) -> None:
    rules = conditions(2000)
    schema = {"definitions": rules["definitions"], "type": "object", "properties": {"w": {"allOf": rules["allOf"]}}}
    server.add_agent({"name": "chain", "system_prompt": "x", "parameters_schema": schema})

    (answer,) = answered_beside(server, started(server, "chain", {"w": []}))

    assert answer.status_code == 400
    assert "for reasons that take too many steps to find" in answer.json()["detail"]["validation_errors"][-1]["message"]


@pytest.mark.parametrize(
    "items",
    [b"[],", b'{"a":1},', b'"\\"",', b'"\\\\",'],
    ids=["lists", "objects", "strings with a quote", "strings with a backslash"],
)
def test_a_body_with_millions_of_values_is_refused_before_it_is_parsed(server: Served, items: bytes) -> None:
    body = b'{"type": "start_session", "parameters": {"prompt": "x", "v": [' + items * 3_000_000 + b"1]}}"

    (answer,) = answered_beside(
        server, lambda: httpx.post(f"{server.url}/runs", content=body[:32_000_000], timeout=100)
    )

    assert answer.status_code == 413
    assert answer.json()["detail"] == "the body contains more than 250000 values; put large data into files"


def test_a_second_content_type_does_not_hide_the_values_of_a_body(server: Served) -> None:
    kinds = [("content-type", "application/json"), ("content-type", "application/x-www-form-urlencoded")]

    answer = httpx.post(f"{server.url}/runs", content=b"[" + b"[]," * 300_000 + b"1]", headers=kinds, timeout=100)

    assert answer.status_code == 413


def in_pieces(content: bytes) -> Iterator[bytes]:
    for start in range(0, len(content), 9_973):
        yield content[start : start + 9_973]


def test_the_characters_of_a_text_are_no_values_however_its_body_arrives(server: Served) -> None:
    prompt = '[{,"\\' * 200_000
    content = json.dumps({"type": "start_session", "parameters": {"prompt": prompt}}).encode()

    answer = httpx.post(
        f"{server.url}/runs", content=in_pieces(content), headers={"content-type": "application/json"}, timeout=100
    )

    assert answer.status_code == 201


def test_a_body_in_another_encoding_than_utf_8_is_refused(server: Served) -> None:
    content = json.dumps({"type": "start_session", "parameters": {"prompt": "\u2200"}}).encode("utf-16-le")

    answer = server.client.post("/runs", content=content, headers={"content-type": "application/json"})

    assert answer.status_code == 422
    assert answer.json()["detail"][0]["msg"].startswith("line 1, column 2: ")
