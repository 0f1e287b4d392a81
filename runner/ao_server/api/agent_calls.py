"""Agents: create, read, change, delete, and check a document without storing it."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Body, Path, Query
from pydantic import BaseModel

from ao_protocol.contracts import Problem
from ao_protocol.wire import JsonObject
from ao_runner.store.agent_table import StoredAgent
from ao_runner.store.brief_fields import brief
from ao_runner.store.records import timestamp
from ao_runner.store.store import Store
from ao_server.agent_documents import (
    AGENT_NAME,
    NAME_EXPECTED,
    listed_agents,
    problems_of_agent,
    remarks_on_agent,
    shown_agent,
)
from ao_server.api import answers
from ao_server.api.answers import Json, Shape
from ao_server.context import Context, reads
from ao_server.problems import Told, problems_in, refusal
from ao_server.recording import note_targets
from ao_server.versions import Version, Versioned, tag_of

routes = APIRouter(prefix="/agents", tags=["Agents"])
AgentName = Annotated[str, Path(pattern=f"^{AGENT_NAME}$")]
_EXAMPLES: Final[list[Any]] = [{"name": "greeter", "description": "Greets", "system_prompt": "Greet the user."}]
NewDocument = Annotated[Json, Shape(answers.NewAgent), Body(examples=_EXAMPLES)]
AgentDocument = Annotated[Json, Shape(answers.AgentFields), Body(examples=_EXAMPLES)]
AnyFields = Annotated[dict[str, Any], Body(description="Fields of an agent. In a change, null removes a field.")]
AgentJson = Annotated[Json, Shape(answers.Agent)]


class NewStatus(BaseModel):
    """The status of an agent."""

    status: Literal["active", "inactive"]


@routes.get("")
@reads
def list_agents(
    store: Store, tags: Annotated[str, Query(description="Labels that an agent must have, with commas.")] = ""
) -> Annotated[list[Json], Shape(list[answers.ListedAgent])]:
    """List all agents by name."""
    wanted, agents = {tag for tag in tags.split(",") if tag}, listed_agents(store)
    return [brief(shown_agent(agent)) for agent in agents if wanted <= set(agent.document.get("tags") or [])]  # type: ignore[arg-type]  # checked when stored


@routes.post("/check")
@reads
def check_agent(_: Store, document: AnyFields) -> Annotated[Json, Shape(answers.AgentCheck)]:
    """Check a document as for storing it. `problems` prevent that; `remarks` are about parts without effect."""
    problems = _problems(document)
    remarks = [] if problems else remarks_on_agent(document)
    return {"valid": not problems, "problems": problems_in(problems), "remarks": remarks}


@routes.get("/{name}")
@reads
def get_agent(store: Store, name: AgentName, version: Versioned) -> AgentJson:
    """Return an agent."""
    return version.tell(shown_agent(found_agent(store, name)))


@routes.post("", status_code=HTTPStatus.CREATED)
async def create_agent(context: Context, document: NewDocument, version: Versioned) -> AgentJson:
    """Store a new agent. Its schemas are checked; a problem is answered with its place."""
    await _refuse_problems(context, document)
    now = timestamp()
    agent = StoredAgent(str(document["name"]), document, "active", now, now)

    def add(store: Store) -> None:
        if store.agents.find(agent.name) is not None:
            raise Told(HTTPStatus.CONFLICT, "agent_exists", f"Agent already exists: {agent.name}")
        store.agents.put(agent)

    await context.access.write(add)
    note_targets(agent.name)
    version.answer.headers["Location"] = f"/agents/{agent.name}"
    return version.tell(shown_agent(agent))


@routes.put("/{name}")
async def replace_agent(context: Context, name: AgentName, document: AgentDocument, version: Versioned) -> AgentJson:
    """Replace the document of an agent. Sessions that exist keep the one that they began with."""
    document = {**document, "name": name}
    await _refuse_problems(context, document)
    return await _change(context, name, lambda old: replace(old, document=document), version)


@routes.patch("/{name}")
async def change_agent(context: Context, name: AgentName, fields: AnyFields, version: Versioned) -> AgentJson:
    """Replace single fields of an agent; null removes a field."""
    read = await context.access.read(lambda store: found_agent(store, name))
    version.check(shown_agent(read))
    document = {key: value for key, value in {**read.document, **fields, "name": name}.items() if value is not None}
    await _refuse_problems(context, document)
    version = replace(version, wanted=tag_of(shown_agent(read)))
    return await _change(context, name, lambda old: replace(old, document=document), version)


@routes.patch("/{name}/status")
async def set_status(context: Context, name: AgentName, wanted: NewStatus, version: Versioned) -> AgentJson:
    """Activate or deactivate an agent. No run can be added for an inactive one."""
    return await _change(context, name, lambda old: replace(old, status=wanted.status), version)


@routes.delete("/{name}", status_code=HTTPStatus.NO_CONTENT)
async def delete_agent(context: Context, name: AgentName, version: Versioned) -> None:
    """Delete an agent. Its sessions stay, and can be continued."""

    def delete(store: Store) -> None:
        version.check(shown_agent(found_agent(store, name)))
        store.agents.delete(name)

    await context.access.write(delete)


def found_agent(store: Store, name: str) -> StoredAgent:
    """Return an agent.

    Raises:
        HTTPException: There is none.
    """
    agent = store.agents.find(name)
    if agent is None:
        raise Told(HTTPStatus.NOT_FOUND, "agent_not_found", f"Agent not found: {name}")
    return agent


async def _change(
    context: Context, name: str, change: Callable[[StoredAgent], StoredAgent], version: Version
) -> dict[str, Any]:
    def put(store: Store) -> StoredAgent:
        old = found_agent(store, name)
        version.check(shown_agent(old))
        new = replace(change(old), modified_at=timestamp())
        store.agents.put(new)
        return new

    return version.tell(shown_agent(await context.access.write(put)))


async def _refuse_problems(context: Context, document: JsonObject) -> None:
    await context.access.read(lambda _: refuse_agent(_problems(document)))


def refuse_agent(problems: Sequence[Problem]) -> None:
    """Refuse a request with the problems of agents, unless there are none."""
    if problems:
        message = "; ".join(map(str, problems[:3]))
        raise refusal(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid_agent", message, problems=problems_in(problems))


def _problems(document: JsonObject) -> list[Problem]:
    """Return what is wrong with the document of an agent; only its name, if that is not one."""
    name = document.get("name")
    if not isinstance(name, str) or not re.fullmatch(AGENT_NAME, name):
        found = "nothing" if name is None else repr(name)[:100]
        return [Problem("$.name", f"{NAME_EXPECTED}, found {found}")]
    return problems_of_agent(document)
