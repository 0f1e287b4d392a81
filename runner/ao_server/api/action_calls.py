"""The record of actions: who has changed what, as `/ui/actions` shows it."""

from dataclasses import asdict
from typing import Annotated, Final

from fastapi import APIRouter, Query
from pydantic import BaseModel

from ao_runner.store.store import Store
from ao_server.context import reads

routes = APIRouter(tags=["Actions"])
MOST: Final = 200


class ShownAction(BaseModel):
    """A request that has changed something. Without a name or a demanded token, these are empty."""

    number: int
    at: str
    role: str
    name: str
    what: str
    target: str


class Actions(BaseModel):
    """Actions, newest first. `next_before` is null after the last one."""

    actions: list[ShownAction]
    next_before: int | None


@routes.get("/actions")
@reads
def list_actions(
    store: Store,
    before: Annotated[int | None, Query(ge=1, lt=2**62, description="Only those with a smaller number.")] = None,
    limit: Annotated[int, Query(ge=1, le=MOST)] = MOST,
) -> Actions:
    """List what clients and pages have changed, newest first, with the role and name of who did it."""
    found = store.actions.newest(before, limit + 1)
    shown = []
    for one in found[:limit]:
        role, _, name = one.role.partition(" ")
        shown.append(ShownAction(**{**asdict(one), "role": role, "name": name}))
    return Actions(actions=shown, next_before=shown[-1].number if len(found) > limit else None)
