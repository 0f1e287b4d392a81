"""Limits: how many runs of an agent or of a profile may run at a time. A profile with the limit 0 is paused."""

from dataclasses import asdict
from http import HTTPStatus
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Path
from pydantic import BaseModel, ConfigDict, Field

from ao_protocol.written import check_name
from ao_runner.store.limit_table import RunLimit
from ao_runner.store.store import Store
from ao_server.api import answers
from ao_server.api.answers import Json, Shape
from ao_server.context import Context, ServerContext, reads
from ao_server.problems import Told, refusal
from ao_server.request_text import Segment

routes = APIRouter(prefix="/limits", tags=["Limits"])
Kind = Literal["agent", "profile"]
MAX_NAME: Final = 1000
Name = Annotated[str, Path(min_length=1, max_length=MAX_NAME), Segment]
MOST: Final = 1_000_000


class NewLimit(BaseModel):
    """How many runs may run at a time."""

    model_config = ConfigDict(extra="forbid")

    most: int = Field(
        strict=True, ge=0, le=MOST, description="0 pauses: runs that are running go on, and no other one begins."
    )


@routes.get("")
@reads
def list_limits(store: Store) -> Annotated[Json, Shape(answers.RunLimits)]:
    """List the limits. A `pause` ends by itself: a usage limit of the provider was met."""
    return {"limits": [asdict(limit) for limit in store.limits.all()]}


@routes.put("/{kind}/{name:path}")
async def put_limit(
    context: Context, kind: Kind, name: Name, wanted: NewLimit
) -> Annotated[Json, Shape(answers.ChangedLimit)]:
    """Set the limit of an agent or profile, or replace it."""
    check_name(name, MAX_NAME)
    await context.access.write(lambda store: store.limits.put(RunLimit(kind, name, wanted.most)))
    context.access.notify()
    return {"kind": kind, "name": name, "most": wanted.most}


@routes.delete("/{kind}/{name:path}", status_code=HTTPStatus.NO_CONTENT)
async def delete_limit(context: Context, kind: Kind, name: Name) -> None:
    """Remove the limit of an agent or profile, and the pause of a profile at a usage limit."""
    if not await context.access.write(lambda store: _remove(store, kind, name)):
        raise Told(HTTPStatus.NOT_FOUND, "limit_not_found", f"{kind} {name} has no limit")
    context.access.notify()


async def pause_profile(context: ServerContext, name: str) -> None:
    """Let no other run of a profile begin. A limit above 0 is not replaced, since a resume could not restore it."""

    def pause(store: Store) -> int:
        most = next((one.most for one in store.limits.all() if (one.kind, one.name) == ("profile", name)), 0)
        if most == 0:
            store.limits.put(RunLimit("profile", name, 0))
        return most

    if most := await context.access.write(pause):
        message = f"Profile {name} has a limit of {most} runs, which a pause would replace; set the limit itself to 0:"
        message += f" ao limits set --profile {name} 0"
        raise refusal(HTTPStatus.CONFLICT, "has_limit", message, most=most)


async def resume_profile(context: ServerContext, name: str) -> None:
    """End a pause of a profile. A limit above 0 stays."""

    def resume(store: Store) -> None:
        for limit in store.limits.all():
            if limit.name == name and limit.kind != "agent" and limit.most == 0:
                store.limits.remove(limit.kind, name)

    await context.access.write(resume)
    context.access.notify()


def _remove(store: Store, kind: Kind, name: str) -> bool:
    is_removed = store.limits.remove(kind, name)
    return (kind == "profile" and store.limits.remove("pause", name)) or is_removed
