"""Build the command line of the Claude CLI from a run's context.

Every value is joined to its flag with `=`, so that it is not read as a flag. Long and secret texts are files, because
an argument is limited to 128 KiB and every user of the machine can read it. A schema for native output is an argument:
it is not secret, and `ao_protocol.contracts.contract` limits its length. The parts that the CLI's validator would
refuse are left out or described in words; the answer is validated by the whole schema. Measured on the Claude CLI
2.1.330, which exits at an unknown keyword, at two values of `enum` that are equal in JavaScript, and at a pattern that
is not a regular expression in Unicode mode.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import NAMESPACE_URL, uuid5

from ao_executors.claude_code.claude_config import (
    ASKING_PERMISSION_MODE,
    ASKING_PERMISSION_MODES,
    DEFAULT_PERMISSION_MODE,
    DEFAULT_TOOLS,
    MODES_OF_ACCESS,
    SECRETS,
)
from ao_executors.core import RunContext, answer_tool
from ao_executors.core.executor import lowest, refused
from ao_executors.vendors.mcp_servers import McpServer, blueprint_servers, unexpanded, without_secrets
from ao_protocol.contracts import JsonFormat, Strategy, native_schema
from ao_protocol.contracts.verdicts import pointer_below
from ao_protocol.contracts.vetting import Catalogue
from ao_protocol.documents import Invocation, StdioMcpServer
from ao_protocol.errors import ErrorType

_KNOWN_KEYWORDS: Final = frozenset(
    {"$comment", "$defs", "$ref", "additionalItems", "additionalProperties", "allOf", "anyOf", "const"}
    | {"contains", "default", "definitions", "dependencies", "description", "else", "enum", "examples"}
    | {"exclusiveMaximum", "exclusiveMinimum", "format", "if", "items", "maxItems", "maxLength", "maxProperties"}
    | {"maximum", "minItems", "minLength", "minProperties", "minimum", "multipleOf", "not", "oneOf", "pattern"}
    | {"patternProperties", "properties", "propertyNames", "readOnly", "required", "then", "title", "type"}
    | {"uniqueItems", "writeOnly"}
)
_PORTABLE_PATTERN: Final = re.compile(
    r"""(?: [^\\{}\[\]]                                            # a character, a group, an alternative
          | \\[dDwWsSbBnrtfv^$\\.*+?()\[\]{}|/]                     # an escape that Unicode mode has, too
          | \{\d+(?:,\d*)?\}                                        # a number of times
          | \[\^?(?:[^\\\[\]]|\\[dDwWsSnrtfv^$\\.*+?()\[\]{}|/-])+\]  # one of several characters
        )*""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Files:
    """The files for texts that are too long or too secret for the command line, and for the CLI's log."""

    system_prompt: Path
    mcp_config: Path
    log: Path


def claude_arguments(context: RunContext, files: Files) -> list[str]:
    """Return the arguments, without the program, for a run's context.

    Raises:
        RunFailed: `access` and `permission_mode` contradict each other (`invalid_executor_config`).
    """
    config = context.config
    invocation = context.invocation
    # The tools of the blueprint's MCP servers are allowed: an agent is useless without them.
    allowed = [*config.get("allowed_tools", ()), *(f"mcp__{name}" for name in blueprint_servers(invocation))]
    allowed += [f"mcp__{answer_tool.SERVER}"] if answer_tool.is_offered(context) else []
    contract, json_schema = context.contract, None
    if contract is not None and contract.strategy is Strategy.NATIVE and isinstance(contract.format, JsonFormat):
        json_schema = json.dumps(adapt_to_cli(native_schema(contract.format.schema).document))
    flags = {
        "--output-format": "stream-json",
        "--input-format": "stream-json",
        "--system-prompt-file": files.system_prompt,
        "--mcp-config": files.mcp_config,
        "--debug-file": files.log,
        "--permission-mode": permission_mode(context),
        "--permission-prompt-tool": "stdio" if asks_a_person(context) else None,
        "--setting-sources": ",".join(config.get("setting_sources", ())),
        "--tools": ",".join(config.get("tools", DEFAULT_TOOLS)),
        "--allowedTools": ",".join(allowed) or None,
        "--disallowedTools": ",".join(config.get("disallowed_tools", ())) or None,
        "--model": config.get("model"),
        "--effort": config.get("reasoning_effort"),
        "--thinking-display": "summarized" if shows_reasoning(config) else None,  # else the models write no text of it
        "--max-turns": lowest(config.get("max_turns"), invocation.limits.max_turns),
        "--max-budget-usd": budget_usd(context),
        "--resume": resumed_session(invocation),
        "--session-id": chosen_session(invocation),
        "--json-schema": json_schema,
    }
    written = [f"{flag}={value}" for flag, value in flags.items() if value is not None]
    switches = ["--verbose", "--strict-mcp-config"]
    if config.get("streaming", True) and (contract is None or shows_reasoning(config)):
        switches.append("--include-partial-messages")
    return [*switches, *written, *(f"--add-dir={path}" for path in config.get("additional_folders", ()))]


