"""Agents and MCP servers in the files of other tools: what is understood, what is refused, and with which words."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue

from ao_protocol.wire import JsonObject
from ao_runner.blueprints.loading import (
    InvalidBlueprint,
    LoadedBlueprint,
    as_yaml,
    import_blueprint,
    load_blueprint,
    oddities,
    understand_blueprint,
)
from ao_runner.blueprints.placeholders import (
    Scopes,
    UnresolvedPlaceholders,
    has_placeholders,
    placeholder_problems,
    resolve_placeholders,
    variables_of_other_tools,
)

URL = "https://mcp.example/mcp"
HTTP: JsonObject = {"type": "http", "url": URL}
NPX: JsonObject = {"command": "npx", "args": ["-y", "server"]}


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def servers_in(servers: JsonValue, field: str = "mcp_servers") -> JsonValue:
    return understand_blueprint(Path("blueprint"), {"name": "a", field: servers}).document["mcp_servers"]


UNDERSTOOD: dict[str, tuple[JsonValue, JsonObject]] = {
    "as in the specification of MCP": ({"type": "streamable-http", "url": URL}, HTTP),
    "as in Cline": ({"type": "streamableHttp", "url": URL}, HTTP),
    "as in langchain": ({"transport": "streamable_http", "url": URL}, HTTP),
    "a URL without a type": ({"url": URL}, HTTP),
    "a URL that says it is of the older transport": (
        {"url": "https://mcp.example/sse"},
        {"type": "sse", "url": "https://mcp.example/sse"},
    ),
    "as in Windsurf": ({"serverUrl": URL}, HTTP),
    "as in Gemini CLI": ({"httpUrl": "https://mcp.example/sse"}, {"type": "http", "url": "https://mcp.example/sse"}),
    "as a remote server in OpenCode": ({"type": "remote", "url": URL, "enabled": True}, HTTP),
    "as a local server in OpenCode": (
        {"type": "local", "command": ["npx", "-y", "server"], "environment": {"A": "b"}},
        {**NPX, "type": "stdio", "env": {"A": "b"}},
    ),
    "a command line": ({"command": "npx -y server"}, NPX),
    "a command line before arguments": ({"command": "npx -y", "args": ["server"]}, NPX),
    "a command line as the entry": ("npx -y server", NPX),
    "a URL as the entry": (URL, HTTP),
    "a path with an option": ({"command": "./my/run --fast"}, {"command": "./my/run", "args": ["--fast"]}),
    "a path with a blank": ({"command": "/opt/My Tools/run", "args": []}, {"command": "/opt/My Tools/run", "args": []}),
    "a server that is on": ({**NPX, "disabled": False}, NPX),
    "fields of others that say nothing": (
        {**NPX, "env": None, "tools": ["*"], "disabledTools": []},
        {**NPX, "tools": ["*"], "disabledTools": []},
    ),
    "the usual form": ({**NPX, "required": False}, {**NPX, "required": False}),
}


@pytest.mark.parametrize("name", UNDERSTOOD)
def test_an_entry_is_understood_as_its_tool_means_it(name: str) -> None:
    entry, usual = UNDERSTOOD[name]

    assert servers_in({"s": entry}) == {"s": usual}


@pytest.mark.parametrize(
    ("field", "servers"),
    [
        ("mcpServers", {"s": HTTP}),
        ("mcp_servers", {"mcpServers": {"s": HTTP}}),
        ("mcp_servers", {"inputs": [], "servers": {"s": HTTP}}),
        ("mcp_servers", {"mcp": {"s": {"type": "remote", "url": URL}}}),
        ("mcp_servers", [{"name": "s", **HTTP}]),
        ("mcp_servers", {"s": HTTP, "off": {**NPX, "disabled": True}, "too": {**NPX, "enabled": False}}),
    ],
    ids=["the field of others", "all of .mcp.json", "all of VS Code's", "all of OpenCode's", "a list", "switched off"],
)
def test_servers_are_found_where_other_tools_write_them(field: str, servers: JsonValue) -> None:
    assert servers_in(servers, field) == {"s": HTTP}


def test_a_server_may_be_called_as_the_field_of_another_tool() -> None:
    assert servers_in({"mcp": NPX, "servers": HTTP}) == {"mcp": NPX, "servers": HTTP}


REFUSED: dict[str, tuple[JsonValue, str]] = {
    "another transport": ({"type": "ws", "url": URL}, "type is 'ws'; expected stdio, http or sse"),
    "a program and a URL": ({"command": "x", "url": URL}, "it has both command and url; expected"),
    "neither": ({"args": ["x"]}, "it has neither command nor url; expected command: PROGRAM, or type: http and"),
    "a switch that is text": ({**NPX, "disabled": "yes"}, "disabled is 'yes'; expected true or false"),
    "a file or a command line": ({"command": "./run it"}, "write command: ./run and args: ['it'], or add args: []"),
    "an open quote": ({"command": "npx 'x"}, "is no command line: No closing quotation; write args as a list"),
    "some of its tools": ({**HTTP, "excludeTools": ["rm"]}, "excludeTools is not supported: a blueprint does not"),
    "some of its tools, by name": ({**NPX, "tools": ["read"]}, "tools is not supported: "),
    "a file of variables": ({**NPX, "envFile": ".env"}, "write its variables into env, as NAME: ${env.NAME}"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_entry_without_a_certain_meaning_is_refused_with_what_to_write(name: str) -> None:
    entry, words = REFUSED[name]

    with pytest.raises(InvalidBlueprint) as caught:
        servers_in({"s": entry})

    (problem,) = caught.value.problems
    assert problem.startswith("$.mcp_servers.s: ")
    assert words in problem


SCOPES = Scopes(env={"TOKEN": "s3cr3t", "REGION": "eu"}, runtime={"project_dir": "/srv"}, secrets={"TOKEN"})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Bearer ${TOKEN}", "Bearer s3cr3t"),
        ("{env:TOKEN}", "s3cr3t"),
        ("${env:TOKEN}", "s3cr3t"),
        ("${NONE:-a b}", "a b"),
        ("${NONE:-}", ""),
        ("${REGION:-us}", "eu"),
        ("${env.NONE:-us}", "us"),
        ("${workspaceFolder}/x", "/srv/x"),
        ("$${TOKEN} $$TOKEN", "${TOKEN} $TOKEN"),
        ("pa$word costs 5$", "pa$word costs 5$"),
    ],
)
def test_a_variable_of_another_tool_is_one_that_the_profile_names(text: str, value: str) -> None:
    blueprint: JsonObject = {"name": "a", "mcp_servers": {"s": {"command": "x", "env": {"A": text}}}}

    resolved = resolve_placeholders(blueprint, SCOPES) if has_placeholders(blueprint) else blueprint

    assert resolved == {"name": "a", "mcp_servers": {"s": {"command": "x", "env": {"A": value}}}}


def test_a_script_of_a_shell_keeps_its_own_variables() -> None:
    servers: JsonObject = {"s": {"command": "sh", "args": ["-c", "exec server $HOME"]}}

    assert resolve_placeholders({"mcp_servers": servers}, SCOPES) == {"mcp_servers": servers}


@pytest.mark.parametrize(
    ("field", "text", "words"),
    [
        ("env", "${HOME}", "'${env.HOME}': env has no such name; available: TOKEN, REGION; a profile names them in"),
        ("args", "--token=${TOKEN}", "'${env.TOKEN}' is a secret; it may stand only in the env or headers"),
        ("args", "$TOKEN", "'$TOKEN' is not filled in here; write ${env.TOKEN} and name TOKEN in `secrets`"),
        ("env", "$TOKEN", "$$TOKEN for the text itself"),
        ("env", "${input:api-key}", "write ${env.API_KEY} and name API_KEY in `secrets` or `environment.pass`"),
        ("env", "${{ secrets.TOKEN }}", "write ${env.TOKEN} and name"),
        ("env", "${TOKEN:?unset}", "'${TOKEN:?unset}' is not filled in here"),
        ("env", "{file:./token}", "'{file:./token}' is not filled in here"),
        ("env", "${TOKEN", "is not filled in here"),
    ],
)
def test_a_variable_that_stays_unknown_is_refused_and_never_sent(field: str, text: str, words: str) -> None:
    value: JsonValue = [text] if field == "args" else {"A": text}
    blueprint: JsonObject = {"mcp_servers": {"s": {"command": "x", field: value}}}

    assert has_placeholders(blueprint)
    with pytest.raises(UnresolvedPlaceholders) as caught:
        resolve_placeholders(blueprint, SCOPES)

    (problem,) = caught.value.problems
    assert problem.startswith("$.mcp_servers.s.")
    assert words in problem
    assert "s3cr3t" not in problem


def test_a_check_tells_how_each_variable_is_read() -> None:
    headers: JsonObject = {"A": "Bearer ${TOKEN}", "B": "${input:token}"}
    loaded = understand_blueprint(Path("b"), {"name": "a", "mcp_servers": {"s": {**HTTP, "headers": headers}}})

    assert variables_of_other_tools(loaded.document) == [
        "$.mcp_servers.s.headers.A: '${TOKEN}' is read as '${env.TOKEN}': the profile names TOKEN in `secrets` or "
        "`environment.pass`"
    ]
    (problem,) = placeholder_problems(loaded.document)
    assert problem.startswith("$.mcp_servers.s.headers.B: '${input:token}' is not filled in here; ")


def test_a_prompt_may_contain_variables_of_a_shell() -> None:
    assert placeholder_problems({"system_prompt": "run $HOME/x and ${HOME} and {env:HOME}"}) == []


REVIEWER = """---
name: queue-reviewer
description: Use this when a change touches the queue. Examples:\\n<example>\\nuser: "Check change 12"\\n</example>
tools: Read, Bash(git diff:*, git log:*), Grep
model: sonnet
color: purple
---

