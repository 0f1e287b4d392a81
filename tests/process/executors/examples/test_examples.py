"""The executors in other languages behind a real runner: what the author of a copy relies on."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from tests.process.executors.driver import wait_until
from tests.process.executors.examples.building import skip_without
from tests.process.executors.examples.conftest import EXAMPLES, NAME
from tests.process.runner.cli.calling import Ao

BASH: Final = EXAMPLES / "bash" / "ao-bash-exec"
NODE_MODEL: Final = EXAMPLES / "node-model" / "ao-node-model-exec"
MAX_LINES: Final = {
    "bash": 30, "c": 120, "go": 80, "node": 40, "node-model": 150, "perl": 40, "php": 50, "python": 40,
    "ruby": 50, "rust": 80,
}  # fmt: skip
SOURCES: Final = {
    name: [path for path in sorted((EXAMPLES / name).rglob("*")) if path.name.startswith(("ao-", "main."))]
    for name in MAX_LINES
}
ROOT: Final = EXAMPLES.parents[1]


@pytest.fixture
def ao(tmp_path: Path) -> Ao:
    return Ao(tmp_path)


def events_of(stdout: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stdout.splitlines()]


def bash_whose_agent(does: str, folder: Path) -> str:
    """Return the executor in bash with another agent in the place of `cat`."""
    skip_without("jq", "the bash example")
    source = BASH.read_text(encoding="utf-8")
    assert source.count("exec cat;") == 1
    executor = folder / "ao-bash-exec"
    executor.write_text(source.replace("exec cat;", does), encoding="utf-8")
    executor.chmod(0o755)
    return str(executor)


def assert_has_ended(pid_file: Path) -> None:
    pid = int(pid_file.read_text())
    wait_until(lambda: not Path(f"/proc/{pid}").exists())


def test_each_example_is_one_file_and_short_enough() -> None:
    lines = {name: [path.read_bytes().count(b"\n") for path in paths] for name, paths in SOURCES.items()}

    assert {path.name for path in EXAMPLES.iterdir() if path.is_dir()} == MAX_LINES.keys()
    assert {name: counts for name, counts in lines.items() if len(counts) != 1 or counts[0] > MAX_LINES[name]} == {}


def test_the_page_on_the_levels_counts_their_lines_right() -> None:
    page = (ROOT / "docs" / "decisions" / "levels.md").read_text(encoding="utf-8")

    told = re.findall(r"^\| \[([\w-]+)\]\(.*?\) \| .* \| (\d+) \|$", page, re.MULTILINE)

    assert {name: int(lines) for name, lines in told} == {
        name: path.read_bytes().count(b"\n") for name, (path,) in SOURCES.items()
    }


def test_the_guide_shows_the_executor_in_bash_whole() -> None:
    page = (ROOT / "docs/write-an-executor.md").read_text(encoding="utf-8")
    assert f"```sh\n{BASH.read_text(encoding='utf-8')}```\n" in page


@pytest.mark.requirement("AOX-147", "AOX-254")
def test_its_agent_receives_the_inputs_and_its_events_arrive_complete(example: str, ao: Ao) -> None:
    ao.write("agent.yaml", "name: agent\nparameters_schema: {type: object, required: [topic]}\n")

    called = ao("run", "agent.yaml", "--param", "topic=Grüße\u2028 €", "--executor", example, "--events")

    started, result = events_of(called.stdout)
    assert called.exit_code == 0
    assert started["executor"] == {"name": NAME, "version": "0.1.0"}
    assert (result["seq"], result["stop_reason"]) == (2, "end_turn")
    assert result["result_text"] == "<inputs>\ntopic: |\n  Grüße\n   €\n</inputs>"


@pytest.mark.requirement("AOX-251")
def test_the_runner_keeps_the_contract_of_the_one_that_asks_a_model(ao: Ao, tmp_path: Path) -> None:
    skip_without("node", "the node-model example")
    ao.write("agent.yaml", "name: agent\nsystem_prompt: You sort.\noutput_schema: {required: [topic]}\n")
    asked_again = {"system_contains": "You sort.", "last_user_contains": '"topic" is a required property'}
    answers = [{"json": {"urgent": True}}, {"json": {"topic": "payment"}, "expect": asked_again}]
    ao.write("script.json", json.dumps({"answers": answers}))
    run = ("run", "agent.yaml", "-p", "Hi", "--executor", str(NODE_MODEL), "--model-script", "script.json", "--events")

    called = ao(*run, HOME=str(tmp_path))

    events = events_of(called.stdout)
    assert called.exit_code == 0
    assert [event["valid"] for event in events if event["event_type"] == "output_validation"] == [False, True]
    assert events[-1]["result_data"] == {"topic": "payment"}


def test_a_cancel_ends_the_agent_too(ao: Ao, tmp_path: Path) -> None:
    executor = bash_whose_agent("echo $BASHPID > pid; exec sleep 1000;", tmp_path)
    ao.write("agent.yaml", "name: agent\n")
    argv = ao.argv("run", "agent.yaml", "-p", "Hi", "--executor", executor, "--json")
    with subprocess.Popen(argv, cwd=tmp_path, env=ao.environment(), stdout=subprocess.PIPE, text=True) as running:
        wait_until((tmp_path / "pid").exists)
        running.send_signal(signal.SIGINT)
        told, _ = running.communicate(timeout=100)

    assert (running.returncode, json.loads(told)["error"]["type"]) == (130, "cancelled")
    assert_has_ended(tmp_path / "pid")


@pytest.mark.requirement("AOX-205")
def test_sigterm_to_the_one_in_bash_alone_ends_its_agent_and_removes_its_file(tmp_path: Path) -> None:
    executor = bash_whose_agent("echo $BASHPID > pid; exec sleep 1000;", tmp_path)
    (tmp_path / "tmp").mkdir()
    environment = {"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path / "tmp")}
    with subprocess.Popen([executor], cwd=tmp_path, env=environment, stdin=subprocess.PIPE, text=True) as running:
        assert running.stdin is not None
        running.stdin.write('{"schema_version":"3.0","prompt":"Hi"}\n')
        running.stdin.flush()
        wait_until((tmp_path / "pid").exists)
        running.terminate()
        assert running.wait(100) != 0

    assert_has_ended(tmp_path / "pid")
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.requirement("AOX-110")
def test_an_agent_in_bash_that_fails_is_a_failure(tmp_path: Path) -> None:
    ended = subprocess.run(
        [bash_whose_agent("exit 3;", tmp_path)],
        input=b'{"schema_version":"3.0","prompt":"Hi"}\n', capture_output=True, timeout=100, check=False,
    )  # fmt: skip

    message = "the agent exited with 3; see stderr"
    assert ended.returncode == 1
    assert events_of(ended.stdout.decode())[1:] == [
        {"event_type": "failure", "error": {"type": "internal_error", "message": message}}
    ]


@pytest.mark.slow  # the whole suite; .ci/run plays it with one example
def test_the_suite_lets_every_example_pass(example: str) -> None:
    assert_passes_core(example)


@pytest.mark.slow  # the whole suite
def test_the_suite_lets_the_one_that_asks_a_model_pass() -> None:
    skip_without("node", "the node-model example")
    assert_passes_core(str(NODE_MODEL))


def assert_passes_core(executor: str) -> None:
    command = [str(Path(sys.executable).with_name("ao")), "conformance", "run", "--level", "core", "--", executor]
    played = subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)
    assert played.returncode == 0, played.stdout[-3000:]
