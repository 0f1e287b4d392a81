"""Asking a person by `ao run` at a terminal, by a profile that waits for a time, and by a run that is parked."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any, Final

from ao_model_simulator import ModelSimulator, Script
from tests.process.executors.driver import installed
from tests.process.runner.cli.calling import read_until
from tests.real_cli.agents_table.one_blueprint import YES, Cells
from tests.real_cli.agents_table.probe_runs import RUN_SECONDS, Bench, NotSeen, plain

ASKS: Final = "`input`"
PARKS: Final = "`input_parking`"
_DONE: Final = {"text": "So be it."}
_CALLER: Final = ("-p", "Work.")
_ENDED_BY_IT: Final = "the agent ended its turn without an answer after a denied tool call"
"""How a run of Qwen ends, whose turns end with a denial."""


def answers_of(bench: Bench) -> list[dict[str, Any]]:
    """Return the answers of a model that wants to make a file."""
    assert bench.agent.runs_command is not None
    return [{"content": [bench.agent.runs_command("touch made")]}, _DONE]


def answered(bench: Bench, effect: str) -> tuple[str, bool, int]:
    """Answer the question of a run at its terminal by the first option with an effect.

    Returns:
        What the terminal has shown, whether the file was made, and the exit code.

    Raises:
        NotSeen: The run has not asked.
    """
    with bench.at_terminal(effect, answers_of(bench), *_CALLER) as (process, terminal, project):
        try:
            shown = plain(read_until(terminal, b"answer [1-"))
        except AssertionError as never:
            raise NotSeen(f"the run has not asked: {plain(never.args[0])[-300:]}") from never
        options = [line.split() for line in shown.partition("? ")[2].splitlines() if line.strip()[:1].isdigit()]
        numbers = [number for number, *words in options if ("deny" in _effect(words)) is (effect == "deny")]
        os.write(terminal, f"{numbers[0]}\n".encode())
        shown += plain(read_until(terminal))
        return shown, (project / "made").exists(), process.wait(RUN_SECONDS)


def _effect(words: list[str]) -> str:
    """Return whether an option denies, from its label and id."""
    text = " ".join(words).lower()
    return "deny" if any(word in text for word in ("deny", "reject", "no", "decline")) else "allow"


def probe_questions(bench: Bench) -> Cells:
    """Allow a call, deny one, and let the time of a request pass."""
    if bench.agent.runs_command is None:
        return {ASKS: bench.run("asks", [_DONE], *bench.asked("Work."), input={"wait_seconds": 1}).why}
    for effect, is_made in (("allow", True), ("deny", False)):
        shown, made, code = answered(bench, effect)
        is_right = made is is_made and (effect == "deny") is ("declined" in shown)
        if not is_right or (code != 0 and _ENDED_BY_IT not in shown):
            raise NotSeen(f"{effect}: exit code {code}, the command has {'' if made else 'not '}run: {shown[-300:]}")
    ended = bench.run("late", answers_of(bench), *_CALLER, input={"wait_seconds": 1, "then": "deny"})
    ended.require(not ended.error or _ENDED_BY_IT in ended.why, "the run does not go on")
    resolved = [(one["outcome"], one["by"]) for one in ended.of_type("input_resolved")]
    statuses = [one["status"] for one in ended.of_type("tool_finished")]
    ended.require((resolved, statuses) == ([("expired", "timeout")], ["denied"]), f"{resolved}, {statuses}")
    ended.require(not (bench.folder / "late" / "made").exists(), "the command has run")
    return {ASKS: YES}


def probe_parking(bench: Bench) -> Cells:
    """Park a run that asks, answer it later, and let a worker continue it in another process."""
    if bench.agent.runs_command is None:
        waits = {"wait_seconds": 1, "then": "park"}
        return {PARKS: bench.run("parked", [_DONE], *bench.asked("Work."), input=waits).why}
    parked = bench.run("parked", answers_of(bench)[:1], *_CALLER, input={"wait_seconds": 1, "then": "park"})
    if parked.error.get("type") != "input_required":
        raise NotSeen(parked.why)
    project = bench.folder / "parked"
    with ModelSimulator(Script.from_answers([_DONE])) as model:
        env = bench.agent.environment(model.url, bench.home)
        ao_call(env, project, "answer", parked.terminal["run_id"], "--allow")
        ao_call(env, project, "worker", "--until-idle", "--profile", "./profile.json")
    events = [json.loads(line) for line in ao_call(env, project, "events", "last").splitlines()]
    if not (project / "made").exists() or events[-1]["event_type"] != "result":
        raise NotSeen(f"the run that continues it ends as {json.dumps(events[-1])[:300]}")
    return {PARKS: YES}


def ao_call(env: dict[str, str], folder: Path, *arguments: str) -> str:
    """Return what a command of `ao` prints."""
    argv = [installed("ao"), *arguments]
    done = subprocess.run(
        argv,
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    if done.returncode != 0:
        raise NotSeen(f"ao {arguments[0]}: {done.stderr.strip()[-300:]}")
    return done.stdout
