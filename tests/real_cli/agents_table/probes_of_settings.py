"""The settings that mean the same for every agent, and the strategies of an output contract."""

import json
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from ao_executors.core.described import common_settings
from tests.real_cli.agents_table.one_blueprint import REPORT, RIGHT, SCHEMA, THOUGHT, WRONG, YES, Cells
from tests.real_cli.agents_table.probe_runs import Bench, NotSeen
from tests.real_cli.agents_table.probes_of_sessions import described

EFFORT: Final = re.compile(r'"(?:effort|reasoning_effort|thinkingBudget|thinkingLevel|budget_tokens)": *"?\w+')
STRATEGIES: Final = ("system_prompt", "prompt", "extract", "native", "tool")
SETTINGS: Final = tuple(common_settings())
_VALUES: Final[dict[str, object]] = {
    "model": "m",
    "reasoning_effort": "high",
    "show_reasoning": False,
    "access": "edit",
    "allowed_tools": ["x"],
    "additional_folders": ["/srv"],
}
_TRIED_TOGETHER: Final = ("model", "reasoning_effort", "access", "additional_folders")
_DEMAND: Final = "Required Output Format"
_PLACES: Final = {"system_prompt": (True, False), "prompt": (False, True)}


def row_of(name: str) -> str:
    """Return the row of a setting or strategy."""
    return f"strategy `{name}`" if name in STRATEGIES else f"setting `{name}`"


def probe_settings(bench: Bench) -> Cells:
    """Refuse the settings that the executor does not know, and try the others."""
    known = described(bench.agent)["config_schema"].get("properties", {})
    cells = _refusals(bench, [name for name in SETTINGS if name not in known])
    if bench.agent.writes_file is None:
        return cells
    tried = [name for name in _TRIED_TOGETHER if name in known]
    try:
        return cells | _kept(bench, tried)
    except NotSeen as fault:
        return cells | {row_of(name): str(fault) for name in tried}


def _kept(bench: Bench, tried: Sequence[str]) -> Cells:
    """Perform one run with `access: edit`: a file in the project, one in a further folder, and one elsewhere."""
    assert bench.agent.writes_file is not None
    with tempfile.TemporaryDirectory(dir="/var/tmp") as elsewhere:  # Codex lets every command write below /tmp
        extra = bench.folder / "extra"
        extra.mkdir()
        inside, outside = [bench.folder / "settings" / "new.txt"], Path(elsewhere) / "new.txt"
        config: dict[str, Any] = {"access": "edit"}
        if "reasoning_effort" in tried:
            config["reasoning_effort"] = "high"
        if "additional_folders" in tried:
            config["additional_folders"] = [str(extra)]
            inside.append(extra / "new.txt")
        calls = [{"content": [bench.agent.writes_file(path)]} for path in (*inside, outside)]
        ended = bench.run("settings", [*calls, {"text": "Done."}], "-p", "Write.", config=config)
        written = [path.exists() for path in (*inside, outside)]
    ended.require(written[0], "a file in the project is not written")
    effort = EFFORT.findall(ended.sent_to_model())
    seen: dict[str, object] = {
        "model": ended.requests[0].model == bench.agent.model,
        "access": written[0] and not written[-1],
        "additional_folders": written[:-1] == [True, True],
        "reasoning_effort": effort,
    }
    told = f"the model is asked with {ended.requests[0].model} and {effort or 'no effort'}; files written: {written}"
    return {row_of(name): YES if seen[name] else told for name in tried}


def _refusals(bench: Bench, names: Sequence[str]) -> Cells:
    """Return by row why a run with these settings is refused."""
    if not names:
        return {}
    config = {name: _VALUES[name] for name in names}
    ended = bench.run("refused", [{"text": "Done."}], *bench.asked("Work."), config=config)
    why = "it is ignored" if ended.terminal.get("event_type") == "result" else ended.why
    return {row_of(name): why.partition(f"$.{name}: ")[2].partition(";")[0] or why for name in names}


