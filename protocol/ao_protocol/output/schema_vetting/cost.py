"""What judging by a schema can cost: whether it ends, and how many checks one value can take.

A reference that comes back to the same value never ends. Alternatives that refer to alternatives double at every
level (measured: 20 levels of two take a million checks). Inside a recursive schema the engine remembers verdicts, so
a way back counts once.
"""

from collections.abc import Callable, Iterator
from enum import Enum
from typing import Final

from ao_protocol.json_path import below
from ao_protocol.output.problems import Problem
from ao_protocol.output.schema_vetting.references import Catalogue, Node
from ao_protocol.output.schema_vetting.subschemas import Applied, Member, Reach, subschemas
from ao_protocol.output.verdicts import pointer_below

MAX_CHECKS: Final = 20_000
"""The most checks that one value may take; a large schema of 300 alternatives takes under 1,000."""


def endless_references(catalogue: Catalogue) -> Iterator[Problem]:
    """Yield each reference by which a schema comes back to itself without going on to a smaller value."""

    def same_value(node: Node) -> list[Node]:
        return [target for applied, target in _applied(catalogue, node) if applied is Reach.SAME_VALUE]

    for node, way_back in _depth_first(list(catalogue.nodes.values()), same_value):
        if way_back is not None:
            place = below(node.path, "$ref") if node.target is not None else node.path
            yield Problem(place, f"comes back to {way_back.path} for the same value, without end")


def excessive_cost(catalogue: Catalogue) -> Iterator[Problem]:
    """Yield the innermost schema that may take more than `MAX_CHECKS` checks for one value, if there is one.

    Call it only where nothing is endless.
    """
    costs: dict[str, int] = {}

    def applied_to_any(node: Node) -> list[Node]:
        return [target for _, target in _applied(catalogue, node)]

    for node, way_back in _depth_first([catalogue.nodes[""]], applied_to_any):
        if way_back is None:
            costs[node.pointer] = _cost(catalogue, node, costs)
            if costs[node.pointer] > MAX_CHECKS:
                yield Problem(node.path, f"one value may take more than {MAX_CHECKS} checks: use fewer alternatives")
                return


def _cost(catalogue: Catalogue, node: Node, costs: dict[str, int]) -> int:
    """Return the checks for the value itself and for whichever of its members takes most."""
    itself = 1
    of_member: dict[Applied, int] = {}
    for applied, target in _applied(catalogue, node):
        cost = costs.get(target.pointer, 1)
        if applied is Reach.SAME_VALUE:
            itself += cost
        else:
            of_member[applied] = of_member.get(applied, 0) + cost
    unnamed = of_member.get(Reach.ANY_MEMBER, 0) + of_member.get(Reach.ANY_ITEM, 0)
    named = max((cost for applied, cost in of_member.items() if isinstance(applied, Member)), default=0)
    return itself + unnamed + named


def _applied(catalogue: Catalogue, node: Node) -> Iterator[tuple[Applied, Node]]:
    if node.target is not None:
        if node.target in catalogue.nodes:
            yield Reach.SAME_VALUE, catalogue.nodes[node.target]
        return
    for subschema in subschemas(node.schema):
        if isinstance(subschema.schema, dict) and subschema.applied is not Reach.NOTHING:
            yield subschema.applied, catalogue.nodes[_pointer_to(node, subschema.steps)]


def _pointer_to(node: Node, steps: tuple[str | int, ...]) -> str:
    pointer = node.pointer
    for step in steps:
        pointer = pointer_below(pointer, step)
    return pointer


class _Visit(Enum):
    OPEN = 1
    DONE = 2


def _depth_first(starts: list[Node], neighbours: Callable[[Node], list[Node]]) -> Iterator[tuple[Node, Node | None]]:
    """Yield every node after its neighbours, and before that each way from it back to a node still open."""
    visits: dict[str, _Visit] = {}
    for start in starts:
        if start.pointer in visits:
            continue
        visits[start.pointer] = _Visit.OPEN
        stack = [(start, iter(neighbours(start)))]
        while stack:
            node, remaining = stack[-1]
            neighbour = next(remaining, None)
            if neighbour is None:
                stack.pop()
                visits[node.pointer] = _Visit.DONE
                yield node, None
            elif neighbour.pointer not in visits:
                visits[neighbour.pointer] = _Visit.OPEN
                stack.append((neighbour, iter(neighbours(neighbour))))
            elif visits[neighbour.pointer] is _Visit.OPEN:
                yield node, neighbour
