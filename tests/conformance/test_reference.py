"""The executor that the mutants are made of keeps what it promises, with the simulated model behind it.

The vectors are played at it by the suite; here stands what should still be told apart when the suite itself is wrong.
"""

import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ao_model_simulator import ModelSimulator, Script
from tests.executors.driver import ExecutorProcess, Run, invocation, run, wait_until

REFERENCE = Path(__file__).with_name("reference")
ARGV = [sys.executable, "-I", "-S", str(REFERENCE / "ao-reference-exec")]
SCHEMA = {"type": "object", "required": ["verdict"], "properties": {"verdict": {"enum": ["yes", "no"]}}}
SECRET = "sk-ant-canary-0123456789"


class Bench:
    """A home for the executor and a model that answers from a script."""

    def __init__(self, home: Path, answers: Sequence[dict[str, Any]]) -> None:
        self.home = home
        self.sim = ModelSimulator(Script.from_answers([dict(answer) for answer in answers]))

    def __enter__(self) -> "Bench":
        self.sim.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.sim.__exit__(None, None, None)

    @property
    def env(self) -> dict[str, str]:
        named = {"HOME": str(self.home), "ANTHROPIC_BASE_URL": self.sim.url, "ANTHROPIC_API_KEY": SECRET}
        return {"PATH": os.environ["PATH"], **named}

    def run(self, **fields: object) -> Run:
        return run(ARGV, invocation(**fields), env=self.env, cwd=self.home)

    def start(self, **env: str) -> ExecutorProcess:
        return ExecutorProcess(ARGV, env=self.env | env, cwd=self.home)


def uses(command: str) -> dict[str, Any]:
    return {"content": [{"type": "tool_use", "name": "Bash", "input": {"command": command}}]}


@pytest.mark.parametrize("strategy", ["system_prompt", "prompt", "extract"])
def test_an_answer_that_does_not_fit_is_asked_for_again_and_stands_in_no_event(strategy: str, tmp_path: Path) -> None:
    with Bench(
        tmp_path, [{"json": {"verdict": "canary-7"}}, {"text": 'So:\n```json\n{"verdict": "yes"}\n```'}]
    ) as bench:
        options = {"strategy": strategy, "max_retries": 1}
        ended = bench.run(output_schema=SCHEMA, output_schema_options=options)
        asked = [request.last_user_text or "" for request in bench.sim.requests]
        bench.sim.require_satisfied()
    assert ended.terminal["result_data"] == {"verdict": "yes"}
    assert ended.terminal["output"]["retry_count"] == 1
    assert ended.terminal["output"]["sent"] == [{"extract": "nothing"}.get(strategy, strategy), "re_prompt"]
    assert [verdict["valid"] for verdict in ended.of_type("output_validation")] == [False, True]
    assert b"canary-7" not in ended.stdout
    assert asked[1].startswith("<output-validation-error>")
    assert "- $.verdict: " in asked[1]


def test_the_providers_structured_output_is_judged_like_any_other(tmp_path: Path) -> None:
    native = {"content": [{"type": "tool_use", "name": "StructuredOutput", "input": {"verdict": "no"}}]}
    with Bench(tmp_path, [native]) as bench:
        ended = bench.run(output_schema=SCHEMA, output_schema_options={"strategy": "native"})
    assert ended.terminal["result_data"] == {"verdict": "no"}
    assert ended.terminal["output"]["delivered_by"] == "native"
    assert ended.of_type("tool_started") == []


def test_a_session_goes_on_in_another_process(tmp_path: Path) -> None:
    with Bench(tmp_path, [{"text": "Noted."}, {"text": "Seven."}]) as bench:
        first = bench.run(parameters={"prompt": "My number is 7."})
        bound = first.of_type("session_bound")[0]["executor_session_id"]
        second = bench.run(run_id="run_2", mode="resume", executor_session_id=bound, parameters={"prompt": "Which?"})
        remembered = json.dumps(bench.sim.requests[1].messages)
    assert second.terminal["result_text"] == "Seven."
    assert "My number is 7." in remembered
    assert "Noted." in remembered


def test_a_session_that_is_in_use_is_busy(tmp_path: Path) -> None:
    with Bench(tmp_path, [{"text": "Hi."}]) as bench, bench.start(AO_CONFORM_LINGER_SECONDS="20") as executor:
        executor.write_line(invocation())
        bound = executor.read_until("session_bound")["executor_session_id"]
        ended = bench.run(mode="resume", executor_session_id=bound)
        assert ended.error["type"] == "session_busy"
        assert ended.exit_code == 75
        executor.signal(signal.SIGTERM)
        assert executor.finish().exit_code == 130


def test_a_turn_is_a_run_of_its_own_in_the_same_session(tmp_path: Path) -> None:
    with Bench(tmp_path, [{"text": "One."}, {"text": "Two."}]) as bench, bench.start() as executor:
        executor.write_line(invocation(control={"stdin": "open", "turns": True}))
        assert executor.read_run()[-1]["result_text"] == "One."
        executor.write_turn("run_2", "More")
        events = executor.read_run()
        executor.write_line({"type": "shutdown"})
        assert executor.wait() == 0
        assert bench.sim.requests[1].messages[0]["content"][0]["text"] == "Hi"
    assert [event["run_id"] for event in events] == ["run_2"] * len(events)
    assert events[0]["seq"] == 1
    assert events[-1]["result_text"] == "Two."


