"""Tools: what runs, what is denied, and what the events say."""

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.process.executors.http_serving import serving_http
from tests.real_cli.claude_code.claude import agent
from tests.real_cli.claude_code.conftest import StartClaude

MCP_SERVER = """\
import json, os, sys
RESULTS = {
    "initialize": {"protocolVersion": "2024-11-05", "capabilities": {"tools": {}},
                   "serverInfo": {"name": "t", "version": "1"}},
    "tools/list": {"tools": [{"name": "shout", "description": "Shouts.", "inputSchema": {"type": "object"}}]},
}
for line in sys.stdin:
    message = json.loads(line)
    if message["method"] == "tools/call":
        secrets = os.environ["ANTHROPIC_API_KEY"] + os.environ["ANTHROPIC_AUTH_TOKEN"]
        text = message["params"]["arguments"]["text"].upper() + os.environ["SUFFIX"] + secrets
        result = {"content": [{"type": "text", "text": text}]}
    else:
        result = RESULTS.get(message["method"], {})
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


def use(tool: str, **tool_input: object) -> dict[str, object]:
    return {"content": [{"type": "tool_use", "id": "toolu_1", "name": tool, "input": tool_input}]}


REFUSED: list[dict[str, object]] = [
    {
        "type": "tool_use",
        "id": "edit",
        "name": "Edit",
        "input": {"file_path": "no", "old_string": "a", "new_string": "b"},
    },
    {"type": "tool_use", "id": "unknown", "name": "Nonesuch", "input": {"a": 1}},
    {"type": "tool_use", "id": "input", "name": "Read", "input": {"wrong": 1}},
    {"type": "tool_use", "id": "good", "name": "Bash", "input": {"command": "echo hi"}},
]
OUTCOMES = {"edit": "failed", "unknown": "failed", "input": "failed", "good": "completed"}


def test_calls_that_the_cli_refuses_are_pairs_of_events(start_claude: StartClaude) -> None:
    run = start_claude({"content": [{"type": "text", "text": "I look."}, *REFUSED]}, {"text": "Done."}).run()

    finished = {event["tool_call_id"]: event for event in run.of_type("tool_finished")}
    assert [event["tool_call_id"] for event in run.of_type("tool_started")] == list(OUTCOMES)
    assert {call: event["status"] for call, event in finished.items()} == OUTCOMES
    assert finished["edit"]["error"].startswith("File does not exist")
    assert finished["unknown"]["error"] == "Error: No such tool available: Nonesuch"
    assert "`file_path` is missing" in finished["input"]["error"]
    assert run.types.index("message") < run.types.index("tool_started")


def test_calls_of_a_subagent_are_pairs_of_events(start_claude: StartClaude) -> None:
    given = {"description": "d", "prompt": "Look", "subagent_type": "general-purpose", "run_in_background": False}
    claude = start_claude(
        {"content": [{"type": "tool_use", "id": "agent", "name": "Agent", "input": given}]},
        {"content": [{"type": "text", "text": "I am a subagent."}, *REFUSED]},
        {"text": "Found."},
        {"text": "Done."},
    )
    run = claude.run(executor_config={"tools": ["Agent", "Bash", "Edit", "Read"], "allowed_tools": ["Agent"]})

    statuses = {event["tool_call_id"]: event["status"] for event in run.of_type("tool_finished")}
    assert statuses == {**OUTCOMES, "agent": "completed"}


@pytest.mark.requirement("AOX-083")
@pytest.mark.parametrize("contract", [None, {"type": "object"}], ids=["free", "under a contract"])
def test_what_is_said_between_the_calls_of_one_message_is_messages_of_their_own(
    start_claude: StartClaude, contract: dict[str, object] | None
) -> None:
    first, second = REFUSED[1], REFUSED[2]
    said = [{"type": "text", "text": "First."}, first, {"type": "text", "text": "Second."}, second]
    run = start_claude({"content": said}, {"json": {}}).run(agent_blueprint=agent(output_schema=contract))

    messages = run.of_type("message")
    assert [message["content"][0]["text"] for message in messages] == ["First.", "Second.", "{}"]
    assert len({message["message_id"] for message in messages}) == 3


def test_a_text_is_told_while_the_model_goes_on(start_claude: StartClaude) -> None:
    said = [{"type": "text", "text": "I look."}, {"type": "text", "text": "This will never be finished."}]
    claude = start_claude({"content": said, "stall_after_chars": 12}, satisfied=False)
    with claude.start(control={"stdin": "open"}) as executor:
        assert executor.read_until("message")["content"] == [{"type": "text", "text": "I look."}]
        executor.write_line({"type": "cancel"})
        assert executor.finish().error["type"] == "cancelled"


def test_an_answer_in_two_texts_is_told_piece_by_piece_and_is_one_result(start_claude: StartClaude) -> None:
    said = [
        {"type": "text", "text": "One. "},
        {"type": "thinking", "thinking": "Hm."},
        {"type": "text", "text": "Two."},
    ]
    run = start_claude({"content": said}).run(executor_config={"show_reasoning": False})
    assert [message["content"][0]["text"] for message in run.of_type("message")] == ["One. ", "Two."]
    assert run.terminal["result_text"] == "One. Two."


def test_only_the_configured_tools_exist(start_claude: StartClaude) -> None:
    claude = start_claude({"text": "Hm."})
    claude.run(executor_config={"tools": ["Read"]})
    names = {tool["name"] for tool in claude.model.requests[0].tools}
    assert "Read" in names
    assert names.isdisjoint({"Bash", "Write", "Edit", "WebFetch"})


def test_project_settings_and_hooks_are_not_read(start_claude: StartClaude, tmp_path: Path) -> None:
    (tmp_path / ".claude").mkdir()
    (tmp_path / "CLAUDE.md").write_text("Say bananas.")
    hook = {"hooks": [{"type": "command", "command": f"touch {tmp_path}/hooked"}]}
    (tmp_path / ".claude" / "settings.json").write_text(
        f'{{"hooks": {{"UserPromptSubmit": [{hook}]}}}}'.replace("'", '"')
    )
    claude = start_claude({"text": "Hm."})
    claude.run()
    assert not (tmp_path / "hooked").exists()
    assert "bananas" not in str(claude.model.requests[0].body)


def test_a_server_that_is_started_has_the_credentials_of_its_blueprint_alone(
    start_claude: StartClaude, tmp_path: Path
) -> None:
    (tmp_path / "server.py").write_text(MCP_SERVER)
    environment = {"SUFFIX": "!", "ANTHROPIC_AUTH_TOKEN": "own"}
    server = {"command": sys.executable, "args": [str(tmp_path / "server.py")], "env": environment}
    claude = start_claude(use("mcp__t__shout", text="hi"), {"text": "Done."})
    run = claude.run(agent_blueprint=agent(mcp_servers={"t": server}))
    assert run.of_type("tool_finished")[0]["tool_output"] == [{"type": "text", "text": "HI!own"}]


TAKES_NOTES = """\
import json, os, sys
print(json.dumps([sys.argv[2:], os.environ["NOTE"]]), file=open(sys.argv[1], "w"))
"""


def test_no_variable_of_the_executor_gets_into_what_a_blueprint_says_of_a_server(
    start_claude: StartClaude, tmp_path: Path
) -> None:
    (tmp_path / "server.py").write_text(TAKES_NOTES + MCP_SERVER)
    texts = [
        "${ANTHROPIC_API_KEY}",
        "$HOME ${HOME}",
        "${NOBODY:-else}",
        "${A${HOME}}",
        "$${HOME}",
        "${",
        "*",
        "",
        "a b",
    ]
    server = {
        "command": sys.executable,
        "args": [str(tmp_path / "server.py"), str(tmp_path / "notes"), *texts],
        "env": {"NOTE": "${ANTHROPIC_API_KEY} ${HOME}"},
    }

    run = start_claude({"text": "Done."}).run(agent_blueprint=agent(mcp_servers={"t": server}))

    assert run.exit_code == 0
    assert json.loads((tmp_path / "notes").read_text()) == [texts, "${ANTHROPIC_API_KEY} ${HOME}"]


def test_a_server_that_was_started_may_have_changed_something(start_claude: StartClaude, tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(MCP_SERVER)
    started = {"command": sys.executable, "args": [str(tmp_path / "server.py")], "env": {"SUFFIX": "!"}}
    with mcp_over_http(key="k1") as url:
        reached = {"type": "http", "url": url, "headers": {"x-key": "k1"}}
        runs = [
            start_claude({"status": 401, "repeat": "forever"}).run(agent_blueprint=agent(mcp_servers={"t": server}))
            for server in (started, reached)
        ]

    assert [(run.error["type"], run.error["side_effects"]) for run in runs] == [
        ("authentication_failed", "possible"),
        ("authentication_failed", "none"),
    ]


def test_an_mcp_server_behind_a_url_gets_its_headers(start_claude: StartClaude) -> None:
    with mcp_over_http(key="k1 ${HOME}") as url:
        server = {"type": "http", "url": url, "headers": {"x-key": "k1 ${HOME}"}}
        claude = start_claude(use("mcp__t__shout", text="hi"), {"text": "Done."})
        run = claude.run(agent_blueprint=agent(mcp_servers={"t": server}))
        assert run.of_type("tool_finished")[0]["tool_output"] == [{"type": "text", "text": "HI!"}]

        stranger = start_claude().run(agent_blueprint=agent(mcp_servers={"t": {**server, "headers": {}}}))
        assert stranger.error["type"] == "mcp_server_unavailable"


@contextmanager
def mcp_over_http(key: str) -> Iterator[str]:
    """Serve one tool over streamable HTTP to whoever has the key."""
    tool = {"name": "shout", "description": "Shouts.", "inputSchema": {"type": "object"}}
    server = {"name": "t", "version": "1"}
    results: dict[str, object] = {
        "initialize": {"protocolVersion": "2025-03-26", "capabilities": {"tools": {}}, "serverInfo": server},
        "tools/list": {"tools": [tool]},
    }

    def answer(request: str, headers: Mapping[str, str], body: bytes) -> tuple[int, object]:
        if request.startswith("GET"):
            return 405, None
        if headers.get("x-key") != key:
            return 401, None
        message = json.loads(body)
        if "id" not in message:
            return 202, None
        result = results.get(message["method"], {})
        if message["method"] == "tools/call":
            result = {"content": [{"type": "text", "text": message["params"]["arguments"]["text"].upper() + "!"}]}
        return 200, {"jsonrpc": "2.0", "id": message["id"], "result": result}

    with serving_http(answer) as url:
        yield f"{url}/mcp"


def test_variables_of_the_config_reach_the_tools(start_claude: StartClaude) -> None:
    claude = start_claude(use("Bash", command="echo $GREETING"), {"text": "Done."})
    run = claude.run(executor_config={"env": {"GREETING": "hello"}, "allowed_tools": ["Bash"]})
    assert run.of_type("tool_finished")[0]["tool_output"]["stdout"] == "hello"