def probe_allowed_tools(bench: Bench) -> Cells:
    """Let the model call a tool that needs a question, which is in `allowed_tools`."""
    if bench.agent.runs_command is None:
        return {}
    call = {"content": [bench.agent.runs_command("touch made")]}
    config = {"allowed_tools": [bench.agent.command_tool]}
    ended = bench.run("allowed", [call, {"text": "Done."}], "-p", "Work.", config=config).require_result()
    ended.require((bench.folder / "allowed" / "made").exists(), "the command has not run")
    return {row_of("allowed_tools"): YES}


def probe_strategies(bench: Bench) -> Cells:
    """Perform a run with each strategy that the executor declares; the first answer is wrong, the second right."""
    description = described(bench.agent)
    declared, settings = description["capabilities"]["output_schema"]["strategies"], description["config_schema"]
    assert set(declared) <= set(STRATEGIES), "a strategy has no probe"
    cells: Cells = {}
    for strategy in STRATEGIES:
        try:
            cells[row_of(strategy)] = _strategy(bench, strategy) if bench.agent.kind else _program(bench, strategy)
        except NotSeen as fault:
            cells[row_of(strategy)] = str(fault)
    if "show_reasoning" in settings["properties"]:
        answer = {"content": [THOUGHT, {"type": "text", "text": "Done."}]}
        hidden = bench.run("hidden", [answer], "-p", "Work.", config={"show_reasoning": False}).require_result()
        is_hidden = THOUGHT["thinking"] not in json.dumps(hidden.events)
        cells[row_of("show_reasoning")] = YES if is_hidden else "an event has it"
    return cells


def _asked_by(bench: Bench, strategy: str) -> list[str]:
    (bench.folder / "schema.json").write_text(json.dumps(SCHEMA), encoding="utf-8")
    options = ("--output-option", f"strategy={strategy}", "--output-option", "max_retries=1")
    return ["--output-schema", str(bench.folder / "schema.json"), *options]


def _program(bench: Bench, strategy: str) -> str:
    """Return the cell of a program, whose output is searched once."""
    blueprint = {name: part for name, part in bench.worker.items() if name != "output_schema"}
    urgent = [*bench.asked(REPORT), "--param", "urgent=true"]
    ended = bench.run(f"by {strategy}", [], *urgent, *_asked_by(bench, strategy), blueprint=blueprint).require_result()
    ended.require(ended.terminal["result_data"] == RIGHT, "another value is the result")
    ended.require(ended.terminal["output"]["strategy"] == strategy, "another strategy is used")
    return YES


def _strategy(bench: Bench, strategy: str) -> str:
    given = [*(_given(bench, strategy, value) for value in (WRONG, RIGHT)), {"text": "Done."}]
    ended = bench.run(f"by {strategy}", given, "-p", "Triage.", *_asked_by(bench, strategy)).require_result()
    output, first = ended.terminal["output"], ended.requests[0]
    ended.require(ended.terminal["result_data"] == RIGHT, "another value is the result")
    ended.require(output["strategy"] == strategy, f"the strategy is {output['strategy']}")
    valid = [event["valid"] for event in ended.of_type("output_validation")]
    if strategy == "native" and bench.agent.kind == "anthropic":  # the CLI judges its tool itself
        ended.require(valid[-1:] == [True], f"the answers were judged as {valid}")
    else:
        ended.require(valid == [False, True], f"the answers were judged as {valid}")
    asked = (_DEMAND in first.system_text, _DEMAND in first.last_user_text)
    ended.require(asked == _PLACES.get(strategy, (False, False)), f"the demand is in system and prompt: {asked}")
    if strategy in ("native", "tool"):
        by = output["delivered_by"]
        ended.require(by == strategy, f"the answer is delivered by {by}")
    return YES


def _given(bench: Bench, strategy: str, value: dict[str, Any]) -> dict[str, Any]:
    """Return an answer of the model: JSON, or the call of the tool that takes it."""
    # Codex has a tool of the thread; for the others it is of an MCP server.
    prefix = "" if bench.agent.name == "codex" else bench.agent.server_prefix.format(server="ao_answer")
    tool = {"tool": f"{prefix}submit_answer", "native": "StructuredOutput" if bench.agent.kind == "anthropic" else ""}
    if name := tool.get(strategy):
        return {"content": [{"type": "tool_use", "name": name, "input": value}]}
    return {"json": value}