@pytest.mark.parametrize("by", ["cancel", "sigterm", "end of stdin"])
def test_a_cancel_ends_a_tool_and_all_that_it_started(by: str, tmp_path: Path) -> None:
    command = "(setsid tail -f /dev/null & echo $! >stray.tmp; mv stray.tmp stray); trap '' TERM; tail -f /dev/null"
    with Bench(tmp_path, [uses(command)]) as bench, bench.start() as executor:
        executor.write_line(invocation(control={"stdin": "open"}))
        executor.read_until("tool_started")
        wait_until((tmp_path / "stray").exists)
        match by:
            case "cancel":
                executor.write_line({"type": "cancel", "reason": "user"})
            case "sigterm":
                executor.signal(signal.SIGTERM)
            case _:
                executor.close_stdin()
        ended = executor.finish()
    assert ended.exit_code == 130
    assert [event["status"] for event in ended.of_type("tool_finished")] == ["cancelled"]
    assert ended.error["side_effects"] == "possible"
    assert not Path(f"/proc/{(tmp_path / 'stray').read_text().strip()}").exists()


MCP_SERVER = """
import json, sys
open("started", "a").write("x")
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": {}}), flush=True)
"""


@pytest.mark.parametrize(("prompt", "starts"), [("You judge.", "x"), ("You review.", "xx")], ids=["same", "another"])
def test_what_was_prepared_is_found_by_the_run_that_agrees(prompt: str, starts: str, tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(MCP_SERVER)
    servers = {"files": {"command": sys.executable, "args": ["-I", "-S", "server.py"]}}
    blueprint = {"name": "judge", "system_prompt": "You judge.", "mcp_servers": servers}
    of_every_run = {"schema_version": "3.0", "mode": "start", "agent_blueprint": blueprint}
    with Bench(tmp_path, [{"text": "Guilty."}]) as bench, bench.start() as executor:
        executor.write_line({"type": "prepare", "invocation": of_every_run})
        wait_until((tmp_path / "started").exists)
        executor.write_line(invocation(agent_blueprint=blueprint | {"system_prompt": prompt}))
        assert executor.finish().terminal["result_text"] == "Guilty."
    assert (tmp_path / "started").read_text() == starts


def test_a_process_that_was_only_prepared_leaves_without_a_word(tmp_path: Path) -> None:
    with Bench(tmp_path, []) as bench, bench.start() as executor:
        executor.write_line({"type": "prepare", "invocation": {"schema_version": "3.0", "mode": "start"}})
        executor.close_stdin()
        assert executor.read_event() is None
        assert executor.wait() == 0


def test_a_transient_failure_is_tried_again_after_the_delay_that_the_provider_names(tmp_path: Path) -> None:
    with Bench(tmp_path, [{"status": 429, "headers": {"retry-after": "0.2"}}, {"text": "Now."}]) as bench:
        ended = bench.run(limits={"heartbeat_interval_seconds": 0.05})
    assert ended.of_type("retry_scheduled")[0]["delay_seconds"] == pytest.approx(0.2)
    assert "retry_wait" in {event["phase"] for event in ended.of_type("heartbeat")}
    assert ended.terminal["result_text"] == "Now."


@pytest.mark.parametrize(
    ("answer", "error_type"),
    [
        ({"status": 401}, "authentication_failed"),
        ({"status": 403}, "permission_denied"),
        ({"status": 404}, "model_not_found"),
        ({"status": 429, "headers": {"retry-after": "20"}}, "rate_limited"),
        ({"status": 529, "repeat": 3}, "provider_unavailable"),
        ({"text": "Half of it", "cut_after_chars": 4}, "provider_unavailable"),
        ({"text": "Half of it", "malformed": True}, "provider_unavailable"),
        ({"text": "All of it", "stream_error": {}}, "provider_unavailable"),
        ({"text": "No.", "stop_reason": "refusal"}, "content_refused"),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(map(str, value)),
)
def test_what_goes_wrong_at_the_provider_has_its_type(answer: dict[str, Any], error_type: str, tmp_path: Path) -> None:
    with Bench(tmp_path, [answer]) as bench:
        ended = bench.run()
    assert ended.error["type"] == error_type
    assert SECRET.encode() not in ended.stdout


def test_noise_on_descriptor_1_does_not_reach_stdout_and_no_secret_reaches_a_tool(tmp_path: Path) -> None:
    with Bench(tmp_path, [uses("env"), {"text": SECRET}]) as bench, bench.start(AO_CONFORM_NOISE="1") as executor:
        executor.write_line(invocation())
        ended = executor.finish()
    assert "noise of a child process" in ended.stderr
    assert SECRET not in ended.terminal["result_text"] + ended.of_type("tool_finished")[0]["tool_output"]
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*.json"))
    assert kept
    assert SECRET.encode() not in kept


def test_a_long_answer_is_cut_and_a_long_value_is_not(tmp_path: Path) -> None:
    limits = {"max_event_bytes": 4096}
    with Bench(
        tmp_path, [{"text": "long ü", "text_times": 5000}, {"json": {"verdict": "yes", "x": "y" * 9000}}]
    ) as bench:
        text = bench.run(limits=limits)
        value = bench.run(limits=limits, output_schema=SCHEMA)
    assert text.terminal["truncated"] is True
    assert text.terminal["original_bytes"] == 7 * 5000
    assert max(map(len, text.stdout.splitlines(keepends=True))) <= 4096
    assert value.error["type"] == "limit_exceeded"
