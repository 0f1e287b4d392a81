"""How a request becomes a session and a run, and what a repetition of it asks for."""

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from ao_protocol.contracts import SchemaSource
from ao_protocol.wire import JsonObject
from ao_runner.blueprints.loading import LoadedBlueprint, understand_blueprint
from ao_runner.discovery import Executor
from ao_runner.runs.acceptance import demand_on
from ao_runner.runs.repetition import repetition_of
from ao_runner.runs.submission import (
    NewRun,
    Reception,
    RefusalReason,
    RunRefused,
    accept,
    blueprint_of,
)
from ao_runner.store.records import RunTerms, Session

ECHO = Executor("echo", Path("/bin/ao-echo-exec"))
SCHEMA: JsonObject = {"type": "object", "required": ["n"]}
HERE = Reception({}, Path("/nowhere"), "/project")


def agent(**more: Any) -> LoadedBlueprint:
    return understand_blueprint(Path("/agents/helper.yaml"), {"name": "helper", **more})


def new_run(**more: Any) -> NewRun:
    return NewRun(**{"parameters": {"prompt": "hi"}, "blueprint": agent(), "executor": ECHO, **more})


def test_a_session_whose_servers_are_known_to_a_worker_only_has_a_valid_blueprint() -> None:
    servers: JsonObject = {"tools": {"type": "http", "url": "${runner.orchestrator_mcp_url}"}}
    session = Session("ses_1", "2026-01-01T00:00:00Z", "echo", "echo", "/srv", {"name": "boss", "mcp_servers": servers})
    assert blueprint_of(session).name == "boss"


@pytest.mark.parametrize(
    ("more", "reason", "path"),
    [
        ({"parameters": {}}, RefusalReason.PARAMETERS, "$"),
        ({"parameters": {"prompt": ""}}, RefusalReason.PARAMETERS, "$.prompt"),
        ({"timeout_seconds": -1.0}, RefusalReason.FIELD, "$.timeout_seconds"),
        ({"timeout_seconds": float("inf")}, RefusalReason.FIELD, "$.timeout_seconds"),
        ({"parameters": ["hi"]}, RefusalReason.FIELD, "$.parameters"),
        ({"metadata": "trace"}, RefusalReason.FIELD, "$.metadata"),
        ({"requires": ("gpu", "a b")}, RefusalReason.FIELD, "$.requires[1]"),
        ({"labels": {"team": "x" * 201}}, RefusalReason.FIELD, "$.labels.team"),
        ({"labels": {"team": 7}}, RefusalReason.FIELD, "$.labels.team"),
        ({"labels": {f"l{n}": "x" for n in range(21)}}, RefusalReason.FIELD, "$.labels"),
        ({"session_id": "\u20ac" * 400}, RefusalReason.FIELD, "$.session_id"),
        ({"output_schema": SCHEMA, "output_schema_name": "x"}, RefusalReason.TWO_SCHEMAS, "$.output_schema_name"),
        ({"output_schema_name": "x"}, RefusalReason.NO_STORE, "$.output_schema_name"),
        ({"output_schema_options": {"max_retries": 1}}, RefusalReason.CONTRACT, "$.output_schema_options"),
        (
            {"output_schema": SCHEMA, "output_schema_options": {"n": 1}},
            RefusalReason.OPTIONS,
            "$.output_schema_options.n",
        ),
        ({"output_schema": SCHEMA, "no_schema": True}, RefusalReason.CONTRACT, "$.no_schema"),
        ({"blueprint": agent(output_schema=SCHEMA), "no_schema": True}, RefusalReason.CONTRACT, "$.no_schema"),
        ({"blueprint": agent(output_schema=SCHEMA), "output_schema": {}}, RefusalReason.CONTRACT, "$.output_schema"),
    ],
)
def test_a_refusal_names_its_reason_and_the_place_in_the_request(
    more: dict[str, Any], reason: RefusalReason, path: str
) -> None:
    with pytest.raises(RunRefused) as caught:
        accept(new_run(**more), HERE)
    assert (caught.value.reason, [problem.path for problem in caught.value.problems]) == (reason, [path])


def test_variables_of_the_place_are_defaults_of_the_stored_options() -> None:
    here = replace(HERE, environ={"SCHEMA_ENFORCEMENT_MAX_RETRIES": "0"})
    accepted = accept(new_run(output_schema=SCHEMA), here)
    assert accepted.run.contract == {"source": "inline", "schema": SCHEMA, "options": {"max_retries": 0}}
    assert accepted.attempts == 1
    demand = demand_on(accepted.run, agent().blueprint)
    assert (demand.schema, demand.source, demand.options) == (SCHEMA, SchemaSource.INLINE, {"max_retries": 0})


TERMS: dict[str, Any] = {
    "profile": "reviewer",
    "timeout_seconds": 9.0,
    "metadata": {"traceparent": "t"},
    "labels": {"team": "docs"},
    "attachments": ({"name": "a", "media_type": "text/plain", "data": "YQ=="},),
    "model_script": "{}",
    "requires": ("gpu",),
    "priority": 3,
    "not_before": "2999-01-01T00:00:00.000Z",
    "requeue": True,
    "parent_session_id": "ses_parent",
    "execution_mode": "async_poll",
}


def test_all_terms_of_a_request_are_stored_and_asked_for_again() -> None:
    assert TERMS.keys() == {one.name for one in fields(RunTerms)}
    accepted = accept(new_run(**TERMS), HERE)
    assert {name: getattr(accepted.run, name) for name in TERMS} == TERMS
    again = repetition_of(accepted.run, accepted.session)
    assert {name: getattr(again, name) for name in TERMS} == TERMS | {"not_before": None}


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"output_schema": SCHEMA, "output_schema_options": {"strategy": "prompt"}},
        {"no_schema": True, "keep_rejected": False},
        {"keep_rejected": False},
    ],
)
def test_a_repetition_asks_for_the_same_answer_of_the_same_agent(answer: dict[str, Any]) -> None:
    asked = new_run(**answer, executor_config={"model": "m"}, project_dir="/elsewhere")
    first = accept(asked, HERE)
    again = accept(repetition_of(first.run, first.session), HERE)
    assert again.run.contract == first.run.contract
    kept = ("blueprint", "executor_config", "project_dir", "is_simulated")
    assert {name: getattr(again.session, name) for name in kept} == {
        name: getattr(first.session, name) for name in kept
    }
    assert again.run.run_id != first.run.run_id
    assert again.session.session_id != first.session.session_id
