"""No text of an executor, a file or an argument steers the terminal, whatever command prints it."""

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import pytest

from ao_runner.cli.program import program
from tests.process.runner.cli.calling import Ao, at_a_terminal, miniature, read_until

STEERER = miniature("steers_the_terminal")
STEERING = "seen\x1b]52;c;aGk=\x07\x1b[31mred\x9b2J\x9d52;c;aGk=\x9c\b\x7f\rover\u202ekcab"
CHARACTERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
OUR_OWN = re.compile(r"\r\n|\x1b\[(?!31mred)[0-9;]*m|\x1b\[\?25[hl]|\r?\x1b\[2K|\x1b\[1A|\r(?=\x1b|$)|\x1b\[K")
"""The colours and the drawing of the progress."""

CALLS: Mapping[str, list[list[str]]] = {
    "run": [
        ["odd.json", "--executor", STEERER, "-p", "fail"],
        ["agent.yaml", "--executor", STEERER, "-p", "data"],
        ["agent.yaml", "--executor", STEERER, "-p", "data", "--fail-if", "@", "--fail-on", "denied,unfinished"],
        ["agent.yaml", "--executor", STEERER, "-p", "data", "--fail-if", STEERING],
        ["agent.yaml", "--executor", STEERER, "-p", "data", "--fail-on", STEERING],
        ["agent.yaml", "--executor", STEERER, "-p", "data", "--verdict", f"no/{STEERING}"],
        ["agent.yaml", "--executor", STEERER, "-p", "text"],
        ["agent.yaml", "--executor", STEERER, "-p", "fail", "--events"],
        ["agent.yaml", "--executor", STEERER, "-p", "fail", "--json"],
        ["agent.yaml", "--executor", STEERING, "-p", "x"],
        ["agent.yaml", "--executor", STEERER, "--batch", "batch.jsonl"],
        ["agent.yaml", "--executor", STEERER, "--batch", "broken.json"],
    ],
    "wait": [["last"], [STEERING]],
    "results": [["last"], ["last", "--format", "json"], ["last", "--format", "csv"], [STEERING]],
    "resume": [["last", "-p", "fail"], [STEERING, "-p", "x"]],
    "submit": [["odd.json", "--profile", STEERER, "-p", STEERING], ["agent.yaml", "-p", "x", "--require", STEERING]],
    "worker": [["--until-idle", "--profile", STEERER], ["--coordinator", STEERING], ["--profile", STEERING]],
    "serve": [["--host", STEERING]],
    "serve token add": [[STEERING, "--role", "reader"]],
    "serve token list": [[]],
    "serve token remove": [[STEERING]],
    "mcp": [["--server", STEERING]],
    "runs": [[], ["--json"], ["--status", STEERING]],
    "limits": [[], ["--json"]],
    "limits set": [["--agent", STEERING, "3"]],
    "limits remove": [["--agent", "none", STEERING]],
    "top": [["--once"], ["--json"]],
    "cancel": [[STEERING]],
    "inputs": [[], ["asking"], ["--json"]],
    "answer": [["asking", "req_1", "--option", STEERING], [STEERING, STEERING]],
    "sessions": [[], ["--json"]],
    "sessions delete": [["last", "--dry-run"], [STEERING]],
    "sessions prune": [["--older-than", "0s", "--dry-run"], ["--older-than", STEERING]],
    "events": [["last"], ["last", "--text"], [STEERING]],
    "result": [["last"], ["last", "--json"], ["last", "--record"], ["last", "--attempts"], ["asking"], [STEERING]],
    "executors": [[]],
    "executors profile": [["odd"], ["broken"], [STEERING]],
    "executors describe": [[STEERER], [STEERING]],
    "blueprint check": [["odd.json"], ["broken.json"], ["broken.json", "--json"]],
    "blueprint import": [["odd.json"], ["broken.json"], [STEERING]],
    "schema add": [["named", "schema.json", "--description", STEERING], [STEERING, "schema.json"]],
    "schema from-model": [[STEERING]],
    "schema list": [[], ["--json"]],
    "schema show": [["named"], [STEERING]],
    "schema check": [["schema.json"], ["broken.json"]],
    "schema delete": [[STEERING]],
    "response show": [["response.json"], [STEERING]],
    "response convert": [["response.json", "--to", "json"]],
    "response aggregate": [["response.json"]],
    "store init": [[STEERING]],
    "store migrate": [[STEERING]],
    "store check": [[STEERING]],
    "store prune": [["--older-than", STEERING]],
    "doctor": [[STEERER], [STEERER, "--json"], [STEERING]],
    "new executor": [["--lang", "bash", STEERING], ["--lang", STEERING, "x"]],
    "conformance run": [["--only", "start", "--only", "describe", "--", STEERER], ["--only", STEERING, "--", "x"]],
    "conformance smoke": [["--", STEERING]],
    "conformance explain": [[STEERING]],
    "conformance codec": [["--", STEERING]],
    "conformance runner": [["--only", STEERING]],
    "model-sim": [["--check", "broken.json"], [STEERING]],
    "version": [[STEERING]],
    "completion": [[STEERING]],
}
"""What each command is made to print. A new command needs an entry."""
EXACT_IN_A_PIPE = {"run", "result", "results", "response convert"}
"""Their stdout is for programs, unless it is a terminal."""


