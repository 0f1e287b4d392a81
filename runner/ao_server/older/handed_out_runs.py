"""A run as an older runner is handed it: its blueprint is resolved, all but the placeholders of the runner."""

import re
from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from ao_protocol.wire import JsonObject, map_texts
from ao_runner.blueprints.placeholders import SCHEMA_FIELDS
from ao_runner.store.records import RunState, Session
from ao_server.shapes import shown_run

_PLACEHOLDER: Final = re.compile(r"(?<!\$)\$\{(params|env|runtime)\.([^}]+)\}")
HIDDEN: Final = "AO_"
"""The prefix of the server's own variables, which no blueprint sees."""


def handed_out(
    state: RunState, session: Session, first_parameters: JsonObject, environ: Mapping[str, str], own_folder: str
) -> JsonObject:
    """Return the JSON of a claimed run.

    Args:
        state: The run.
        session: Its session.
        first_parameters: Those of the session's first run, which fill the placeholders in every run.
        environ: The variables of the server.
        own_folder: The folder of runs that name none, on the host of the server: a runner has one of its own.
    """
    return {
        **shown_run(state, session),
        "project_dir": None if session.project_dir == own_folder else session.project_dir,
        "scope": None,
        "resolved_agent_blueprint": _resolved(state, session, first_parameters, environ),
    }


def _resolved(state: RunState, session: Session, parameters: JsonObject, environ: Mapping[str, str]) -> JsonObject:
    values: dict[str, Mapping[str, JsonValue]] = {
        "params": parameters,
        "env": {name: value for name, value in environ.items() if not name.startswith(HIDDEN)},
        "runtime": {"session_id": session.session_id, "run_id": state.run.run_id, "project_dir": session.project_dir},
    }

    def fill(text: str) -> str:
        return _PLACEHOLDER.sub(lambda found: str(values[found[1]].get(found[2], found[0])), text)

    blueprint: JsonObject = {"type": "autonomous", "tags": [], "capabilities": []}
    blueprint |= {
        name: value if name in SCHEMA_FIELDS else map_texts(value, fill) for name, value in session.blueprint.items()
    }
    if isinstance(servers := blueprint.get("mcp_servers"), dict):
        blueprint["mcp_servers"] = {name: _untyped(server) for name, server in servers.items()}
    schema = (state.run.contract or {}).get("schema")
    return blueprint if schema is None else {**blueprint, "output_schema": schema}


def _untyped(server: JsonValue) -> JsonValue:
    """Return an MCP server as the older contract has it: an HTTP server is a URL with a `config`, its headers."""
    if not isinstance(server, dict) or "url" not in server or server.get("type", "http") != "http":
        return server
    config = server.get("headers", server.get("config"))
    return {"url": server["url"], **({} if config is None else {"config": config})}
