"""What judging by a schema can cost: whether it ends, and how many checks one value can take.

A reference that comes back to the same value never ends. Alternatives that refer to alternatives double at every
level (measured: 20 levels of two take a million checks). Inside a recursive schema the engine remembers verdicts, so
a way back counts once.
"""

from collections.abc import Callable, Iterator
from typing import Final

from ao_protocol.json_path import below
from ao_protocol.output.problems import Problem
from ao_protocol.output.schema_references import Applied, Catalogue, Node, Reach

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
    by_reach: dict[Applied, int] = {}
    for applied, target in _applied(catalogue, node):
        by_reach[applied] = by_reach.get(applied, 0) + costs.get(target.pointer, 1)
    named = max((cost for applied, cost in by_reach.items() if not isinstance(applied, Reach)), default=0)
    return 1 + named + sum(cost for applied, cost in by_reach.items() if isinstance(applied, Reach))


def _applied(catalogue: Catalogue, node: Node) -> Iterator[tuple[Applied, Node]]:
    """Yield what a schema applies to the value or its members; beside a `$ref` everything is ignored."""
    if "$ref" not in node.schema:
        for applied, pointer in node.inside:
            if applied is not Reach.NOTHING:
                yield applied, catalogue.nodes[pointer]
    elif node.target in catalogue.nodes:
        yield Reach.SAME_VALUE, catalogue.nodes[node.target]


def _depth_first(starts: list[Node], neighbours: Callable[[Node], list[Node]]) -> Iterator[tuple[Node, Node | None]]:
    """Yield every node after its neighbours, and before that each way from it back to a node still open."""
    is_open: dict[str, bool] = {}
    for start in starts:
        if start.pointer in is_open:
            continue
        is_open[start.pointer] = True
        stack = [(start, iter(neighbours(start)))]
        while stack:
            node, remaining = stack[-1]
            neighbour = next(remaining, None)
            if neighbour is None:
                stack.pop()
                is_open[node.pointer] = False
                yield node, None
            elif neighbour.pointer not in is_open:
                is_open[neighbour.pointer] = True
                stack.append((neighbour, iter(neighbours(neighbour))))
            elif is_open[neighbour.pointer]:
                yield node, neighbour