You review changes.

- Be brief.
"""


def test_an_agent_of_claude_code_is_a_blueprint_without_model_and_rights(tmp_path: Path) -> None:
    loaded = load_blueprint(written(tmp_path, "reviewer.md", REVIEWER))

    assert loaded.document == {
        "name": "queue-reviewer",
        "description": "Use this when a change touches the queue. Examples:\n<example>\n"
        'user: "Check change 12"\n</example>',
        "system_prompt": "You review changes.\n\n- Be brief.",
    }
    assert loaded.not_carried_over == [
        "$.tools: 'Read, Bash(git diff:*, git log:*), Grep' is not carried over: the profile says what an agent may "
        "do; write --allow-tool Read --allow-tool 'Bash(git diff:*, git log:*)' --allow-tool Grep",
        "$.model: 'sonnet' is not carried over; write --model sonnet",
        "$.color: 'purple' is not carried over, and has no counterpart here",
    ]


OPENCODE = """---
description: Reviews code: quality and style
mode: subagent
model: anthropic/claude-sonnet-4
tools:
  write: false
  bash: true
permission:
  edit: deny
---
You are in code review mode.
"""


def test_an_agent_of_opencode_is_named_after_its_file(tmp_path: Path) -> None:
    loaded = load_blueprint(written(tmp_path, ".opencode/agent/review.md", OPENCODE.replace("\n", "\r\n")))

    assert loaded.document == {
        "name": "review",
        "description": "Reviews code: quality and style",
        "system_prompt": "You are in code review mode.",
    }
    assert [remark.rpartition("; write ")[2] for remark in loaded.not_carried_over[1:]] == [
        "--model anthropic/claude-sonnet-4",
        "--allow-tool bash",
        "--access read",
    ]


@pytest.mark.parametrize("tools", ["[Read, Grep]", "\n  - Read\n  - Grep", '"Read, Grep"'])
def test_tools_are_a_text_or_a_list(tools: str, tmp_path: Path) -> None:
    loaded = load_blueprint(written(tmp_path, "a.md", f"---\nname: a\ntools: {tools}\n---\nHi: you.\n---\nHelp.\n"))

    assert loaded.blueprint.system_prompt == "Hi: you.\n---\nHelp."
    assert loaded.not_carried_over[0].endswith("write --allow-tool Read --allow-tool Grep")


def test_a_model_that_is_inherited_needs_no_remark(tmp_path: Path) -> None:
    text = '---\nname: helper\ndescription: "Helps: with docs"\nmodel: inherit\n---\nYou help.\n'
    loaded = load_blueprint(written(tmp_path, "helper.md", text))

    assert (loaded.blueprint.description, oddities(loaded)) == ("Helps: with docs", [])


CONFIGURED = """{
  // agents
  "$schema": "https://opencode.ai/config.json",
  "agent": {"docs": {"description": "Writes", "prompt": "You write // docs.", "mode": "primary",},},
  "mcp": {"files": {"type": "local", "command": ["npx", "-y", "server"]}} /* all of them */
}"""


def test_the_only_agent_of_a_configuration_is_read_with_its_servers(tmp_path: Path) -> None:
    loaded = load_blueprint(written(tmp_path, "opencode.json", CONFIGURED))

    assert loaded.document == {
        "name": "docs",
        "description": "Writes",
        "system_prompt": "You write // docs.",
        "mcp_servers": {"files": {**NPX, "type": "stdio"}},
    }


def test_of_several_agents_one_has_to_be_named(tmp_path: Path) -> None:
    agents = {name: {"description": "d", "prompt": f"You are {name}."} for name in ("a", "b")}
    path = written(tmp_path, "agents.json", json.dumps(agents))

    with pytest.raises(InvalidBlueprint, match="it contains the agents a, b; `ao blueprint import FILE --agent a -o"):
        load_blueprint(path)
    with pytest.raises(InvalidBlueprint, match="it contains the agents a, b"):
        import_blueprint(path, "c")
    assert import_blueprint(path, "b").document == {"name": "b", "description": "d", "system_prompt": "You are b."}


def test_a_configuration_of_servers_can_be_imported_and_not_run(tmp_path: Path) -> None:
    path = written(tmp_path, ".vscode/mcp.json", json.dumps({"inputs": [], "servers": {"s": {"url": URL}}}))

    with pytest.raises(
        InvalidBlueprint, match="looks like a configuration of MCP servers, not like a blueprint; `ao bl"
    ):
        load_blueprint(path)
    assert import_blueprint(path).document == {"name": "mcp", "mcp_servers": {"s": HTTP}}


LOOKS_LIKE: dict[str, tuple[str, str]] = {
    "servers": (".mcp.json", "a configuration of MCP servers"),
    "settings": ("settings.json", "settings of Claude Code"),
    "API": ("api.yaml", "an OpenAPI document"),
    "schema": ("schema.json", "a JSON Schema"),
    "schema with a name": ("named.json", "a JSON Schema"),
    "profile": ("profile.yaml", "a profile, not like a blueprint; use it with --profile FILE"),
    "script": ("script.yaml", "a model script, not like a blueprint; use it with --model-script FILE"),
    "skill": ("SKILL.md", "a skill or a slash command"),
    "command": ("fix.md", "a skill or a slash command"),
    "rule": ("rule.mdc", "a rule of Cursor"),
    "post": ("post.md", "a text with front matter"),
    "instructions": ("AGENTS.md", "instructions of a project"),
    "prompt": ("prompt.md", "a prompt in plain text"),
    "prompt of some name": ("prompt", "a prompt in plain text"),
    "TOML": ("agent.toml", "TOML"),
}
TEXTS: dict[str, str] = {
    ".mcp.json": '{"mcpServers": {"a": {"command": "x"}}}',
    "settings.json": '{"permissions": {"allow": ["Read"]}, "hooks": {}}',
    "api.yaml": "openapi: 3.1.0\ninfo: {title: x}\npaths: {}\n",
    "schema.json": '{"type": "object", "properties": {"a": {}}}',
    "named.json": '{"$schema": "https://json-schema.org/draft/2020-12/schema", "name": "a", "description": "x"}',
    "profile.yaml": "executor: codex\nmodel: gpt-5\n",
    "script.yaml": "answers: [{text: hi}]\n",
    "SKILL.md": "---\nname: pdf\ndescription: Reads PDF files\n---\n# PDF\n",
    "fix.md": "---\ndescription: Fixes\nargument-hint: '[issue]'\n---\nFix $ARGUMENTS\n",
    "rule.mdc": "---\ndescription: Style\nglobs: '*.ts'\nalwaysApply: true\n---\nUse tabs.\n",
    "post.md": "---\ntitle: On queues\n---\nQueues are good.\n",
    "AGENTS.md": "# Rules\n\n- Run the tests: always.\n",
    "prompt.md": "You are a reviewer.\n\nRules: be brief.\n",
    "prompt": "You are a reviewer. Be brief.",
    "agent.toml": 'name = "a"\ndeveloper_instructions = "x"\n',
}


@pytest.mark.parametrize("name", LOOKS_LIKE)
def test_a_file_that_is_no_blueprint_is_named(name: str, tmp_path: Path) -> None:
    file_name, words = LOOKS_LIKE[name]

    with pytest.raises(InvalidBlueprint) as caught:
        load_blueprint(written(tmp_path, file_name, TEXTS[file_name]))

    (problem,) = caught.value.problems
    assert problem.startswith(f"this looks like {words}")


@pytest.mark.parametrize(
    "document",
    [{"name": "a", "vendor": 1}, {"name": "a", "system_prompt": "x", "instructions": "y"}, {"name": "a", "x-hooks": 1}],
)
def test_a_blueprint_with_fields_of_others_is_one(document: dict[str, Any]) -> None:
    assert understand_blueprint(Path("b"), document).document == document


@pytest.mark.parametrize(
    "text", ["1e3", "0o17", "yes", "null", "- a", "a: b", "two\nlines\n", "tab\there\nx ", "…\u2028"]
)
def test_a_written_blueprint_reads_as_the_same(text: str, tmp_path: Path) -> None:
    document: JsonObject = {"name": "a", "system_prompt": text, "mcp_servers": {"s": {"command": "x", "args": [text]}}}

    loaded: LoadedBlueprint = load_blueprint(written(tmp_path, "a.yaml", as_yaml(document)))

    assert loaded.document == document
