"""`--set` and the options of common settings: the executor's configuration on the command line."""

import json
import sys
from typing import Any

import pytest

from ao_runner.known_settings import UnknownSetting, find_place
from tests.process.runner.cli.calling import MINIATURES, Ao, miniature

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "model": {"type": "string", "minLength": 1},
        "permission_mode": {"enum": ["ask", "true"]},
        "allowed_tools": {"type": "array", "items": {"type": "string"}},
        "access": {"enum": ["read", "edit", "all"]},
        "reasoning_effort": {"type": "string"},
        "show_reasoning": {"type": "boolean"},
        "additional_folders": {"type": "array", "items": {"type": "string"}},
        "turns": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]},
        "fast": {"type": "boolean"},
        "anything": {},
        "env": {"type": "object", "additionalProperties": {"type": "string"}},
        "limits": {"$ref": "#/definitions/limits"},
        "a.b": {"type": "integer"},
    },
    "definitions": {"limits": {"allOf": [{"properties": {"seconds": {"type": "number"}}}]}},
}
EXECUTOR = f"""\
#!{sys.executable}
import json, sys
sys.path.insert(0, {str(MINIATURES)!r})
from speaking import Speaker

class Configurable(Speaker):
    def description(self, capabilities):
        return {{**super().description(capabilities), "config_schema": json.loads({json.dumps(SCHEMA)!r})}}

speaker = Configurable()
speaker.start()
speaker.result(json.dumps(speaker.invocation.get("executor_config", {{}})))
"""


@pytest.fixture
def configurable(ao: Ao) -> Ao:
    """Return an `ao` whose profile `mine` has an executor that answers with its configuration."""
    executor = ao.write("ao-configurable-exec", EXECUTOR)
    executor.chmod(0o755)
    profile = {"executor": str(executor), "config": {"allowed_tools": ["Read"], "env": {"A": "1"}, "fast": True}}
    ao.write("mine.json", json.dumps(profile))
    return ao


@pytest.mark.parametrize(
    ("options", "config"),
    [
        pytest.param(["--model", "opus"], {"model": "opus"}, id="model"),
        pytest.param(
            ["--allow", "Write", "--allow", "Bash(git *)", "--allow", "Write"],
            {"allowed_tools": ["Write", "Bash(git *)"]},
            id="allow",
        ),
        pytest.param(["--reasoning-effort", "low"], {"reasoning_effort": "low"}, id="reasoning effort"),
        pytest.param(["--hide-reasoning"], {"show_reasoning": False}, id="no reasoning"),
        pytest.param(["--access", "edit"], {"access": "edit"}, id="access"),
        pytest.param(["--allow-tool", "Write"], {"allowed_tools": ["Write"]}, id="allow tool"),
        pytest.param(["--add-folder", "/usr/../tmp"], {"additional_folders": ["/tmp"]}, id="add folder"),  # noqa: S108
        pytest.param(["--set", "model=7"], {"model": "7"}, id="a text that looks like a number"),
        pytest.param(["--set", "permission_mode=true"], {"permission_mode": "true"}, id="a text of a list"),
        pytest.param(["--set", "turns=7", "--set", "fast=true"], {"turns": 7, "fast": True}, id="JSON"),
        pytest.param(["--set", "turns=null"], {"turns": None}, id="null"),
        pytest.param(["--set", 'allowed_tools=["A=B"]'], {"allowed_tools": ["A=B"]}, id="a list"),
        pytest.param(["--set", "anything=a = b"], {"anything": "a = b"}, id="what is no JSON"),
        pytest.param(["--set", "env.A=1", "--set", "env.b.c=x"], {"env": {"A": "1", "b.c": "x"}}, id="an open name"),
        pytest.param(["--set", "limits.seconds=1.5"], {"limits": {"seconds": 1.5}}, id="a reference"),
        pytest.param(["--set", "a.b=1"], {"a.b": 1}, id="a name with a dot"),
        pytest.param(["--set", "model=a", "--set", "model=b"], {"model": "b"}, id="the last counts"),
        pytest.param(["--model", "a", "--set", "model=b"], {"model": "b"}, id="set counts"),
    ],
)
def test_the_options_are_the_executors_configuration(
    configurable: Ao, options: list[str], config: dict[str, Any]
) -> None:
    executor = str(configurable.folder / "ao-configurable-exec")
    called = configurable("run", "agent.yaml", "-p", "x", "--executor", executor, *options)
    assert (called.exit_code, called.document) == (0, config), called.stderr


