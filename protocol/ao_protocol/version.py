"""Schema versions: which ones this package speaks, which one a run will use, and how 2.x is read (SPEC 2).

Versions are pairs of numbers and members of a list; they are never compared as text.
"""

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, Self

if TYPE_CHECKING:
    from pydantic import JsonValue  # this module is on the way to an executor's first event: no heavy import

_WRITTEN: Final = re.compile(r"(0|[1-9][0-9]{0,5})\.(0|[1-9][0-9]{0,5})")


class SchemaVersion(NamedTuple):
    """A protocol version `major.minor`. A new major changes meaning, a new minor only adds."""

    major: int
    minor: int

    @classmethod
    def parse(cls, text: object) -> Self:
        """Read a version such as `"3.0"`.

        Raises:
            MalformedSchemaVersion: `text` is not a string of two decimal numbers joined by a dot.
        """
        written = _WRITTEN.fullmatch(text) if isinstance(text, str) else None
        if written is None:
            raise MalformedSchemaVersion(text)
        return cls(int(written[1]), int(written[2]))

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


CURRENT: Final = SchemaVersion(3, 0)
SUPPORTED: Final = (CURRENT, SchemaVersion(2, 2), SchemaVersion(2, 1))


class MalformedSchemaVersion(ValueError):
    """`schema_version` is there, but is not written as `major.minor`."""

    def __init__(self, found: object) -> None:
        super().__init__(found)
        self.found = found

    def __str__(self) -> str:
        return f"schema_version: found {self.found!r}, expected a string such as {str(CURRENT)!r}"


class UnsupportedSchemaVersion(ValueError):
    """The major version is one that this package does not speak."""

    def __init__(self, requested: SchemaVersion) -> None:
        super().__init__(requested)
        self.requested = requested

    def __str__(self) -> str:
        return f"schema_version {self.requested} is not supported; supported are {', '.join(supported_texts())}"


def supported_texts() -> list[str]:
    """List the supported versions as they stand on the wire, newest first."""
    return [str(version) for version in SUPPORTED]


def negotiate(requested: SchemaVersion) -> SchemaVersion:
    """Return the version that a run will use: never newer than the one requested.

    Any minor of a known major is accepted (SPEC 2, AOX-012): what a newer minor adds is ignored.

    Raises:
        UnsupportedSchemaVersion: no version of that major is spoken here.
    """
    known = [version for version in SUPPORTED if version.major == requested.major]
    if not known:
        raise UnsupportedSchemaVersion(requested)
    return min(requested, max(known))


def announced_version(document: Mapping[str, object]) -> SchemaVersion:
    """Return what `run_started.schema_version` says for an invocation, also one that will be refused."""
    try:
        return negotiate(SchemaVersion.parse(document.get("schema_version")))
    except (MalformedSchemaVersion, UnsupportedSchemaVersion):
        return CURRENT


def upgrade_invocation(document: "dict[str, JsonValue]", version: SchemaVersion) -> "dict[str, JsonValue]":
    """Return the document as 3.0 would have written it. A document of 3.x is returned as it is.

    2.1 has `prompt` where later versions have `parameters`. `output_schema_hint` becomes the run's own schema:
    in those versions the coordinator enforced it, in 3.0 the executor does. It never replaced the agent's own
    contract, and beside one it goes. Their stdin carried no control lines. Their MCP servers had no `type`.
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

    A server of 2.x that has a `url` and no `type` is an HTTP server that a run can do without, and its `config` holds
    the headers. The coordinator of 2.x writes servers only in this form. A name in `headers` keeps that value.
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
