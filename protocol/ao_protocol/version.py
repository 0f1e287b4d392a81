"""Schema versions: those that this package speaks, negotiation, and the upgrade of 2.x (SPEC 2).

Versions are pairs of numbers and members of a list; they are never compared as text.
"""

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from ao_protocol.json_words import shown

if TYPE_CHECKING:
    from pydantic import JsonValue  # an executor imports this before its first event: no slow import

_WRITTEN: Final = re.compile(r"(0|[1-9][0-9]{0,5})\.(0|[1-9][0-9]{0,5})")


class SchemaVersion(NamedTuple):
    """A protocol version `major.minor`. A new major changes meaning, a new minor only adds."""

    major: int
    minor: int

    @classmethod
    def parse(cls, text: object) -> Self:
        """Return the version that a text such as `"3.0"` names.

        Raises:
            MalformedSchemaVersion: The value is not a string of two decimal numbers joined by a dot.
        """
        written = _WRITTEN.fullmatch(text) if isinstance(text, str) else None
        if written is None:
            expected = f"expected a string such as {shown(str(CURRENT))}"
            raise MalformedSchemaVersion(f"schema_version is {shown(text)}, {expected}")
        return cls(int(written[1]), int(written[2]))

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


CURRENT: Final = SchemaVersion(3, 0)
SUPPORTED: Final = (CURRENT, SchemaVersion(2, 2), SchemaVersion(2, 1))


class MalformedSchemaVersion(ValueError):
    """A `schema_version` that is missing, or not written as `major.minor`."""


class UnsupportedSchemaVersion(ValueError):
    """A major version that this package does not speak."""


def supported_texts() -> list[str]:
    """Return the supported versions as written on the wire, newest first."""
    return [str(version) for version in SUPPORTED]


def negotiate(requested: SchemaVersion) -> SchemaVersion:
    """Return the version of a run: never newer than the one requested.

    Every minor version of a major version that is spoken is accepted (SPEC 2, AOX-012). Additions of a newer minor
    version are ignored.

    Raises:
        UnsupportedSchemaVersion: This package speaks no version of that major version.
    """
    known = [version for version in SUPPORTED if version.major == requested.major]
    if not known:
        supported = ", ".join(supported_texts())
        raise UnsupportedSchemaVersion(f"schema_version {requested} is not supported; supported are {supported}")
    return min(requested, max(known))


def announced_version(document: Mapping[str, object]) -> SchemaVersion:
    """Return `run_started.schema_version` for an invocation, also for one that will be refused."""
    try:
        return negotiate(SchemaVersion.parse(document.get("schema_version")))
    except (MalformedSchemaVersion, UnsupportedSchemaVersion):
        return CURRENT


def upgrade_invocation(document: "dict[str, JsonValue]", version: SchemaVersion) -> "dict[str, JsonValue]":
    """Return an invocation in the form of 3.0 (SPEC 2.3). A document of 3.x is returned unchanged.

    `prompt` of 2.1 becomes `parameters`. `output_schema_hint` becomes the run's inline schema: in 2.x the coordinator
    enforced it, in 3.0 the executor does. It never replaced the agent's own contract, and is dropped beside one.
    `control` is dropped, because 2.x has no control lines. MCP servers get a `type`.
    """
    if version.major >= 3:
        return document
    upgraded = dict(document)
    prompt = upgraded.pop("prompt", None) if version < SchemaVersion(2, 2) else None
    if prompt is not None:
        upgraded["parameters"] = {"prompt": prompt}
    hint = upgraded.pop("output_schema_hint", None)
    upgraded.pop("control", None)
    blueprint = upgraded.get("agent_blueprint")
    if isinstance(blueprint, dict):
        upgraded["agent_blueprint"] = with_typed_servers(blueprint)
        if any(blueprint.get(name) is not None for name in ("output_schema", "output_format")):
            hint = None
    if hint is not None:
        upgraded |= {"output_schema": hint, "output_schema_source": "inline"}
    return upgraded


def with_typed_servers(blueprint: "dict[str, JsonValue]") -> "dict[str, JsonValue]":
    """Return a blueprint of 2.x with its MCP servers in the form of 3.0.

    A server of 2.x with `url` and without `type` becomes an HTTP server that is not required. Its `config` becomes
    `headers`; a value in `headers` takes precedence. The coordinator of 2.x writes servers only in this form.
    """
    servers = blueprint.get("mcp_servers")
    if not isinstance(servers, dict):
        return blueprint
    return {**blueprint, "mcp_servers": {name: _typed_server(server) for name, server in servers.items()}}


def _typed_server(server: "JsonValue") -> "JsonValue":
    if not isinstance(server, dict) or "url" not in server:
        return server
    typed = dict(server)
    if typed.get("type") is None:
        typed |= {"type": "http", "required": typed.get("required", False)}
    config, headers = typed.get("config"), typed.get("headers")
    if isinstance(config, dict):
        del typed["config"]
        texts: dict[str, JsonValue] = {
            name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            for name, value in config.items()
            if value is not None
        }
        typed["headers"] = texts | (headers if isinstance(headers, dict) else {})
    return typed