def test_what_the_options_go_into_is_kept(configurable: Ao) -> None:
    configurable.write("config.json", json.dumps({"env": {"B": "2"}, "turns": 3}))
    options = ["--profile", "mine.json", "--config", "config.json", "--allow", "Write", "--set", "env.C=3"]
    called = configurable("run", "agent.yaml", "-p", "x", *options)
    assert called.document == {
        "allowed_tools": ["Read", "Write"],
        "env": {"B": "2", "C": "3"},
        "fast": True,
        "turns": 3,
    }


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        pytest.param(["--set", "modle=x"], "no setting 'modle'; did you mean 'model'?", id="misspelled"),
        pytest.param(["--set", "limits.second=1"], "did you mean 'limits.seconds'?", id="misspelled inside"),
        pytest.param(["--set", "model.x=1"], "no setting 'model.x'", id="inside a text"),
        pytest.param(["--set", "allowed_tools=Read"], "allowed_tools is a list, written as JSON", id="no list"),
        pytest.param(["--set", "turns=many"], 'turns: "many" is not', id="a wrong type"),
        pytest.param(["--set", "turns=0"], "turns: 0 is", id="a wrong value"),
        pytest.param(["--config", "turns.json"], "turns: 0 is", id="a wrong value in a file"),
        pytest.param(["--model", ""], 'model: "" ', id="an empty text"),
        pytest.param(["--set", "permission_mode=yolo"], 'permission_mode: "yolo" is not one of', id="an unknown mode"),
    ],
)
def test_a_run_whose_configuration_the_executor_does_not_take_is_refused(
    configurable: Ao, options: list[str], reason: str
) -> None:
    configurable.write("turns.json", '{"turns": 0}')
    called = configurable("run", "agent.yaml", "-p", "x", "--profile", "mine.json", *options)
    assert (called.exit_code, called.stdout) == (64, "")
    assert reason in " ".join(called.stderr.split())


@pytest.mark.parametrize("pair", ["turns", "=1"])
def test_a_setting_without_a_name_or_a_value_is_a_usage_error(pair: str, configurable: Ao) -> None:
    called = configurable("run", "agent.yaml", "-p", "x", "--profile", "mine.json", "--set", pair)
    assert called.exit_code == 2
    assert f"{pair!r} is not K=V" in called.stderr
    assert json.loads(configurable("runs", "--json").stdout) == []


@pytest.mark.parametrize("command", ["run", "submit"])
@pytest.mark.parametrize(
    ("options", "name"),
    [
        (["--model", "x"], "model"),
        (["--reasoning-effort", "low"], "reasoning_effort"),
        (["--hide-reasoning"], "show_reasoning"),
        (["--access", "all"], "access"),
        (["--allow-tool", "x"], "allowed_tools"),
        (["--allow", "x"], "allowed_tools"),
        (["--add-folder", "."], "additional_folders"),
    ],
)
def test_an_option_needs_an_executor_with_that_setting(ao: Ao, command: str, options: list[str], name: str) -> None:
    called = ao(command, "agent.yaml", "-p", "x", "--profile", miniature("answers_at_once"), *options)
    assert called.exit_code == 64
    option = "--allow-tool" if options[0] == "--allow" else options[0]
    assert f"{option}: miniature has no setting {name!r}; it has none" in " ".join(called.stderr.split())
    assert ao("runs", "--json").document == []


def test_settings_of_a_submitted_run_are_those_of_its_session(configurable: Ao) -> None:
    options = ("--model", "small", "--access", "read", "--allow-tool", "Read", "--hide-reasoning")
    called = configurable("submit", "agent.yaml", "-p", "x", "--profile", "mine.json", *options)
    assert called.exit_code == 0, called.stderr
    (session,) = configurable("sessions", "--json").document
    assert session["executor_config"] == {
        "model": "small", "access": "read", "allowed_tools": ["Read"], "show_reasoning": False,
    }  # fmt: skip
    again = configurable("submit", "--session", "last", "-p", "x", "--access", "all")
    assert again.exit_code == 2
    assert "--access is for new sessions" in again.stderr


def test_a_schema_that_refers_to_itself_has_an_end() -> None:
    schema: dict[str, Any] = {"$ref": "#", "properties": {"deeper": {"$ref": "#"}, "end": {"type": "string"}}}
    assert find_place(schema, "deeper.deeper.end").takes("string")
    with pytest.raises(UnknownSetting):
        find_place(schema, "deeper.other")
