"""The named schemas: list, create, read, delete."""

from http import HTTPStatus
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Form, Request
from fastapi.responses import RedirectResponse
from pydantic import BaseModel
from starlette.responses import Response

from ao_runner.named_schemas.registry import BadSchemaName, NameTaken, SchemaRegistry
from ao_runner.named_schemas.vetting import UnacceptableSchema
from ao_runner.store.store import Store
from ao_server.api.schema_calls import NewSchema, SchemaName, create_schema, delete_schema
from ao_server.context import Context, ServerContext, reads
from ao_server.pages.draft import CheckedText, PlacedRemark, checked_sample, checked_schema, filled_sample, written
from ao_server.pages.rendering import page
from ao_server.versions import Version

routes = APIRouter(include_in_schema=False)


class SchemaDraft(BaseModel):
    """The fields of the form."""

    name: str = ""
    description: str = ""
    output_schema: str = ""
    output_sample: str = ""


SchemaForm = Annotated[SchemaDraft, Form()]


@routes.get("/ui/schemas")
@reads
def list_schemas(store: Store, request: Request) -> Response:
    """Show all named schemas."""
    return page(request, "schemas.html", schemas=SchemaRegistry(store).list())


@routes.get("/ui/schemas/_new")
async def new_schema(request: Request, context: Context) -> Response:
    """Show the form for a new schema."""
    return await _shown(request, context, SchemaDraft())


@routes.post("/ui/schemas/_check")
async def check_schema(
    request: Request, context: Context, draft: SchemaForm, do: Annotated[str, Form()] = ""
) -> Response:
    """Show the form again with what is wrong with the schema, or with a sample."""
    return await _shown(request, context, draft, do=do)


@routes.post("/ui/schemas/_new")
async def add_schema(request: Request, context: Context, draft: SchemaForm) -> Response:
    """Store a schema under a name, or show what is wrong."""
    verdict = await context.access.read(lambda _: checked_schema(draft.output_schema))
    problem = "" if verdict.value or verdict.problems else "a schema is a JSON object, and not empty"
    if verdict.problems or verdict.value is None:
        return await _shown(request, context, draft, problem=problem, status=HTTPStatus.UNPROCESSABLE_ENTITY)
    wanted = {"name": draft.name, "description": draft.description or None, "schema": verdict.value}
    try:
        await create_schema(context, NewSchema.model_validate(wanted), Version())
    except (BadSchemaName, NameTaken, UnacceptableSchema) as error:
        return await _shown(request, context, draft, problem=str(error), status=HTTPStatus.UNPROCESSABLE_ENTITY)
    return RedirectResponse(f"/ui/schemas/{quote(draft.name)}", HTTPStatus.SEE_OTHER)


@routes.get("/ui/schemas/{name}")
@reads
def show_schema(store: Store, request: Request, name: SchemaName) -> Response:
    """Show a named schema."""
    schema = SchemaRegistry(store).get(name)
    used = schema.used_by_runs
    runs = "1 run" if used == 1 else f"{used} runs"
    why_not = f"{runs} used schema {name!r}, and results refer to it; delete the sessions of those runs first"
    return page(request, "schema.html", schema=schema, text=written(schema.schema), why_not=why_not if used else "")


@routes.post("/ui/schemas/{name}/delete")
async def delete(context: Context, name: SchemaName) -> RedirectResponse:
    """Delete a schema that no run has used."""
    await delete_schema(context, name, Version())
    return RedirectResponse("/ui/schemas", HTTPStatus.SEE_OTHER)


async def _shown(
    request: Request, context: ServerContext, draft: SchemaDraft, *, do: str = "", problem: str = "", status: int = 200
) -> Response:
    def check(_: object) -> tuple[CheckedText, CheckedText | None]:
        verdict = checked_schema(draft.output_schema)
        if do == "sample-output":
            draft.output_sample = filled_sample(verdict)
        return verdict, checked_sample(draft.output_sample, verdict)

    verdict, sample = await context.access.read(check)
    named = [PlacedRemark("$.name", problem)] if problem else []
    return page(
        request, "schema_new.html", status, draft=draft, verdict=verdict, sample_verdict=sample, problems=named, do=do
    )
