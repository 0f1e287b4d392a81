"""Named schemas: create, read, delete."""

from http import HTTPStatus
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Path
from pydantic import BaseModel, ConfigDict

from ao_protocol.wire import JsonObject
from ao_runner.named_schemas.registry import Outcome, SchemaRegistry
from ao_runner.store.schema_table import NamedSchema
from ao_runner.store.store import Store
from ao_server.api import answers
from ao_server.api.answers import Json, Shape
from ao_server.context import Context, reads
from ao_server.recording import note_targets
from ao_server.versions import Versioned

routes = APIRouter(prefix="/schemas", tags=["Schemas"])
SchemaName = Annotated[str, Path(max_length=200)]


class NewSchema(BaseModel):
    """A schema under a name. The name stays bound to it as long as a stored run refers to it."""

    model_config = ConfigDict(extra="forbid")

    name: str
    description: str | None = None
    schema_: dict[str, Any]

    model_config["alias_generator"] = lambda name: name.rstrip("_")


@routes.get("")
@reads
def list_schemas(store: Store) -> Annotated[list[Json], Shape(list[answers.SchemaSummary])]:
    """List all named schemas, without their contents."""
    return [_summary(schema) for schema in SchemaRegistry(store).list()]


@routes.post("", status_code=HTTPStatus.CREATED)
async def create_schema(
    context: Context, wanted: NewSchema, version: Versioned
) -> Annotated[Json, Shape(answers.StoredSchema)]:
    """Store a schema under a name. A repetition changes the description only; another schema is refused."""

    def create(registry: SchemaRegistry) -> tuple[Outcome, NamedSchema]:
        return registry.create(wanted.name, wanted.schema_, wanted.description), registry.get(wanted.name)

    outcome, schema = await context.access.write_alone(lambda store: create(SchemaRegistry(store)))
    note_targets(schema.name)
    version.answer.headers["Location"] = f"/schemas/{quote(schema.name)}"
    return {**version.tell(_whole(schema)), "outcome": str(outcome)}


@routes.get("/{name}")
@reads
def get_schema(store: Store, name: SchemaName, version: Versioned) -> Annotated[Json, Shape(answers.NamedSchema)]:
    """Return a named schema."""
    return version.tell(_whole(SchemaRegistry(store).get(name)))


@routes.delete("/{name}", status_code=HTTPStatus.NO_CONTENT)
async def delete_schema(context: Context, name: SchemaName, version: Versioned) -> None:
    """Delete a schema that no run has used."""

    def delete(registry: SchemaRegistry) -> None:
        version.check(_whole(registry.get(name)))
        registry.delete(name)

    await context.access.write_alone(lambda store: delete(SchemaRegistry(store)))


def _summary(schema: NamedSchema) -> JsonObject:
    return {
        "name": schema.name,
        "description": schema.description,
        "created_at": schema.created_at,
        "modified_at": schema.created_at,
        "used_by_runs": schema.used_by_runs,
    }


def _whole(schema: NamedSchema) -> JsonObject:
    return {**_summary(schema), "schema": schema.schema}