def shows_reasoning(config: Mapping[str, Any]) -> bool:
    """Return whether events tell what the model thinks."""
    return bool(config.get("show_reasoning", True))


def permission_mode(context: RunContext) -> str:
    """Return the CLI's permission mode: that of the configuration, or one that fits whether a person is asked.

    Raises:
        RunFailed: `access` and `permission_mode` contradict each other (`invalid_executor_config`).
    """
    access, mode = context.config.get("access"), context.config.get("permission_mode")
    allowed = MODES_OF_ACCESS.get(str(access), ())
    if mode is None:
        usual = ASKING_PERMISSION_MODE if context.limits.takes_input else DEFAULT_PERMISSION_MODE
        return allowed[0] if allowed and usual not in allowed else usual
    if allowed and mode not in allowed:
        message = f"{mode} contradicts access {access}, which is {' or '.join(allowed)}: give one of the two settings"
        details = {"violations": [{"pointer": "$.permission_mode", "message": message}]}
        raise refused(ErrorType.INVALID_EXECUTOR_CONFIG, f"executor_config.permission_mode: {message}", details)
    return str(mode)


def asks_a_person(context: RunContext) -> bool:
    """Return whether a person is asked about tool calls that nothing decides."""
    return context.limits.takes_input and permission_mode(context) in ASKING_PERMISSION_MODES


def budget_usd(context: RunContext) -> float | None:
    """Return the cost limit of a run in USD; None without a limit."""
    return lowest(context.config.get("max_budget_usd"), context.invocation.limits.max_cost_usd)


def mcp_config(context: RunContext) -> dict[str, object]:
    """Return the document for `--mcp-config`: the servers of the blueprint, and that of `submit_answer`.

    The CLI starts a server with its own environment. Credentials in it are set to empty, except for those that the
    blueprint gives to the server.
    """
    servers = {name: _entry(server) for name, server in blueprint_servers(context.invocation).items()}
    if answer_tool.is_offered(context):
        servers[answer_tool.SERVER] = {"type": "sdk", "name": answer_tool.SERVER}
    return {"mcpServers": servers}


def _entry(server: McpServer) -> dict[str, Any]:
    document: dict[str, Any] = server.model_dump(mode="json", exclude={"required"})
    if isinstance(server, StdioMcpServer):
        document["env"] = without_secrets(server, SECRETS)
    return unexpanded(document)


def resumed_session(invocation: Invocation) -> str | None:
    """Return the CLI's id of the session to resume; None for a start."""
    if invocation.mode != "resume":
        return None
    return invocation.executor_session_id or _derived_session(invocation)


def chosen_session(invocation: Invocation) -> str | None:
    """Return the id for a new session in versions 2.x, whose resume has no `executor_session_id`; else None."""
    is_older = invocation.schema_version.startswith("2.")
    return _derived_session(invocation) if is_older and invocation.mode == "start" else None


def _derived_session(invocation: Invocation) -> str | None:
    return str(uuid5(NAMESPACE_URL, f"ao-session:{invocation.session_id}")) if invocation.session_id else None


def adapt_to_cli(document: dict[str, Any]) -> dict[str, Any]:
    """Remove from a native schema, in place, the parts that the CLI would refuse, and return it."""
    catalogue = Catalogue(document)
    occupied = {pointer[:end] for pointer in catalogue.nodes for end in _ends(pointer)}
    for node in catalogue.nodes.values():
        schema = node.schema
        for keyword in schema.keys() - _KNOWN_KEYWORDS:
            if pointer_below(node.pointer, keyword) not in occupied:
                del schema[keyword]
        if isinstance(values := schema.get("enum"), list):
            different: dict[str, object] = {}
            for value in values:
                different.setdefault(json.dumps(_numbers_alike(value), sort_keys=True), value)
            schema["enum"] = list(different.values())
        pattern, said = schema.get("pattern"), schema.get("description")
        if isinstance(pattern, str) and not _PORTABLE_PATTERN.fullmatch(pattern):
            del schema["pattern"]
            in_words = f"Matches the regular expression {pattern}"
            schema["description"] = f"{said} {in_words}" if isinstance(said, str) and said else in_words
    return document


def _ends(pointer: str) -> list[int]:
    return [*(place.start() for place in re.finditer("/", pointer)), len(pointer)]


def _numbers_alike(value: object) -> object:
    """Return a value with its numbers as in JavaScript, where 1.0 and 1 are equal."""
    match value:
        case dict():
            return {name: _numbers_alike(member) for name, member in value.items()}
        case list():
            return [_numbers_alike(item) for item in value]
        case float() if value.is_integer():
            return int(value)
        case _:
            return value
