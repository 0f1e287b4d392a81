"""The dialog that starts a run of an agent: a form built from its input schema."""

import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote
from uuid import uuid4

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import RedirectResponse
from pydantic import ValidationError
from starlette.responses import Response

from ao_protocol.contracts import InvalidSchema, Problem
from ao_protocol.inputs import PROMPT_SCHEMA
from ao_protocol.wire import JsonObject
from ao_runner.errors import RunnerError
from ao_runner.named_schemas.registry import SchemaRegistry
from ao_runner.runs.submission import RefusalReason, RunRefused
from ao_runner.store.agent_table import StoredAgent
from ao_server.api.run_calls import submitted
from ao_server.context import Context, ServerContext
from ao_server.pages.draft import checked_json, checked_schema
from ao_server.pages.editor import FoundAgent, profile_names
from ao_server.pages.errors import told
from ao_server.pages.form_fields import FormField, by_field, every_field, fields_of, texts_of, value_of
from ao_server.pages.rendering import page
from ao_server.pages.samples import sample_of
from ao_server.pages.uploads import ATTACHED, read_form
from ao_server.submission import RunBody, digest_of

routes = APIRouter(include_in_schema=False)
OPTIONS: Final = ("profile", "project_dir", "priority", "output_schema_name")
JSON_OPTIONS: Final = ("output_schema", "output_schema_options")
RAW: Final = "raw"
_SAID: Final = {"project_dir": "expected an absolute path"}


@routes.get("/ui/agents/{name}/run")
async def show_dialog(request: Request, context: Context, agent: FoundAgent, sample: bool = False) -> Response:
    """Show the form, with the defaults of the schema or with a sample."""
    schema = _schema_of(agent)
    fields = fields_of(schema)
    value: Any = {}
    if sample:
        try:
            value = await context.access.read(lambda _: sample_of(schema))
        except InvalidSchema:
            value = {}
    given = texts_of(fields, value if isinstance(value, dict) else {})
    if sample and not fields:
        given[RAW] = json.dumps(value, indent=2, ensure_ascii=False)
    return await _shown(request, context, agent, given, {})


@routes.post("/ui/agents/{name}/run")
async def start_run(request: Request, context: Context, agent: FoundAgent) -> Response:
    """Queue a run and show it, or show what is wrong with its parameters."""
    given, attached = await read_form(request)
    fields = fields_of(_schema_of(agent))
    if given.get(RAW, "").strip():
        raw = checked_json(given[RAW])
        parameters = raw.value or {}
        errors = {RAW: [problem.message for problem in raw.problems]} if raw.problems else {}
    else:
        problems: list[Problem] = []
        parameters = value_of(fields, given, problems)
        errors = by_field(fields, problems)
    wanted, faults = _options_in(given)
    errors = {**errors, **faults}
    try:
        run = RunBody(
            type="start_session", agent_name=agent.name, parameters=parameters, attachments=attached, **wanted
        )
        if not errors:
            # Queued once for each form that was sent, however often it is sent; a changed one counts as another.
            key = digest_of([given["key"], run.model_dump(mode="json")]) if given.get("key") else None
            queued = await submitted(context, [run], key)
            return RedirectResponse(f"/ui/runs/{quote(str(queued[0]['run_id']))}", HTTPStatus.SEE_OTHER)
    except ValidationError as error:
        errors |= {(option := str((one["loc"] or ("",))[0])): [_SAID.get(option, one["msg"])] for one in error.errors()}
    except HTTPException as error:
        errors = _errors(fields, error.detail)
    except RunRefused as error:
        errors = _refused(fields, error)
    except RunnerError as error:
        errors = {"": [str(error)]}
    return await _shown(request, context, agent, given, errors)


def _options_in(given: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """Return what the form says of a run besides its parameters, and what is wrong with that, by field."""
    wanted: dict[str, Any] = {key: given[key].strip() for key in OPTIONS if given.get(key, "").strip()}
    if "priority" in wanted and wanted["priority"].removeprefix("-").isdecimal():
        wanted["priority"] = int(wanted["priority"][:20])
    faults: dict[str, list[str]] = {}
    for name in JSON_OPTIONS:
        checked = (checked_schema if name == "output_schema" else checked_json)(given.get(name, ""))
        if checked.problems:
            faults[name] = [f"{one.path}: {one.message}" for one in checked.problems]
        elif checked.value is not None:
            wanted[name] = checked.value
    if "output_schema" in wanted and wanted.pop("output_schema_name", None):
        faults["output_schema"] = ["give a schema or choose a named one, not both"]
    return wanted, faults


def _schema_of(agent: StoredAgent) -> JsonObject:
    """Return the schema of the parameters: that of the agent, else a prompt for a model."""
    schema = agent.document.get("parameters_schema")
    if isinstance(schema, dict):
        return schema
    if agent.document.get("type") == "procedural":
        return {}
    return {**PROMPT_SCHEMA, "properties": {"prompt": {"type": "string", "description": "What the agent is to do."}}}


def _refused(fields: Sequence[FormField], error: RunRefused) -> dict[str, list[str]]:
    if error.reason in {RefusalReason.CONTRACT, RefusalReason.OPTIONS}:
        return {"output_schema_options" if error.reason is RefusalReason.OPTIONS else "": [str(error)]}
    return by_field(fields, error.problems) if error.problems else {"": [str(error)]}


def _errors(fields: Sequence[FormField], detail: Any) -> dict[str, list[str]]:  # noqa: ANN401  # JSON of the API
    """Return an answer of the API as messages at fields."""
    known = detail if isinstance(detail, dict) else {}
    if found := known.get("validation_errors"):
        return by_field(fields, [Problem(one["path"], one["message"]) for one in found])
    message, problems = told(detail)
    return {"": [message, *problems]}


async def _shown(
    request: Request,
    context: ServerContext,
    agent: StoredAgent,
    given: Mapping[str, str],
    errors: Mapping[str, Sequence[str]],
) -> Response:
    document = agent.document
    takes_schema = not document.get("output_schema") and not document.get("output_format")
    schemas = await context.access.read(lambda store: SchemaRegistry(store).list()) if takes_schema else []
    fields = fields_of(_schema_of(agent))
    shown = {field.name for field in every_field(fields)} | {
        *OPTIONS,
        *(JSON_OPTIONS if takes_schema else ()),
        RAW,
        ATTACHED,
    }
    return page(
        request,
        "agent_run.html",
        HTTPStatus.UNPROCESSABLE_ENTITY if errors else HTTPStatus.OK,
        agent=agent,
        fields=fields,
        given=given,
        errors=errors,
        elsewhere=[message for name, found in errors.items() if name not in shown for message in found],
        profiles=profile_names(context),
        key=uuid4().hex,
        schemas=[schema.name for schema in schemas],
        takes_schema=takes_schema,
    )
