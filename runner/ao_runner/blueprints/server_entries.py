"""MCP servers as the configuration files of other tools write them, in the form of a blueprint (SPEC 4.2).

An entry is rewritten where its meaning is certain: `.mcp.json` of Claude Code, `mcp.json` of Cursor and VS Code,
`opencode.json`, `settings.json` of Gemini CLI. Otherwise it is refused with the line to write. Pure.
"""

import re
import shlex
from typing import Any, Final

from ao_protocol.json_path import ROOT, below
from ao_protocol.wire import JsonObject

WHOLE_FILES: Final = (("mcpServers",), ("mcp", "servers"), ("servers",), ("mcp",), ("context_servers",))
"""The paths of the servers in the files of other tools."""
_ENTRY: Final = frozenset({"command", "url", "type", "serverUrl", "httpUrl"})
_OTHER_NAMES: Final = {
    "httpUrl": "url", "serverUrl": "url", "uri": "url", "environment": "env", "envs": "env", "http_headers": "headers",
    "transport": "type", "transportType": "type",
}  # fmt: skip
_TYPES: Final = {
    "stdio": "stdio", "local": "stdio", "http": "http", "streamablehttp": "http", "remote": "http", "sse": "sse"
}  # fmt: skip
_REFUSED: Final = {
    "envFile": "write its variables into env, as NAME: ${env.NAME}",
    "headersHelper": "write headers, as Authorization: Bearer ${env.TOKEN}",
    "bearer_token_env_var": "write headers, as Authorization: Bearer ${env.TOKEN}",
    **dict.fromkeys(
        ("tools", "includeTools", "excludeTools", "enabledTools", "disabledTools", "enabled_tools", "disabled_tools"),
        "a blueprint does not choose among the tools of a server; leave it out, or the server",
    ),
}
"""Fields without which a server would lack something, or give the agent more than its file allows."""


def servers_of_file(document: JsonObject) -> dict[str, Any] | None:
    """Return the MCP servers in the whole configuration file of another tool; None if it has none."""
    for path in WHOLE_FILES:
        servers: Any = document
        for name in path:
            servers = servers.get(name) if isinstance(servers, dict) else None
        entries = list(servers.values()) if isinstance(servers, dict) and not _ENTRY & servers.keys() else []
        if entries and all(isinstance(one, dict) and _ENTRY & one.keys() for one in entries):
            return dict(servers)
    return None


def with_usual_servers(blueprint: JsonObject) -> tuple[JsonObject, list[str]]:
    """Return a blueprint with its MCP servers in the form of SPEC 4.2, and the problems of those that have no meaning.

    `mcpServers` is another name of the field, and its value may be a whole file. A server that is switched off is left
    out. What is no object or has an invalid field stays, for the validation of the blueprint.
    """
    field = "mcp_servers" if "mcp_servers" in blueprint else "mcpServers"
    servers: Any = blueprint.get(field)
    if isinstance(servers, list) and all(isinstance(one, dict) and isinstance(one.get("name"), str) for one in servers):
        servers = {one["name"]: {key: one[key] for key in one if key != "name"} for one in servers}
    if not isinstance(servers, dict):
        return blueprint, []
    if not any(isinstance(one, dict) and _ENTRY & one.keys() for one in servers.values()):
        servers = servers_of_file(servers) or servers
    problems: list[str] = []
    usual: JsonObject = {}
    for name, entry in servers.items():
        try:
            if (understood := _usual_entry(entry)) is not None:
                usual[name] = understood
        except _NotUnderstood as error:
            problems.append(f"{below(below(ROOT, field), name)}: {error}")
    others = {key: value for key, value in blueprint.items() if key != field}
    return {**others, "mcp_servers": usual}, problems


class _NotUnderstood(ValueError):
    """An entry whose meaning is not certain. The text says what to write."""


def _usual_entry(written: Any) -> Any:  # noqa: ANN401  # any JSON
    """Return an entry in the usual form; None if it is switched off.

    Raises:
        _NotUnderstood: Its meaning is not certain.
    """
    if isinstance(written, str):
        written = {"url" if re.match("https?://", written) else "command": written}
    if not isinstance(written, dict):
        return written
    entry = {name: value for name, value in written.items() if value is not None}
    if _is_switched_off(entry):
        return None
    is_streamable = "httpUrl" in entry
    for other, name in _OTHER_NAMES.items():
        if other in entry and name not in entry:
            entry[name] = entry.pop(other)
    for name, advice in _REFUSED.items():
        if entry.get(name) not in (None, [], ["*"]):
            raise _NotUnderstood(f"{name} is not supported: {advice}")
    _set_type(entry, is_streamable=is_streamable)
    if "command" in entry:
        _split_command(entry)
    return entry


def _set_type(entry: dict[str, Any], *, is_streamable: bool) -> None:
    if isinstance(kind := entry.get("type"), str):
        entry["type"] = _TYPES.get(re.sub("[-_ ]", "", kind).lower())
        if entry["type"] is None:
            raise _NotUnderstood(f"type is {kind!r}; expected stdio, http or sse")
    elif kind is None:
        if ("url" in entry) is ("command" in entry):
            found = "both command and url" if "url" in entry else "neither command nor url"
            raise _NotUnderstood(f"it has {found}; expected command: PROGRAM, or type: http and url: https://HOST/PATH")
        if "url" in entry:
            is_sse = not is_streamable and str(entry["url"]).partition("?")[0].endswith("/sse")
            entry["type"] = "sse" if is_sse else "http"


def _is_switched_off(entry: dict[str, Any]) -> bool:
    """Return whether an entry is switched off, and remove its switches."""
    switches = {name: entry.pop(name, name == "enabled") for name in ("disabled", "enabled")}
    for name, value in switches.items():
        if not isinstance(value, bool):
            raise _NotUnderstood(f"{name} is {value!r}; expected true or false")
    return switches["disabled"] or not switches["enabled"]


def _split_command(entry: dict[str, Any]) -> None:
    """Split a command that holds its arguments: a list, or a command line in one text."""
    command, args = entry["command"], entry.get("args")
    words = command
    if isinstance(command, str) and len(parts := command.split()) > 1 and not ("/" in parts[0] and args is not None):
        words = _words(command)
    if isinstance(words, list) and words != [command] and words and isinstance(args, list | None):
        entry.update({"command": words[0], "args": [*words[1:], *(args or [])]})


def _words(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise _NotUnderstood(f"command {command!r} is no command line: {error}; write args as a list") from error
    if "/" in words[0] and not any(word.startswith("-") for word in words[1:]):
        raise _NotUnderstood(
            f"command {command!r} may be a program with arguments, or a file with spaces in its name; write"
            f" command: {words[0]} and args: {words[1:]}, or add args: [] for the file"
        )
    return words
