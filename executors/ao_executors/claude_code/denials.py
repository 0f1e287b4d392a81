"""What would allow a tool call that the CLI denied, in one line."""

import re
import shlex
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from ao_executors.claude_code.config import DEFAULT_PERMISSION_MODE
from ao_protocol.wire import JsonObject

_RULE_REASONS: Final = frozenset({"rule", "subcommandResults"})
_PLAIN_COMMAND: Final = re.compile(r"([A-Za-z][\w+-]*)( [\w+:,@-][\w.+:,@=-]*)*")
"""A command without a path: one with a path is also judged by where that leads."""


def what_allows(tool: str, tool_input: Any, denial: Mapping[str, Any], config: JsonObject) -> str:  # noqa: ANN401
    """Return what would allow a call. `denial` is the CLI's `permission_denied` message."""
    settings: Any = config  # checked against the config schema
    mode = settings.get("permission_mode", DEFAULT_PERMISSION_MODE)
    if denial.get("decision_reason_type") in _RULE_REASONS and "denied" in str(denial.get("message")):
        rules = [rule for rule in settings.get("disallowed_tools", ()) if rule.partition("(")[0] == tool]
        return f"a rule denies it: take it out of {_listed('disallowed_tools', rules)}"
    if mode == "plan":
        return f"permission_mode plan changes nothing: use --permission-mode dontAsk and --allow {tool}"
    if tool in settings.get("allowed_tools", ()):
        return f"{tool} is allowed, but not this: the CLI protects it except with --permission-mode bypassPermissions"
    return f"allow it with --allow {shlex.quote(_rule(tool, tool_input))} (executor_config: allowed_tools)"


def what_enables(tool: str, config: JsonObject) -> str:
    """Return what would give the model a tool that the configuration leaves out."""
    settings: Any = config
    if tool in settings.get("disallowed_tools", ()):
        return f"it is not available: take {tool} out of disallowed_tools"
    return f"it is not available: add {tool} to tools (executor_config)"


def _listed(where: str, rules: list[str]) -> str:
    return f"{where} ({', '.join(rules)})" if rules else "the settings files of the CLI"


def _rule(tool: str, tool_input: Any) -> str:  # noqa: ANN401  # any JSON
    given = tool_input if isinstance(tool_input, dict) else {}
    if tool == "Bash" and (command := _PLAIN_COMMAND.fullmatch(str(given.get("command")))):
        return f"Bash({command[1]} *)"
    if tool == "WebFetch" and (host := urlsplit(str(given.get("url"))).hostname):
        return f"WebFetch(domain:{host})"
    return tool
