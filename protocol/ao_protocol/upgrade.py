"""Invocations of schema 2.1 and 2.2 in the shape of 3.0 (SPEC 2.3)."""

import json
from typing import Final

from pydantic import JsonValue

from ao_protocol.version import SchemaVersion

_FIRST_WITH_PARAMETERS: Final = SchemaVersion(2, 2)


def upgrade_invocation(document: dict[str, JsonValue], version: SchemaVersion) -> dict[str, JsonValue]:
    """Return the document as 3.0 would have written it. A document of 3.x is returned as it is.

    2.1 has `prompt` where later versions have `parameters`. `output_schema_hint` becomes the run's own schema:
    in those versions the coordinator enforced it, in 3.0 the executor does. It never replaced the agent's own
    contract, and beside one it goes. Their stdin carried no control lines. Their MCP servers had no `type`.
    """
    if version.major >= 3:
        return document
    upgraded = dict(document)
    prompt = upgraded.pop("prompt", None) if version < _FIRST_WITH_PARAMETERS else None
    if prompt is not None:
        upgraded["parameters"] = {"prompt": prompt}
    hint = upgraded.pop("output_schema_hint", None)
    if hint is not None and not _has_its_own_contract(upgraded.get("agent_blueprint")):
        upgraded |= {"output_schema": hint, "output_schema_source": "inline"}
    upgraded.pop("control", None)
    blueprint = upgraded.get("agent_blueprint")
    if isinstance(blueprint, dict):
        upgraded["agent_blueprint"] = with_typed_servers(blueprint)
    return upgraded


def with_typed_servers(blueprint: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Return a blueprint of 2.x with its MCP servers in the form of 3.0.

    A server of 2.x that has a `url` and no `type` is an HTTP server that a run can do without, and its `config` holds
    the headers. The coordinator of 2.x writes servers only in this form. A name in `headers` keeps that value.
    """
    servers = blueprint.get("mcp_servers")
    if not isinstance(servers, dict):
        return blueprint
    return {**blueprint, "mcp_servers": {name: _typed_server(server) for name, server in servers.items()}}


def _typed_server(server: JsonValue) -> JsonValue:
    if not isinstance(server, dict) or "url" not in server:
        return server
    typed = dict(server)
    if typed.get("type") is None:
        typed |= {"type": "http", "required": typed.get("required", False)}
    config, headers = typed.get("config"), typed.get("headers")
    if isinstance(config, dict):
        del typed["config"]
        texts: dict[str, JsonValue] = {name: _header_text(value) for name, value in config.items() if value is not None}
        typed["headers"] = texts | (headers if isinstance(headers, dict) else {})
    return typed


def _header_text(value: JsonValue) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _has_its_own_contract(blueprint: JsonValue) -> bool:
    fields = ("output_schema", "output_format")
    return isinstance(blueprint, dict) and any(blueprint.get(field) is not None for field in fields)
