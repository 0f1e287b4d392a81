"""Calls of the existing coordinator that this server does not have, and what to use in their place."""

from http import HTTPStatus
from typing import Final

from fastapi import APIRouter

from ao_server.problems import refusal

routes = APIRouter(include_in_schema=False)
INSTEAD: Final = {
    "scripts": "Scripts are not kept by this server; use a procedural agent whose `command` is a program on the hosts"
    " of its workers, or the profile `command`",
    "mcp-servers": "There is no registry of MCP servers; write the `url` or `command` of a server into `mcp_servers` of"
    " each agent",
}
METHODS: Final = ["GET", "POST", "PUT", "PATCH", "DELETE"]


@routes.api_route("/scripts", methods=METHODS)
@routes.api_route("/scripts/{rest:path}", methods=METHODS)
async def scripts() -> None:
    """Refuse a call about scripts."""
    raise refusal(HTTPStatus.NOT_IMPLEMENTED, "not_served", INSTEAD["scripts"])


@routes.api_route("/mcp-servers", methods=METHODS)
@routes.api_route("/mcp-servers/{rest:path}", methods=METHODS)
async def mcp_servers() -> None:
    """Refuse a call about the registry of MCP servers."""
    raise refusal(HTTPStatus.NOT_IMPLEMENTED, "not_served", INSTEAD["mcp-servers"])
