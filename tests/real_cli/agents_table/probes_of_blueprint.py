"""The one blueprint: all of it in one run, and each part that is refused in a run of its own."""

import hashlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tests.process.executors.http_serving import serving_http
from tests.real_cli.acp.test_what_agents_tell import PNG
from tests.real_cli.agents_table.mcp_server import reply_to
from tests.real_cli.agents_table.one_blueprint import (
    BLUEPRINT,
    PRICE,
    PROCEDURAL,
    REPORT,
    RIGHT,
    STOCK,
    SYSTEM_PROMPT,
    THOUGHT,
    TRACE,
    WRONG,
    YES,
    Cells,
    first_with,
)
from tests.real_cli.agents_table.probe_runs import Bench, Ended

ATTACHMENT: Final = "`attachments`: a PNG"
STDIO: Final = "MCP server, a program"
HTTP: Final = "MCP server, HTTP"
LIMITS: Final = "limits that are not reached"
RETRY: Final = "wrong answer, asked again, right answer"
PARAMETERS: Final = "parameters"
_SERVER: Final = str(Path(__file__).with_name("mcp_server.py"))
_CALLER: Final = ("--param", f"report={REPORT}", "--param", "urgent=true", "--traceparent", TRACE)
Part = dict[str, Any]
"""What a part adds to the run: `arguments`, `servers` of the blueprint, `limits` of the profile, `answers`."""


def probe_blueprint(bench: Bench) -> Cells:
    """Perform the blueprint with all parts, and again without those for which it is refused."""
    is_program = not bench.agent.kind
    perform, refused = _triage_by_program if is_program else _triage, dict[str, str]()
    with serving_http(_serve_prices) as url:
        parts = _parts(bench, url)
        while True:
            left = {part: one for part, one in parts.items() if part not in refused}
            ended = perform(bench, f"triage {len(left)}", left)
            guilty = [] if ended.terminal.get("event_type") == "result" else _guilty(ended.why, left)
            if not guilty:
                break
            refused |= dict.fromkeys(guilty, ended.why)
    ended.require_result()
    return (_cells_of_program(bench, ended) if is_program else _cells_of(ended)) | refused


def _guilty(why: str, left: Mapping[str, Part]) -> list[str]:
    """Return the parts that a failure is about, by its words."""
    words = {
        ATTACHMENT: ("attachments", "attachment"),
        STDIO: ("stock", "denied tool call"),
        HTTP: ("prices", "denied tool call"),
        LIMITS: ("max_turns", "max_cost_usd"),
    }
    return [part for part in left if any(word in why for word in words[part])]


def _parts(bench: Bench, url: str) -> dict[str, Part]:
    program = {"command": sys.executable, "args": [_SERVER, "stock_level", STOCK]}
    return {
        ATTACHMENT: {"arguments": ["--attach", "picture.png"]},
        STDIO: {"servers": {"stock": program}, "answers": [_called(bench, "stock", "stock_level", THOUGHT)]},
        HTTP: {
            "servers": {"prices": {"type": "http", "url": f"{url}/mcp"}},
            "answers": [_called(bench, "prices", "unit_price")],
        },
        LIMITS: {"limits": {"max_turns": 20, "max_cost_usd": 50, "timeout_seconds": 60}},
    }


def _called(bench: Bench, server: str, tool: str, *before: Mapping[str, Any]) -> dict[str, Any]:
    """Return an answer that calls a tool of an MCP server."""
    name = bench.agent.server_prefix.format(server=server) + tool
    return {"content": [*before, {"type": "tool_use", "name": name, "input": {"item": "till"}}]}


def _serve_prices(route: str, headers: Mapping[str, str], body: bytes) -> tuple[int, object]:
    if not route.startswith("POST"):
        return 405, None
    reply = reply_to(json.loads(body), "unit_price", PRICE)
    return (202, None) if reply is None else (200, reply)


def _arguments(bench: Bench, parts: Mapping[str, Part]) -> list[str]:
    picture = bench.folder / "picture.png"
    picture.write_bytes(PNG)
    given = [one for part in parts.values() for one in part.get("arguments", ())]
    return [str(picture) if one == picture.name else one for one in given]


