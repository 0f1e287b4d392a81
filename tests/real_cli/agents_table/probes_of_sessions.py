"""Sessions and processes: resume, several runs in one process, streaming, cancel, check, and the limits."""

import json
import subprocess
from collections.abc import Mapping
from typing import Any, Final

from ao_model_simulator import ModelSimulator, Script
from tests.process.executors.driver import EventDocument, ExecutorProcess, invocation
from tests.process.lifeline.leftovers import processes_in
from tests.real_cli.agents_table.known_agents import Agent
from tests.real_cli.agents_table.one_blueprint import YES, Cells, first_with
from tests.real_cli.agents_table.probe_runs import Bench, Event

WORD: Final = "The word is basalt."
AGAIN: Final = "Basalt, as I said."
DOLLARS: Final = {"input_tokens": 1_000, "output_tokens": 80_000}
"""The usage of an answer that costs more than a dollar with every model of the table."""
_PROGRAM_SECONDS: Final = 60.0


def printed(*argv: str, env: Mapping[str, str] | None = None) -> str:
    """Return the last line that a program prints, or of what it complains."""
    done = subprocess.run(
        argv, env=env, capture_output=True, text=True, timeout=_PROGRAM_SECONDS, stdin=subprocess.DEVNULL, check=False
    )
    lines = done.stdout.splitlines() or done.stderr.strip().splitlines()
    return lines[-1] if lines else f"exit code {done.returncode} without output"


def described(agent: Agent) -> dict[str, Any]:
    """Return what the executor prints about itself."""
    document: dict[str, Any] = json.loads(printed(agent.executable, "describe"))
    return document


def probe_resume(bench: Bench) -> Cells:
    """Continue a session in another process: the model is sent what was said before."""
    bench.run("talk", [{"text": WORD}], *bench.asked("Tell me a word.")).require_result()
    # The Claude CLI sends its model a "Hi" of its own when its agent continues a session with `model`.
    answer = {"text": AGAIN, "repeat": 2}
    ended = bench.run("talk", [answer], "-p", "Which one?", resumes=True).require_result()
    is_sent = any(WORD in ended.sent_to_model(number) for number in range(len(ended.requests)))
    ended.require(is_sent, "the model is not sent what was said before")
    return {"`resume`": YES}


def probe_cancel(bench: Bench) -> Cells:
    """Interrupt an answer that never ends: what was told of it so far, how the run ends, and what is left running."""
    agent, spoken = bench.agent, "one two three four five six seven eight"
    streams = bool(described(agent)["capabilities"].get("streaming"))

    def is_time(event: Event | None, model: ModelSimulator) -> bool:
        if streams:
            return event is not None and event["event_type"] == "message_delta"
        return bool(model.requests) or (event is not None and event["event_type"] == "tool_started")

    answer = {"text": spoken, "chunk_chars": 5, "stall_after_chars": 30}
    ended = bench.run("cancel", [answer], *bench.asked("wait"), interrupt=is_time)
    left = processes_in(bench.folder / "cancel")
    ended.require(ended.error.get("type") == "cancelled", f"the run ended as {ended.terminal.get('event_type')}")
    told = "".join(block["text"] for event in ended.of_type("message_delta") for block in event["content"])
    return {
        "`cancel`": YES if not left and ended.exit_code == 130 else f"exit code {ended.exit_code}, left over: {left}",
        "`streaming`": YES if told and spoken.startswith(told) else "no part of the answer is told before its end",
    }


def probe_check(bench: Bench) -> Cells:
    """Let the executor check its program and its key."""
    line = printed(bench.agent.executable, "check", env=bench.agent.environment("http://127.0.0.1:9", bench.home))
    return {"`check`": YES if line.startswith("{") and json.loads(line)["ok"] else line}


def probe_turns(bench: Bench) -> Cells:
    """Perform two runs in one process, and a run in a process that was prepared."""
    document = invocation(
        project_dir=str(bench.project("turns", {})),
        agent_blueprint=bench.worker,
        executor_config=bench.profile({})["config"],
        control={"stdin": "open", "turns": True},
        parameters={"prompt" if bench.agent.kind else "report": "Tell me a word."},
    )
    known = {name: value for name, value in document.items() if name not in {"run_id", "session_id", "parameters"}}
    cells: Cells = {}
    with ModelSimulator(Script.from_answers([{"text": WORD}, {"text": WORD}, {"text": AGAIN}])) as model:
        env = bench.agent.environment(model.url, bench.home)
        with ExecutorProcess([bench.agent.executable], env=env) as executor:
            executor.write_line({"type": "prepare", "invocation": known})
            executor.write_line(document)
            why = _why_not(executor.read_run())
            cells["`prepare`"] = why and f"the line is taken for an invocation: {why}"
        with ExecutorProcess([bench.agent.executable], env=env) as executor:
            executor.write_line(document)
            cells["`multi_turn`"] = _why_not(executor.read_run())
            if not cells["`multi_turn`"]:
                cells["`multi_turn`"] = _second_turn(executor, model)
    return cells


def _why_not(events: list[EventDocument]) -> str:
    return YES if events[-1]["event_type"] == "result" else str(events[-1]["error"]["message"])


def _second_turn(executor: ExecutorProcess, model: ModelSimulator) -> str:
    try:
        executor.write_turn("run_2", "Which one?")
        why = _why_not(executor.read_run())
    except (AssertionError, BrokenPipeError):
        return "the process ends with its first run"
    return why or (YES if WORD in str(model.requests[-1].body) else "the model is not sent what was said before")


def probe_turn_limit(bench: Bench) -> Cells:
    """Limit a model that calls a tool in each answer to two answers."""
    return {"`max_turns`": _limited(bench, "many turns", {"max_turns": 2}, {}, most=3)}


def probe_cost_limit(bench: Bench) -> Cells:
    """Limit a model, each answer of which costs more than a dollar, to one."""
    return {"`max_cost_usd`": _limited(bench, "much money", {"max_cost_usd": 1}, {"usage": DOLLARS}, most=2)}


def _limited(bench: Bench, name: str, limits: Mapping[str, Any], more: Mapping[str, Any], most: int) -> str:
    """Return the cell of a limit: the run ends by it after at most so many requests, one more than the limit allows."""
    calls_tools = bench.agent.runs_command
    if calls_tools is not None:
        answers = [{"content": [calls_tools("true")], **more, "repeat": 5}, {"text": "Done."}]
        ended = bench.run(name, answers, "-p", "Work.", config={"access": "all"}, limits=limits)
    else:
        (bench.folder / "n.json").write_text('{"type": "integer"}', encoding="utf-8")
        schema = ["--output-schema", str(bench.folder / "n.json")] if bench.agent.kind else []
        answers = [{"text": "None.", **more, "repeat": 2}, {"text": "3", **more}]
        ended = bench.run(name, answers, *bench.asked("Work."), *schema, limits=limits)
    limit, asked = next(iter(limits)), len(ended.requests)
    if ended.error.get("type") == "limit_exceeded":
        return YES if asked <= most else f"the run ends by it after {asked} requests to the model"
    failed = ended.error or not ended.events
    return ended.why if failed else first_with(ended.warnings, limit, "the run goes on, and no event tells it")
