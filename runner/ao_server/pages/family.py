"""The sessions that a session was started by, and those that it has started."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ao_runner.store.store import Store
from ao_server.shapes import current_status, states_by_session

MOST_ANCESTORS: Final = 10
MOST_DESCENDANTS: Final = 100
MOST_LEVELS: Final = 6


@dataclass(frozen=True, slots=True)
class Relative:
    """A session in a tree. `level` is its depth below the oldest one."""

    session_id: str
    agent_name: str
    status: str
    level: int
    is_self: bool = False


def family_of(store: Store, session_id: str) -> list[Relative]:
    """Return a session with its ancestors and descendants, each behind its parent; empty if it has none."""
    ancestors: list[str] = []
    parent = _parent(store, session_id)
    while parent is not None and parent not in ancestors and len(ancestors) < MOST_ANCESTORS:
        ancestors.insert(0, parent)
        parent = _parent(store, parent)
    left = [MOST_DESCENDANTS]
    below = list(_descendants(store, session_id, len(ancestors) + 1, left))
    if not ancestors and not below:
        return []
    levels = {**{one: level for level, one in enumerate(ancestors)}, session_id: len(ancestors), **dict(below)}
    return [
        Relative(one, states[0].agent_name if states else "", current_status(states), levels[one], one == session_id)
        for one, states in states_by_session(store, levels).items()
    ]


def _parent(store: Store, session_id: str) -> str | None:
    found = store.sessions.by_id([session_id]).get(session_id)
    return None if found is None else found.parent_session_id


def _descendants(store: Store, session_id: str, level: int, left: list[int]) -> Iterator[tuple[str, int]]:
    if level > MOST_ANCESTORS + MOST_LEVELS:
        return
    for child in store.sessions.children_of(session_id, left[0]):
        if left[0] <= 0:
            return
        left[0] -= 1
        yield child, level
        yield from _descendants(store, child, level + 1, left)
