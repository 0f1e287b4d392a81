"""Two runs side by side: what they were asked, what they answered, what that took, and whether the answer was valid."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import unified_diff
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from ao_runner.store.run_filter import RunFilter
from ao_runner.store.store import Store
from ao_server.api.run_calls import found_run
from ao_server.context import reads
from ao_server.pages.rendering import page
from ao_server.pages.run_view import RunRow, duration, head_of, money, rows_of, tokens
from ao_server.pages.timeline import cut, pretty

routes = APIRouter(include_in_schema=False)
MOST_OFFERED: Final = 20
MOST_COMPARED: Final = 20_000
"""The characters of an answer that are compared by line."""
MOST_LINES: Final = 400


@dataclass(frozen=True, slots=True)
class Fact:
    """A line of the comparison: what it is about, and what stands there for each run."""

    name: str
    values: tuple[str, str]

    @property
    def differs(self) -> bool:
        """Whether the runs differ in it."""
        return self.values[0] != self.values[1]


@routes.get("/ui/runs/compare")
@reads
def compare(
    store: Store, request: Request, a: str = "", b: str = "", run_id: Annotated[Sequence[str], Query()] = ()
) -> Response:
    """Show two runs side by side; with one, offer those that it can be compared with. `run_id` is of a list."""
    wanted = [one for one in (a, b, *run_id) if one][:2]
    states = [found_run(store, one) for one in dict.fromkeys(wanted)]
    shown: dict[str, Any] = {"offered": [], "facts": [], "diff": [], "heads": [], "too_many": len(run_id) > 2}
    if len(states) == 2:
        heads = [head_of(store, state) for state in states]
        facts = [_facts(head) for head in heads]
        shown["facts"] = [Fact(name, (facts[0][name], facts[1][name])) for name in facts[0]]
        shown["heads"] = heads
        shown["asked"] = [pretty(dict(state.run.parameters)) for state in states]
        answers = [_answer(head) for head in heads]
        shown["answers"] = [cut(one, 4_000) for one in answers]
        shown["diff"] = _difference([one[:MOST_COMPARED] for one in answers])
    elif states:
        name = states[0].agent_name
        found = store.runs.search(RunFilter(agent=name or None, limit=MOST_OFFERED + 1))
        shown["offered"] = [row for row in rows_of(store, found) if row.run_id != states[0].run.run_id]
    return page(request, "compare.html", rows=rows_of(store, states), **shown)


def _facts(head: dict[str, Any]) -> dict[str, str]:
    row: RunRow = head["row"]
    used, contract = row.usage, head["contract"]
    verdict = contract and contract["schema_validation"]
    valid = "no contract" if not contract else "valid" if verdict and verdict["valid"] else "not valid"
    return {
        "State": row.shown_state,
        "Agent": row.state.agent_name or "no agent",
        "Profile": row.state.run.profile or "–",
        "Validation": "being checked" if contract and not verdict and row.is_open else valid,
        "Answers checked": str(len(contract["attempts"])) if contract else "0",
        "Took": duration(row.seconds) or "–",
        "Cost": (used and money(used.cost_usd)) or "–",
        "Tokens in": tokens(used.input_tokens) if used else "–",
        "Tokens out": tokens(used.output_tokens) if used else "–",
    }


def _answer(head: dict[str, Any]) -> str:
    """Return what a run came to: its result, or its fault."""
    result, failure = head["result"], head["failure"]
    if failure is not None:
        return f"{failure.error.type}: {failure.error.message}"
    if result is None:
        return ""
    data = result.result_data
    return result.result_text or "" if data is None else json.dumps(data, indent=2, ensure_ascii=False)


def _difference(answers: Sequence[str]) -> list[tuple[str, str]]:
    """Return the lines of two answers that differ, and three around each, with `add`, `del`, `at` or nothing."""
    kinds = {"+": "add", "-": "del", "@": "at"}
    before, after = (one.splitlines() for one in answers)
    lines = list(unified_diff(before, after, lineterm=""))[2 : MOST_LINES + 2]
    return [(kinds.get(line[:1], ""), line[:2_000]) for line in lines]
