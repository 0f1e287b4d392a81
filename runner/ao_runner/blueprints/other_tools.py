"""Agents in the files of other tools as blueprints, and what a file is that is no blueprint. Pure.

An agent file gives the name, the description, the system prompt and the MCP servers. Model and rights stay with the
profile and the command line: a file that somebody else wrote must not widen what an agent may do.
"""

import json
import re
import shlex
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from ao_protocol.documents import Blueprint
from ao_protocol.json_path import ROOT, below
from ao_protocol.short_text import shorten
from ao_protocol.wire import JsonObject
from ao_protocol.written import NotInteroperable, parse_json, parse_yaml
from ao_runner.blueprints.server_entries import servers_of_file

_FRONT_MATTER: Final = re.compile(r"\s*---[ \t]*\n(?P<head>.*?\n)?---[ \t]*(?:\n(?P<body>.*))?", re.DOTALL)
_FIELD: Final = re.compile(r"(?P<name>[A-Za-z][\w-]*)[ \t]*:(?:[ \t]+(?P<value>.*))?")
_COMMENT: Final = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/|,(?=\s*[}\]])', re.DOTALL)
_MAX_SHOWN_CHARACTERS: Final = 80


class ConvertedAgent(NamedTuple):
    """An agent of another tool as a blueprint, and remarks on what is not carried over."""

    blueprint: JsonObject
    remarks: list[str]


class NoBlueprint(ValueError):
    """A file is something else. The text says what, and what to do."""


def agent_in_markdown(file_name: str, text: str) -> ConvertedAgent | None:
    """Return the agent of a markdown file with front matter, as Claude Code, OpenCode and others have them.

    Returns:
        The agent, named after the file if it has no name; None if the text has no front matter.

    Raises:
        NoBlueprint: The file is a skill, a command, a rule, or another text with front matter.
    """
    found = _FRONT_MATTER.fullmatch(text.replace("\r\n", "\n"))
    if found is None:
        return None
    fields = _front_matter(found["head"] or "")
    if file_name == "SKILL.md":
        fields["allowed-tools"] = None
    for names, kind in _OTHER_FRONT_MATTER:
        if bool(names & fields.keys()) is not ("name" in names):
            raise NoBlueprint(f"this looks like {kind}, not like an agent; {_AS_PROMPT}")
    stem = re.sub(r"(\.agent|\.chatmode)?\.[a-z]+$", "", file_name)
    return _converted(stem, {**fields, "prompt": (found["body"] or "").strip()})


_OTHER_FRONT_MATTER: Final = (
    ({"allowed-tools", "argument-hint"}, "a skill or a slash command of Claude Code"),
    ({"globs", "alwaysApply", "applyTo"}, "a rule of Cursor or instructions of Copilot"),
    ({"name", "description", "mode", "tools", "model"}, "a text with front matter, without name and description"),
)
"""Fields of which one says what the file is; in the last row, of which an agent has one."""
_AS_PROMPT: Final = "to run it as an agent, write name: NAME, and its text as system_prompt: | in a blueprint"


def _front_matter(head: str) -> dict[str, Any]:
    """Return the fields as Claude Code and OpenCode read them: a value that is no YAML, such as `a: b`, is text."""
    try:
        if isinstance(fields := parse_yaml(head), dict):
            return fields
    except NotInteroperable:
        pass
    written: dict[str, str] = {}
    name = ""
    for line in head.splitlines():
        if (begun := _FIELD.fullmatch(line)) is not None:
            name = begun["name"]
            written[name] = begun["value"] or ""
        elif name:
            written[name] += f"\n{line}"
    return {name: _value(text) for name, text in written.items()}


def _value(text: str) -> Any:  # noqa: ANN401  # any JSON
    try:
        value = parse_yaml(text)
    except NotInteroperable:
        return text.strip()
    return text.strip() if isinstance(value, dict) and "\n" not in text else value


def agents_in_document(document: JsonObject) -> dict[str, ConvertedAgent]:
    """Return the agents of an `opencode.json`, or of the JSON that `claude --agents` takes, by name; mostly none."""
    held = document.get("agent", document)
    if not isinstance(held, dict) or not all(isinstance(one, dict) for one in held.values()):
        return {}
    servers = {} if held is document or (found := servers_of_file(document)) is None else {"mcpServers": found}
    return {
        name: _converted(name, {**servers, **fields})
        for name, fields in held.items()
        if isinstance(fields, dict) and isinstance(fields.get("prompt"), str) and not fields.get("disable")
    }


def _converted(name: str, fields: dict[str, Any]) -> ConvertedAgent:
    blueprint: JsonObject = {"name": fields.get("name") or name}
    if isinstance(description := fields.get("description"), str):
        blueprint["description"] = description.replace("\\n", "\n").strip()
    if fields["prompt"]:
        blueprint["system_prompt"] = fields["prompt"]
    remarks = []
    for field, value in fields.items():
        if field == "mcpServers" and isinstance(value, dict) and all(isinstance(one, dict) for one in value.values()):
            blueprint["mcp_servers"] = value
        elif field not in {"name", "description", "prompt"} and value not in (None, "inherit", "*"):
            write = _COUNTERPARTS.get(field, lambda _: "")(value)
            shown = shorten(value if isinstance(value, str) else json.dumps(value), _MAX_SHOWN_CHARACTERS)
            then = f"; write {write}" if write else ", and has no counterpart here"
            whose = ": the profile says what an agent may do" if field in _RIGHTS else ""
            remarks.append(f"{below(ROOT, field)}: {shown!r} is not carried over{whose}{then}")
    return ConvertedAgent(blueprint, remarks)


