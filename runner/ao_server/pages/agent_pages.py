"""The list of agents, and what one does with an agent as a whole."""

from typing import Annotated, Literal

from fastapi import APIRouter, Form, Request
from fastapi.responses import RedirectResponse
from starlette.responses import Response

from ao_runner.store.store import Store
from ao_server.agent_documents import listed_agents
from ao_server.api.agent_calls import AgentName, NewStatus, delete_agent, set_status
from ao_server.context import Context, reads
from ao_server.pages.rendering import page
from ao_server.versions import Version

routes = APIRouter(include_in_schema=False)


@routes.get("/ui/agents")
@reads
def list_agents(store: Store, request: Request) -> Response:
    """Show all agents by name."""
    return page(request, "agents.html", agents=listed_agents(store), runs=store.figures.count_by_agent())


@routes.post("/ui/agents/{name}/status")
async def change_status(
    context: Context, name: AgentName, status: Annotated[Literal["active", "inactive"], Form()]
) -> RedirectResponse:
    """Activate or deactivate an agent."""
    await set_status(context, name, NewStatus(status=status), Version())
    return RedirectResponse("/ui/agents", 303)


@routes.get("/ui/agents/{name}/delete")
async def ask_to_delete(request: Request, name: AgentName) -> Response:
    """Ask whether an agent is to be deleted."""
    return page(request, "agent_delete.html", name=name)


@routes.post("/ui/agents/{name}/delete")
async def delete(context: Context, name: AgentName) -> RedirectResponse:
    """Delete an agent. Its sessions stay."""
    await delete_agent(context, name, Version())
    return RedirectResponse("/ui/agents", 303)