def _merged(parts: Mapping[str, Part], field: str) -> dict[str, Any]:
    return {name: one for part in parts.values() for name, one in part.get(field, {}).items()}


def _with_servers(blueprint: Mapping[str, Any], parts: Mapping[str, Part]) -> dict[str, Any]:
    servers = _merged(parts, "servers")
    return {**blueprint, **({"mcp_servers": servers} if servers else {})}


def _triage(bench: Bench, name: str, parts: Mapping[str, Part]) -> Ended:
    """Perform the blueprint with some parts; the first answer of the model is wrong, the second right."""
    calls = [one for part in parts.values() for one in part.get("answers", ())]
    wrong = {"content": [THOUGHT, {"type": "text", "text": json.dumps(WRONG)}]}
    return bench.run(
        name,
        [*calls, wrong, {"json": RIGHT}],
        *_CALLER,
        *_arguments(bench, parts),
        blueprint=_with_servers(BLUEPRINT, parts),
        limits=_merged(parts, "limits"),
    )


def _triage_by_program(bench: Bench, name: str, parts: Mapping[str, Part]) -> Ended:
    return bench.run(
        name,
        [],
        *_CALLER,
        *_arguments(bench, parts),
        blueprint=_with_servers(PROCEDURAL, parts),
        limits=_merged(parts, "limits"),
    )


def _cells_of(ended: Ended) -> Cells:
    first, usage = ended.requests[0], ended.terminal.get("usage") or {}
    valid = [event["valid"] for event in ended.of_type("output_validation")]
    ended.require(valid == [False, True], f"the answers were judged as {valid}")
    ended.require(ended.terminal["result_data"] == RIGHT, "another value is the result")
    picture = f"image/png {hashlib.sha256(PNG).hexdigest()}"
    block = f"<inputs>\nreport: {REPORT}\nurgent: true\n</inputs>"
    spoken = [one["content"][0]["type"] for one in ended.of_type("message")]
    cost = first_with(ended.warnings, "cost", "the result tells none")
    return {
        RETRY: YES,
        PARAMETERS: YES if block in first.conversation_text else "the model did not get the block",
        "system prompt": YES if SYSTEM_PROMPT in first.system_text else "it is not in the request",
        ATTACHMENT: YES if picture in first.files_text else "the model did not get the picture",
        STDIO: _cell_of_server(ended, "stock_level", STOCK),
        HTTP: _cell_of_server(ended, "unit_price", PRICE),
        "usage in tokens": YES if usage.get("output_tokens") else "the result tells none",
        "cost in USD": YES if (usage.get("cost_usd") or 0) > 0 else cost,
        "reasoning": YES if "reasoning" in spoken else "no message has it",
        "`trace`": YES if TRACE in first.headers.get("traceparent", "") else "no request to the model carries it",
    }


def _cell_of_server(ended: Ended, tool: str, answer: str) -> str:
    """Return the cell of an MCP server: its answer reached the model."""
    if any(answer in request.all_tool_results_text for request in ended.requests):
        return YES
    finished = [event for event in ended.of_type("tool_finished") if event["status"] != "completed"]
    told = [f"{event['tool_name']} is {event['status']}: {event.get('error')}" for event in finished]
    is_offered = any(name.endswith(tool) for request in ended.requests for name in request.tool_names)
    ignored = f"the model was {'' if is_offered else 'not '}offered the tool, and got no answer of it"
    return first_with(
        [*told, *ended.warnings], tool, first_with([*told, *ended.warnings], "MCP", next(iter(told), ignored))
    )


def _cells_of_program(bench: Bench, ended: Ended) -> Cells:
    ended.require(ended.terminal["result_data"] == RIGHT, "another value is the result")
    wrong = bench.run("wrong", [], *bench.asked("wrong"))
    nothing = "a program, which has none"
    without = dict.fromkeys(("system prompt", "usage in tokens", "cost in USD", "reasoning", "`trace`"), nothing)
    server = first_with(ended.warnings, "mcp_servers", "the program is given no server")
    return {PARAMETERS: YES, RETRY: wrong.why, STDIO: server, HTTP: server, **without}