def _names(value: object) -> list[str]:
    """Return the tools in a text or a list, or those that the switches of OpenCode allow."""
    if isinstance(value, str):
        value = re.split(r",\s*(?![^()]*\))", value)
    if isinstance(value, dict):
        value = [name for name, given in value.items() if given in (True, "allow")]
    return [str(name).strip() for name in value] if isinstance(value, list) else []


def _options_of_tools(value: object) -> str:
    return " ".join(f"--allow-tool {shlex.quote(name)}" for name in _names(value)) or "--access read"


_RIGHTS: Final = {"tools", "permission", "permissionMode", "disallowedTools"}
_ACCESS: Final = {"acceptEdits": "edit", "bypassPermissions": "all"}
_COUNTERPARTS: Final[dict[str, Callable[[Any], str]]] = {
    "model": lambda value: f"--model {shlex.quote(str(value))}",
    "effort": lambda value: f"--reasoning-effort {value}",
    "tools": _options_of_tools,
    "permission": _options_of_tools,
    "permissionMode": lambda value: f"--access {_ACCESS.get(str(value), 'read')}",
    "disallowedTools": lambda value: f"--set {shlex.quote('disallowed_tools=' + json.dumps(_names(value)))}",
    "maxTurns": lambda value: f"limits.max_turns: {value} in a profile",
    "steps": lambda value: f"limits.max_turns: {value} in a profile",
    "mcpServers": lambda _: "the entry of each of these servers into mcp_servers",
}
"""What to write for the fields that a blueprint does not have."""


_OF_A_BLUEPRINT: Final = {*Blueprint.model_fields, "mcpServers"} - {"name", "description", "type"}
_AGENT: Final = "a blueprint is an agent: write name: NAME and system_prompt: TEXT"
_KINDS: Final = (
    ("openapi swagger", "an OpenAPI document", _AGENT),
    ("permissions hooks enabledPlugins", "settings of Claude Code", "say rights with --access and --allow-tool"),
    ("executor", "a profile", "use it with --profile FILE"),
    ("answers", "a model script", "use it with --model-script FILE"),
    ("schema_version", "an invocation", "pass it to an executor on stdin: ao-NAME-exec < FILE"),
    ("instructions", "an assistant of another service", "write its instructions as system_prompt"),
    ("jobs services dependencies", "a configuration of another program", _AGENT),
)
"""Names of which one is enough, the kind of the document, and what to do. The last two may have a name."""


def what_it_looks_like(document: JsonObject) -> str | None:
    """Return what a document is that is no blueprint, and what to do; None if it may be a blueprint."""
    if _OF_A_BLUEPRINT & document.keys() and ("name" in document or "mcpServers" not in document):
        return None
    if "name" not in document and servers_of_file(document) is not None:
        advice = "`ao blueprint import FILE -o agent.yaml` writes a blueprint with these mcp_servers"
        return f"this looks like a configuration of MCP servers, not like a blueprint; {advice}"
    if "json-schema.org" in str(document.get("$schema")) or document.get("type") in {"object", "array"}:
        advice = "write it as output_schema into a blueprint, or `ao schema add NAME FILE`"
        return f"this looks like a JSON Schema, not like a blueprint; {advice}"
    kinds = _KINDS[-2:] if "name" in document else _KINDS
    found = ((kind, advice) for names, kind, advice in kinds if document.keys() & names.split())
    return next((f"this looks like {kind}, not like a blueprint; {advice}" for kind, advice in found), None)


def what_text_looks_like(file_name: str, text: str) -> str | None:
    """Return what a text is that holds no object, and what to do; None if it is JSON or YAML with an error."""
    if file_name.endswith(".toml"):
        return "this looks like TOML, such as an agent or a configuration of Codex; a blueprint is JSON or YAML"
    if file_name in {"AGENTS.md", "CLAUDE.md", "GEMINI.md", "README.md", ".cursorrules"}:
        return f"this looks like instructions of a project for its agents, not like an agent; {_AS_PROMPT}"
    is_markup = re.search(r"^\s*[{\[]|^[\"'\w$-]+:(\s|$)", text, re.MULTILINE)
    if file_name.endswith((".md", ".txt")) or not is_markup:
        return f"this looks like a prompt in plain text, not like a blueprint; {_AS_PROMPT}"
    return None


def document_with_comments(text: str) -> JsonObject | None:
    """Return the document of a JSON text with comments if it is a configuration of another tool, else None."""
    try:
        document = parse_json(_COMMENT.sub(lambda found: found[1] or "", text))
    except NotInteroperable:
        return None
    if isinstance(document, dict) and (agents_in_document(document) or servers_of_file(document)):
        return document
    return None
