"""The editor of an agent: a form that is checked as one types, and that works without JavaScript, too."""

import json
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import quote

from fastapi import APIRouter, Depends, Form, HTTPException, Request
from fastapi.responses import RedirectResponse
from starlette.responses import Response

from ao_runner.discovery import list_executors
from ao_runner.profiles import list_profiles
from ao_runner.store.agent_table import StoredAgent
from ao_runner.store.store import Store
from ao_server.api.agent_calls import AgentName, create_agent, found_agent, replace_agent
from ao_server.context import Context, ServerContext
from ao_server.pages.draft import ANSWERS, Draft, Findings, PlacedRemark, checked_sample, filled_sample, findings_of
from ao_server.pages.form_fields import FormField, fields_of, texts_of
from ao_server.pages.rendering import page
from ao_server.versions import Version

routes = APIRouter(include_in_schema=False)
EXAMPLE: Final = Path(__file__).parent / "example-agent.json"
DraftForm = Annotated[Draft, Form()]


async def _agent_of(context: Context, name: AgentName) -> StoredAgent:
    return await context.access.read(lambda store: found_agent(store, name))


FoundAgent = Annotated[StoredAgent, Depends(_agent_of)]
"""The agent that a path names."""


@routes.get("/ui/agents/_new")
async def new_agent(request: Request, context: Context, example: bool = False, copy: str = "") -> Response:
    """Show the form for a new agent: an empty one, the example, or a copy of another agent."""
    draft = Draft()
    if example:
        draft = Draft.of(json.loads(EXAMPLE.read_text(encoding="utf-8")))
    elif copy and (agent := await context.access.read(lambda store: store.agents.find(copy))) is not None:
        draft = Draft.of({**agent.document, "name": f"{agent.name[:90]}-copy"})
    return await _shown(request, context, draft, has_begun=bool(example or copy))


@routes.post("/ui/agents/_new")
async def add_agent(
    request: Request, context: Context, draft: DraftForm, then: Annotated[str, Form()] = ""
) -> Response:
    """Store a new agent, or show what is wrong with it."""
    draft.editing = ""
    findings = await _checked(context, draft)
    if not findings.count:
        try:
            await create_agent(context, findings.document, Version())
        except HTTPException as error:
            findings.add("name", PlacedRemark("$", str(error.detail)))
    return await _stored(request, context, draft, findings, then)


@routes.post("/ui/agents/_check")
async def check_agent(
    request: Request, context: Context, draft: DraftForm, do: Annotated[str, Form()] = ""
) -> Response:
    """Show a form again with what is wrong with it. `do` asks for more: `sample-input`, `sample-output`, `preview`."""
    return await _shown(request, context, draft, do=do)


@routes.get("/ui/agents/{name}")
async def show_agent(request: Request, context: Context, agent: FoundAgent, saved: bool = False) -> Response:
    """Show an agent to change it."""
    draft = Draft.of(agent.document, editing=agent.name, base=agent.modified_at)
    return await _shown(request, context, draft, saved=saved)


@routes.post("/ui/agents/{name}")
async def change_agent(
    request: Request, context: Context, name: AgentName, draft: DraftForm, then: Annotated[str, Form()] = ""
) -> Response:
    """Replace an agent, or show what is wrong. One that somebody else has changed or deleted meanwhile stays."""
    agent = await context.access.read(lambda store: store.agents.find(name) if draft.base else found_agent(store, name))
    draft.editing, draft.name = "" if agent is None else name, name
    findings = await _checked(context, draft)
    if agent is None:
        findings.add("name", PlacedRemark("$", "somebody has deleted the agent; save again to create it anew"))
        return await _stored(request, context, draft, findings, then)
    if draft.base != agent.modified_at:
        draft.base = agent.modified_at
        said = f"somebody else has changed the agent at {agent.modified_at}; save again to replace that"
        findings.add("name", PlacedRemark("$", said))
    if not findings.count:
        await replace_agent(context, agent.name, findings.document, Version())
    return await _stored(request, context, draft, findings, then)


async def _stored(request: Request, context: ServerContext, draft: Draft, findings: Findings, then: str) -> Response:
    if findings.count:
        return await _shown(request, context, draft, findings=findings, status=HTTPStatus.UNPROCESSABLE_ENTITY)
    place = "/run" if then == "run" else "?saved=true"
    return RedirectResponse(f"/ui/agents/{quote(draft.name)}{place}", HTTPStatus.SEE_OTHER)


async def _checked(context: ServerContext, draft: Draft) -> Findings:
    def check(store: Store) -> Findings:
        findings = findings_of(draft)
        if not draft.editing and draft.name and store.agents.find(draft.name) is not None:
            findings.add("name", PlacedRemark("$", "an agent with this name exists; choose another name"))
        return findings

    findings = await context.access.read(check)
    profile = draft.profile
    if not profile or "/" in profile or "$" in profile or profile in profile_names(context):
        return findings
    unknown = (
        f"no profile or executor of this host is called {profile[:100]!r}; only a worker that serves it takes runs"
    )
    return replace(findings, remarks=[*findings.remarks, unknown])


async def _shown(  # noqa: PLR0913  # what a page shows
    request: Request,
    context: ServerContext,
    draft: Draft,
    *,
    findings: Findings | None = None,
    do: str = "",
    status: int = 200,
    has_begun: bool = True,
    saved: bool = False,
) -> Response:
    found = await _checked(context, draft) if findings is None else findings

    def show(store: Store) -> Response:
        if do == "sample-input":
            draft.input_sample = filled_sample(found.input)
        if do == "sample-output":
            draft.output_sample = filled_sample(found.output)
        samples = {
            "input": checked_sample(draft.input_sample, found.input),
            "output": checked_sample(draft.output_sample, found.output),
        }
        shared = {"draft": draft, "findings": found, "answers": ANSWERS, "do": do, "saved": saved, "samples": samples}
        return page(
            request,
            "agent.html",
            status,
            agent=store.agents.find(draft.editing) if draft.editing else None,
            has_begun=has_begun or status != HTTPStatus.OK,
            profiles=profile_names(context),
            preview=_preview(found) if do == "preview" else None,
            **shared,
        )

    return await context.access.read(show)


def _preview(findings: Findings) -> tuple[list[FormField], dict[str, str]] | None:
    if findings.input.value is None or findings.input.problems:
        return None
    fields = fields_of(findings.input.value)
    return fields, texts_of(fields, {})


def profile_names(context: ServerContext) -> list[str]:
    """Return the profiles and executors of the server's host."""
    found = list_profiles(context.settings.home, context.settings.environ)
    return sorted({profile.name for profile in found} | set(list_executors()))
