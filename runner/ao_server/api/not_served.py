"""Calls of the existing coordinator that this server does not have, and what to use in their place."""

from http import HTTPStatus
from typing import Final

from fastapi import APIRouter, Request

from ao_server.problems import refusal

routes = APIRouter(include_in_schema=False)
INSTEAD: Final = {
    "scripts": "Scripts are not kept by this server; use a procedural agent whose `command` is a program on the hosts"
    " of its workers, or the profile `command`",
    "mcp-servers": "There is no registry of MCP servers; write the `url` or `command` of a server into `mcp_servers` of"
    " each agent",
}


async def refuse(request: Request) -> None:
    """Refuse a call about something that this server does not keep."""
    raise refusal(HTTPStatus.NOT_IMPLEMENTED, "not_served", INSTEAD[request.url.path.split("/")[1]])


for what in INSTEAD:
    for path in (f"/{what}", f"/{what}/{{rest:path}}"):
        routes.add_api_route(path, refuse, methods=["GET", "POST", "PUT", "PATCH", "DELETE"])
