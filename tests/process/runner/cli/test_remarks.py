"""Misspelled fields of blueprints and settings: named on stderr, with the nearest known name."""

import json
import re
from typing import Any

import pytest

from ao_runner.known_settings import unknown_settings
from tests.process.runner.cli.calling import Ao, miniature

BLUEPRINT = {
    "name": "agent",
    "sytem_prompt": "x",
    "x-team": 1,
    "metadata": {"anything": 1},
    "output_schema": {"propertis": {}},
    "mcp_servers": {
        "a.b": {"command": "true", "requird": False, "required": False, "env": {"ANY": "1"}},
        "far": {"type": "http", "url": "http://localhost:1", "header": {}, "required": False},
    },
}
FIELDS = [
    "! agent.json: $.sytem_prompt: unknown field, ignored; did you mean 'system_prompt'?",
    "! agent.json: $.mcp_servers[\"a.b\"].requird: unknown field, ignored; did you mean 'required'?",
    "! agent.json: $.mcp_servers.far.header: unknown field, ignored; did you mean 'headers'?",
    "! agent.json: $.output_schema.propertis: unknown keyword, ignored; did you mean 'properties'?",
]
SETTINGS = [
    "! mine: $.config.comands_dir: unknown setting; did you mean 'commands_dir'?",
    "! config.json: $.timeout_second: unknown setting; did you mean 'timeout_seconds'?",
]


def warnings(stderr: str) -> list[str]:
    return [line for line in stderr.splitlines() if line.startswith("! ")]


@pytest.fixture
def misspelled(ao: Ao) -> Ao:
    """Return an `ao` with a blueprint, a profile and a configuration that hold misspelled names."""
    ao.write("agent.json", json.dumps(BLUEPRINT))
    config = {"comands_dir": "x", "env": {"ANY_NAME": "1"}}
    ao.write("mine.json", json.dumps({"executor": "procedural", "config": config}))
    ao.write("config.json", json.dumps({"timeout_second": 1, "x-note": 1}))
    return ao


@pytest.mark.parametrize("options", [["run"], ["run", "--json"], ["run", "--events"], ["submit"], ["submit", "--json"]])
def test_every_misspelled_name_is_told_once(options: list[str], misspelled: Ao) -> None:
    verb, *style = options
    called = misspelled(verb, "agent.json", "-p", "x", "--profile", "mine.json", "--config", "config.json", *style)

    assert warnings(called.stderr) == FIELDS + SETTINGS
    assert not re.search("unknown (field|keyword|setting)", called.stdout)


def test_misspelled_keywords_of_a_callers_schema_are_told(ao: Ao) -> None:
    ao.write("agent.yaml", "name: agent\n")
    ao.write("schema.yaml", "requird: [a]\nproperties: {a: {minItem: 1}}\n")
    told = [
        "! schema.yaml: $.requird: unknown keyword, ignored; did you mean 'required'?",
        "! schema.yaml: $.properties.a.minItem: unknown keyword, ignored; did you mean 'minItems'?",
    ]
    assert warnings(ao("submit", "agent.yaml", "-p", "x", "--output-schema", "schema.yaml").stderr) == told


@pytest.mark.parametrize("verb", ["run", "submit"])
def test_a_parameter_that_no_model_would_read_is_told(verb: str, ao: Ao) -> None:
    ao.write("agent.yaml", "name: agent\n")
    called = ao(verb, "agent.yaml", "-p", "x", "--param", "tpoic=y", "--profile", "echo")

    told = "! parameters: $.tpoic: ignored; an agent without a parameters_schema takes only 'prompt'"
    assert (called.exit_code, warnings(called.stderr)) == (0, [told])


def test_a_profile_is_usable_and_its_misspelled_settings_are_told(misspelled: Ao) -> None:
    called = misspelled("executors", "profile", "mine.json")

    assert (called.exit_code, called.document["name"]) == (0, "mine")
    assert warnings(called.stderr) == SETTINGS[:1]