def commands_of(group: click.Group, before: str = "") -> Iterator[str]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        path = f"{before} {name}".strip()
        if isinstance(command, click.Group):
            yield from commands_of(command, path)
        if not isinstance(command, click.Group) or command.invoke_without_command:
            yield path


@pytest.fixture(scope="module")
def steered(tmp_path_factory: pytest.TempPathFactory) -> Ao:
    return steered_home(tmp_path_factory.mktemp("steered"))


def steered_home(folder: Path) -> Ao:
    """Return a home with runs of an executor whose texts all steer, and files of such texts."""
    ao = Ao(folder)
    documents: dict[str, Any] = {
        "odd.json": {"name": "seen\u202ekcab", "description": STEERING},  # a name has no control character
        "broken.json": {"name": STEERING, "system_prompt": 5, "type": STEERING, STEERING: STEERING},
        "schema.json": {"type": "object", "title": STEERING, "properties": {STEERING: {"const": STEERING}}},
        "response.json": {"agent": STEERING, "summary": STEERING, "error": STEERING},
        "ao-home/profiles/odd.json": {
            "executor": STEERER,
            "description": STEERING,
            "input": {"wait_seconds": 0.1, "then": "park"},
        },
        "ao-home/profiles/broken.json": {"executor": STEERING, STEERING: STEERING},
    }
    ao.write("agent.yaml", "name: agent\n")
    ao.write("batch.jsonl", '{"prompt": "fail"}\n{"prompt": "text"}\n')
    for name, document in documents.items():
        (ao.folder / name).parent.mkdir(parents=True, exist_ok=True)
        ao.write(name, json.dumps(document))
    assert ao("run", "odd.json", "--executor", STEERER, "-p", "fail").exit_code == 1
    assert ao("run", "odd.json", "--executor", STEERER, "--batch", "batch.jsonl").exit_code == 1
    assert "input_required" in ao("run", "agent.yaml", "--profile", "odd", "-p", "ask").stderr
    return ao


def run_that_asks(ao: Ao) -> str:
    (request,) = ao("inputs", "--json").document
    return str(request["run_id"])


def steering_in(text: str) -> list[str]:
    return CHARACTERS.findall(OUR_OWN.sub("", text))


def test_every_command_has_its_calls() -> None:
    assert sorted(commands_of(program)) == sorted(CALLS)


@pytest.mark.parametrize("command", CALLS)
def test_no_text_steers_the_terminal(command: str, steered: Ao, tmp_path: Path) -> None:
    if command in {"answer", "resume", "submit"}:  # the runs of the shared home stay as they are
        steered = steered_home(tmp_path)
    for arguments in CALLS[command]:
        given = [run_that_asks(steered) if argument == "asking" else argument for argument in arguments]
        with at_a_terminal(steered, *command.split(), *given, columns=100) as (process, ours):
            shown = read_until(ours).decode()
            process.wait(60)

        assert shown.strip(), given
        assert (steering_in(shown), "Traceback" in shown) == ([], False), (given, shown)

        called = steered(*command.split(), *given)

        assert steering_in(called.stderr) == [], given
        assert command in EXACT_IN_A_PIPE or steering_in(called.stdout) == [], given


def test_top_draws_no_text_that_steers(steered: Ao) -> None:
    assert steered("submit", "odd.json", "--profile", STEERER, "-p", STEERING).exit_code == 0
    with at_a_terminal(steered, "top", columns=160) as (process, ours):
        shown = read_until(ours, b"q: exit").decode(errors="ignore")
        process.terminate()
        read_until(ours)
        process.wait(60)

    assert "queued" in shown
    assert steering_in(re.sub(r"\x1b\[(\?1049h|H|\?25l)", "", shown)) == []


def test_the_progress_of_the_suite_stays_on_one_line(steered: Ao) -> None:
    arguments = ["conformance", "run", "--only", "describe", "--only", "start", "--", STEERER]
    with at_a_terminal(steered, *arguments) as (process, ours):
        shown = read_until(ours).decode()
        process.wait(60)

    assert re.search(r"\r\x1b\[K1/[0-9]+", shown)


def test_a_result_in_a_pipe_has_every_byte(steered: Ao) -> None:
    argv = steered.argv("run", "agent.yaml", "--executor", STEERER, "-p", "text")
    done = subprocess.run(
        argv, cwd=steered.folder, env=steered.environment(), capture_output=True, check=True, timeout=60
    )

    said = (
        "seen\x1b]52;c;aGk=\x07\x1b[2J\x1b[31mred\x9b2J\x9d52;c;aGk=\x9c\x1b]8;;http://h\x1b\\"
        "\b\b\x7f\rover\u202ekcab\u2066\x1bc\x90q\n"
    )
    assert done.stdout == said.encode()
