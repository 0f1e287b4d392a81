"""What blueprints leave to the runner, and what it refuses to fill in."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from ao_protocol.documents import Blueprint
from ao_protocol.wire import JsonObject
from ao_runner.blueprints.placeholders import (
    MAX_FILLED_CHARACTERS,
    MAX_PROBLEMS,
    Scopes,
    UnresolvedPlaceholders,
    fill_runner_values,
    placeholder_problems,
    resolve_placeholders,
    with_stand_ins,
)

SCOPES = Scopes(
    runner={"orchestrator_mcp_url": "http://127.0.0.1:9/mcp", "name": "r1"},
    params={"topic": "tea", "max_words": 500, "tags": ["a", "ü"], "deep": {"x": None}, "yes": True},
    env={"REGION": "eu", "TRACKER_TOKEN": "s3cr3t-value"},
    runtime={"session_id": "ses_1", "run_id": "run_1", "project_dir": "/p"},
    secrets={"TRACKER_TOKEN"},
)


def test_a_blueprint_that_its_coordinator_resolved_gets_values_of_the_runner_and_nothing_else() -> None:
    document: JsonObject = {
        "system_prompt": "Say ${params.topic} or $${env.KEY}.",
        "mcp_servers": {"desk": {"url": "${runner.url}/x", "headers": {"A": "${env.KEY}", "B": "${runner.unknown}"}}},
        "tags": ["${runner.url}", 1],
    }
    assert fill_runner_values(document, {"url": "http://desk"}) == {
        "system_prompt": "Say ${params.topic} or $${env.KEY}.",
        "mcp_servers": {"desk": {"url": "http://desk/x", "headers": {"A": "${env.KEY}", "B": "${runner.unknown}"}}},
        "tags": ["http://desk", 1],
    }


def test_every_text_of_a_blueprint_is_filled_in_and_its_schemas_are_not() -> None:
    schema: JsonObject = {"type": "string", "pattern": "^${env.NOT_THIS}$"}
    resolved = resolve_placeholders(
        {
            "name": "a",
            "description": "for ${env.REGION}",
            "system_prompt": "Session ${runtime.session_id}: ${params.topic}, ${params.topic}.",
            "mcp_servers": {
                "${key}": {"type": "http", "url": "${runner.orchestrator_mcp_url}"},
                "files": {"command": "files", "args": ["--root=${runtime.project_dir}", "${runtime.run_id}"]},
            },
            "x_vendor": [{"deep": ["${runner.name}", 7, None, True]}],
            "parameters_schema": schema,
            "output_schema": schema,
            "default_output_schema": schema,
        },
        SCOPES,
    )

    assert resolved == {
        "name": "a",
        "description": "for eu",
        "system_prompt": "Session ses_1: tea, tea.",
        "mcp_servers": {
            "${key}": {"type": "http", "url": "http://127.0.0.1:9/mcp"},
            "files": {"command": "files", "args": ["--root=/p", "run_1"]},
        },
        "x_vendor": [{"deep": ["r1", 7, None, True]}],
        "parameters_schema": schema,
        "output_schema": schema,
        "default_output_schema": schema,
    }


VALUES = {
    "a number in a sentence": ("x_vendor", "at most ${params.max_words}", "at most 500"),
    "a list in a sentence": ("x_vendor", "tags: ${params.tags}", 'tags: ["a", "ü"]'),
    "a number by itself": ("x_vendor", "${params.max_words}", 500),
    "an object by itself": ("x_vendor", "${params.deep}", {"x": None}),
    "a boolean by itself where a blueprint wants text": ("system_prompt", "${params.yes}", "true"),
    "an escaped one": ("system_prompt", "$${params.topic} costs $5, $$", "${params.topic} costs $5, $$"),
    "one after a dollar": ("system_prompt", "$$ ${params.topic}", "$$ tea"),
}


@pytest.mark.parametrize("name", VALUES)
def test_a_value_becomes_text_or_stays_what_it_is(name: str) -> None:
    field, text, expected = VALUES[name]

    assert resolve_placeholders({field: text}, SCOPES) == {field: expected}


@given(st.text(alphabet="$${}.aparms x"))
def test_what_a_value_holds_is_never_filled_in(value: str) -> None:
    scopes = Scopes(params={"x": value, "a": "never"})

    assert resolve_placeholders({"system_prompt": "<${params.x}${params.x}>"}, scopes) == {
        "system_prompt": f"<{value}{value}>"
    }


@given(st.lists(st.sampled_from(["${params.", "${env.x}", "$", "{", "}", "a"])).map("".join))
def test_every_text_can_be_written(text: str) -> None:
    escaped = re.sub(r"\$\{(?=(params|env)\.)", "$${", text)

    assert resolve_placeholders({"system_prompt": escaped}, Scopes()) == {"system_prompt": text}


@pytest.mark.parametrize(
    "text", ["${HOME}", "a ${} b", "${a b}", "$${VAR}", "`${user.name}`", "${x", "${process.env.K}"]
)
def test_what_others_write_in_such_a_form_is_left_alone(text: str) -> None:
    assert resolve_placeholders({"system_prompt": text}, SCOPES) == {"system_prompt": text}


REFUSED: dict[str, tuple[JsonObject, str]] = {
    "an unknown name": (
        {"mcp_servers": {"search": {"url": "${runner.orchestrator_mcp_ulr}"}}},
        "$.mcp_servers.search.url: '${runner.orchestrator_mcp_ulr}': runner has no such name; available: "
        "orchestrator_mcp_url, name. Did you mean 'orchestrator_mcp_url'?",
    ),
    "an unknown scope": (
        {"x": ["${parms.topic}"]},
        "$.x[0]: '${parms.topic}': unknown scope; available: runner, params, env, runtime. Did you mean 'params'?",
    ),
    "a variable that the host does not show": (
        {"system_prompt": "${env.HOME}"},
        "$.system_prompt: '${env.HOME}': env has no such name; available: REGION, TRACKER_TOKEN",
    ),
    "no name": ({"system_prompt": "${params.}"}, "expected ${SCOPE.NAME} with one of the scopes runner, params, env, "),
    "a blank": ({"system_prompt": "${params.a b}"}, "$.system_prompt: '${params.a b}' is not a placeholder"),
    "no end": ({"system_prompt": "cost ${params.topic"}, "'${params.topic' is not closed by }; write $${ for a"),
    "one in another": ({"system_prompt": "${params.${runner.name}}"}, "'${params.${runner.name}}' is not closed"),
    "a parameter for a program": (
        {"command": "run ${params.topic}"},
        "$.command: '${params.topic}': a parameter may not say which program is started",
    ),
    "a parameter for a server's program": ({"mcp_servers": {"a": {"command": "${params.topic}"}}}, "may not say which"),
    "a secret in a prompt": (
        {"system_prompt": "use ${env.TRACKER_TOKEN}"},
        "$.system_prompt: '${env.TRACKER_TOKEN}' is a secret; it may stand only in the env or headers of an MCP server",
    ),
    "a secret in an argument": ({"mcp_servers": {"a": {"args": ["${env.TRACKER_TOKEN}"]}}}, "is a secret"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_filled_in_is_told_with_its_place(name: str) -> None:
    blueprint, words = REFUSED[name]

    with pytest.raises(UnresolvedPlaceholders) as caught:
        resolve_placeholders(blueprint, SCOPES)

    assert words in str(caught.value)
    assert "s3cr3t" not in str(caught.value)


def test_a_secret_reaches_the_environment_and_the_headers_of_an_mcp_server() -> None:
    servers: JsonObject = {
        "a": {"command": "x", "env": {"TOKEN": "${env.TRACKER_TOKEN}"}},
        "b": {"type": "http", "url": "https://b.example", "headers": {"Authorization": "Bearer ${env.TRACKER_TOKEN}"}},
    }

    resolved = resolve_placeholders({"mcp_servers": servers}, SCOPES)

    assert resolved["mcp_servers"] == {
        "a": {"command": "x", "env": {"TOKEN": "s3cr3t-value"}},
        "b": {"type": "http", "url": "https://b.example", "headers": {"Authorization": "Bearer s3cr3t-value"}},
    }


def test_everything_that_is_wrong_is_told_at_once_up_to_a_limit() -> None:
    with pytest.raises(UnresolvedPlaceholders) as caught:
        resolve_placeholders({"system_prompt": "${params." * 10_000, "description": "${params.nobody}"}, SCOPES)

    assert len(caught.value.problems) == MAX_PROBLEMS


def test_a_large_blueprint_is_filled_in() -> None:
    resolved = resolve_placeholders({"system_prompt": "${params.topic}".ljust(100) * 10_000}, SCOPES)

    assert resolved == {"system_prompt": ("tea".ljust(3 + 100 - len("${params.topic}"))) * 10_000}


def test_values_that_come_to_more_than_an_invocation_carries_are_refused() -> None:
    half = "x" * (MAX_FILLED_CHARACTERS // 2)

    with pytest.raises(UnresolvedPlaceholders, match=r"\$\.system_prompt: the values come to more than 16777216 char"):
        resolve_placeholders({"system_prompt": "${params.x}" * 3}, Scopes(params={"x": half}))


def test_a_blueprint_that_is_nested_too_deeply_is_refused() -> None:
    deep: JsonValue = "${params.topic}"
    for _ in range(500):
        deep = [deep]

    with pytest.raises(UnresolvedPlaceholders, match="nested deeper than 64 levels"):
        resolve_placeholders({"x": deep}, SCOPES)


CLOSED: JsonObject = {"type": "object", "properties": {"topic": {}}, "additionalProperties": False}
CHECKED: dict[str, tuple[JsonObject, list[str]]] = {
    "what only a run knows": ({"system_prompt": "${params.any} ${runner.any} ${env.ANY} ${runtime.run_id}"}, []),
    "a name of the runtime": (
        {"x": "${runtime.sessionid}"},
        ["$.x: '${runtime.sessionid}': runtime has no such name; available: session_id, run_id, project_dir. "
         "Did you mean 'session_id'?"],
    ),
    "a parameter that the schema excludes": (
        {"parameters_schema": CLOSED, "x": "${params.topic} ${params.tropic}"},
        ["$.x: '${params.tropic}': params has no such name; available: topic. Did you mean 'topic'?"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CHECKED)
def test_before_any_run_it_is_known_what_none_could_fill_in(name: str) -> None:
    blueprint, problems = CHECKED[name]

    assert placeholder_problems(blueprint) == problems


def test_the_form_of_a_blueprint_can_be_checked_before_its_placeholders_are_filled_in() -> None:
    server: JsonObject = {"type": "http", "url": "${runner.orchestrator_mcp_url}"}

    checked = Blueprint.model_validate(with_stand_ins({"name": "a", "mcp_servers": {"o": server}}))

    assert checked.name == "a"