def test_an_executor_that_describes_nothing_is_no_reason_to_refuse_a_submission(misspelled: Ao) -> None:
    misspelled.write("gone.json", json.dumps({"executor": miniature("no_such"), "config": {"a": 1}}))
    called = misspelled("submit", "agent.yaml", "-p", "x", "--profile", "gone.json")

    assert (called.exit_code, warnings(called.stderr)) == (0, [])


SERVER = {"properties": {"url": {}}, "additionalProperties": False}


@pytest.mark.parametrize(
    ("schema", "config", "unknown"),
    [
        ({"properties": {"Model": {}}}, {"model": 1}, ["$.model: unknown setting; did you mean 'Model'?"]),
        ({"properties": {}}, {"model": 1}, ["$.model: unknown setting"]),
        ({"type": "object"}, {"model": 1}, []),
        ({"additionalProperties": False}, {"model": 1}, ["$.model: unknown setting"]),
        ({"properties": {"model": {}}, "additionalProperties": True}, {"modle": 1}, []),
        ({"properties": {"model": {}}, "patternProperties": {"^v_": {}}}, {"v_1": 1}, []),
        ({"properties": {"in": {"type": "object"}}}, {"in": {"any": 1}}, []),
        (
            {"properties": {"list": {"items": SERVER}}},
            {"list": [{"url": 1}, {"ulr": 1}]},
            ["$.list[1].ulr: unknown setting; did you mean 'url'?"],
        ),
        ({"properties": {"e": {"additionalProperties": SERVER}}}, {"e": {"a": {"b": 1}}}, ["$.e.a.b: unknown setting"]),
        ({"$ref": "#/definitions/s", "definitions": {"s": SERVER}}, {"x-a": 1, "b": 1}, ["$.b: unknown setting"]),
        ({"anyOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]}, {"a": 1, "b": 1}, []),
    ],
)
def test_a_setting_is_unknown_where_the_schema_names_others(
    schema: dict[str, Any], config: dict[str, Any], unknown: list[str]
) -> None:
    assert unknown_settings(schema, config) == unknown


def test_the_list_of_executors_names_misspelled_settings_of_profiles(misspelled: Ao) -> None:
    (misspelled.folder / "ao-home" / "profiles").mkdir(parents=True)
    (misspelled.folder / "mine.json").rename(misspelled.folder / "ao-home" / "profiles" / "mine.json")

    listed = misspelled("executors")
    (profile,) = [one for one in misspelled("executors", "--json").document if one["kind"] == "profile"]

    assert warnings(listed.stderr) == SETTINGS[:1]
    assert (profile["problem"], len(profile["remarks"])) == (None, 1)


def test_misspelled_fields_of_a_blueprint_on_a_line_are_told(ao: Ao) -> None:
    blueprint = {"name": "agent", "sytem_prompt": "x", "parameters_schema": {"requird": []}}
    line = json.dumps({"blueprint": blueprint, "prompt": "hello", "output_schema": {"minItem": 1}})

    called = ao("worker", "--coordinator", "stdout", "--profile", "echo", stdin=line + "\n")

    assert called.exit_code == 0
    for told in (
        "$.blueprint.sytem_prompt: unknown field, ignored; did you mean 'system_prompt'?",
        "$.blueprint.parameters_schema.requird: unknown keyword, ignored; did you mean 'required'?",
        "$.output_schema.minItem: unknown keyword, ignored; did you mean 'minItems'?",
    ):
        assert told in called.stderr


def test_a_very_long_schema_on_a_line_is_passed_over_and_told_by_the_check(ao: Ao) -> None:
    blueprint = {"name": "agent", "output_schema": {"minItem": 1, "description": "x" * 65_536}}
    ao.write("long.json", json.dumps(blueprint))
    line = json.dumps({"blueprint": "long.json", "prompt": "hello"})

    assert "minItem" not in ao("worker", "--coordinator", "stdout", "--profile", "echo", stdin=line + "\n").stderr
    assert "minItem" in ao("blueprint", "check", "long.json").stderr
