"""What pages show of a run: a row of a list, and the head of its own page."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from pydantic import JsonValue

from ao_protocol.errors import ErrorType
from ao_protocol.events import Failure, Result, Terminal, UsageFigures
from ao_protocol.short_text import Excerpt
from ao_runner.runs.outcome import terminal_in
from ao_runner.runs.waiting import WaitReason, reasons_to_wait
from ao_runner.store.records import OPEN_STATUSES, RunState
from ao_runner.store.store import Store
from ao_server.pages.calls import seconds_between
from ao_server.pages.rendering import templates
from ao_server.pages.requests import RequestView
from ao_server.pages.timeline import asked_of, cut, in_one_line, pretty
from ao_server.shapes import names_of, shown_contract, terminal_of, verdicts_of

MOST_NODES: Final = 300
MOST_LEVELS: Final = 12
MOST_SESSIONS: Final = 20


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run in a list."""

    state: RunState
    usage: UsageFigures | None = None
    waiting: WaitReason | None = None
    asks: bool = False
    """Whether a request of it waits for a person."""
    alike: int = 1
    """How many runs it stands for: of the same agent, with the same type of error."""

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self.state.run.run_id

    @property
    def status(self) -> str:
        """The status, as clients see it."""
        return names_of(self.state).run

    @property
    def shown_state(self) -> str:
        """The state for people: a run that waits for an answer asks, and one that was parked has not failed."""
        if self.asks:
            return "asks"
        return "parked" if self.is_parked else self.status

    @property
    def is_parked(self) -> bool:
        """Whether the run ended so that an answer continues it."""
        return self.state.run.error_type == ErrorType.INPUT_REQUIRED

    @property
    def is_open(self) -> bool:
        """Whether the run has not ended."""
        return self.state.run.status in OPEN_STATUSES

    @property
    def asked(self) -> str:
        """The begin of what was asked, on one line."""
        return in_one_line(asked_of(self.state.run))

    @property
    def began(self) -> str:
        """When the run was queued."""
        return self.state.queued_at or self.state.run.started_at

    @property
    def seconds(self) -> float | None:
        """How long the run took; None if it has not begun or not ended."""
        run = self.state.run
        return seconds_between(run.started_at, run.ended_at) if self.state.has_begun and run.ended_at else None


@dataclass(frozen=True, slots=True)
class ValueNode:
    """A part of a value: a line, or something to open."""

    label: str
    text: Excerpt
    parts: Sequence["ValueNode"] = ()
    missing: int = 0
    """The number of parts that are left out."""


def duration(seconds: float | None) -> str:
    """Return a duration for people: `12 ms`, `0.4 s`, `3 min 5 s`, `2 h 10 min`."""
    if seconds is None:
        return ""
    if 0 < seconds < 0.1:
        return f"{max(1, round(seconds * 1000))} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, hours = divmod(int(seconds), 60), divmod(int(seconds) // 60, 60)
    return f"{minutes[0]} min {minutes[1]} s" if seconds < 3600 else f"{hours[0]} h {hours[1]} min"


def money(dollars: float | None) -> str:
    """Return a cost for people."""
    if dollars is None:
        return ""
    return f"${dollars:.4f}" if dollars < 1 else f"${dollars:,.2f}"


def tokens(number: int | None) -> str:
    """Return a number of tokens for people: `812`, `12.3k`, `4.1M`."""
    if number is None:
        return ""
    for unit, size in (("M", 1_000_000), ("k", 10_000)):
        if number >= size:
            return f"{number / (1_000_000 if unit == 'M' else 1_000):.1f}{unit}"
    return f"{number:,}"


templates.filters.update(duration=duration, money=money, tokens=tokens)


def rows_of(store: Store, states: Sequence[RunState]) -> list[RunRow]:
    """Return runs as rows, with what they have used and why they wait."""
    usage = store.figures.usage_of([state.run.run_id for state in states])
    queued = [state for state in states if state.run.status == "queued"]
    alone = [state for state in queued if state.run.mode == "start"]
    # Of runs that wait behind others, some sessions are looked at.
    sessions = list(dict.fromkeys(state.run.session_id for state in queued if state.run.mode == "resume"))
    waiting = reasons_to_wait(store, [*alone, *store.runs.states_of(*sessions[:MOST_SESSIONS])])
    asking = store.inputs.asking([state.run.run_id for state in states])
    return [
        RunRow(state, usage.get(run_id := state.run.run_id), waiting.get(run_id), run_id in asking) for state in states
    ]


def head_of(store: Store, state: RunState, row: RunRow | None = None) -> dict[str, Any]:
    """Return what the head of the page of a run shows: its row, how it ended, its output contract and requests."""
    row = row or rows_of(store, [state])[0]
    terminal: Terminal | None = None if row.is_open else terminal_of(store, row.run_id)
    result = terminal if isinstance(terminal, Result) else None
    contract = shown_contract(store, state, terminal)
    data = None if result is None else result.result_data
    return {
        "row": row,
        "failure": terminal if isinstance(terminal, Failure) else None,
        "contract": contract if contract["attempts"] or contract["schema_validation"] or contract["errors"] else None,
        "result": result,
        "text": None if result is None or result.result_text is None else cut(result.result_text),
        "tree": None if data is None else next(_nodes("result", data, [MOST_NODES], MOST_LEVELS)),
        "raw": None if data is None else pretty(data, 4000),
        "next_run": next_of(store, state) if row.is_parked else None,
        "successor": store.runs.find_successor(row.run_id),
        "requests": list(map(RequestView, store.inputs.of_run(row.run_id))),
    }


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to, in a list: its result or its fault on one line, and how its output contract was met."""

    text: str
    verdict: Literal["", "valid", "failed"] = ""
    retries: int = 0


def outcomes_of(store: Store, rows: Sequence[RunRow]) -> dict[str, Outcome]:
    """Return by run what the runs came to that have ended; a terminal event of more than 64 KiB is left out."""
    lines = store.events.last_lines([row.run_id for row in rows if not row.is_open])
    found = {run_id: terminal_in(line) for run_id, line in lines.items()}
    return {run_id: _outcome(store, run_id, terminal) for run_id, terminal in found.items() if terminal is not None}


def _outcome(store: Store, run_id: str, terminal: Terminal) -> Outcome:
    if isinstance(terminal, Result):
        text = in_one_line(terminal.result_text if terminal.result_data is None else terminal.result_data)
        return Outcome(text) if terminal.output is None else Outcome(text, "valid", terminal.output.retry_count)
    if not isinstance(terminal, Failure):
        return Outcome("")
    error = terminal.error
    if error.type not in {ErrorType.OUTPUT_SCHEMA_VALIDATION_FAILED, ErrorType.SCHEMA_VALIDATION_FAILED}:
        return Outcome(in_one_line(error.message))
    text = in_one_line((error.validation_errors or [error.message])[0])
    return Outcome(text, "failed", max(0, len(verdicts_of(store, run_id)) - 1))


def next_of(store: Store, state: RunState) -> str | None:
    """Return the run with which the session of a run went on; None if it was the last one."""
    later = [one for one in store.runs.states_of(state.run.session_id) if one.number > state.number]
    return later[0].run.run_id if later else None


def _nodes(label: str, value: JsonValue, left: list[int], levels: int) -> Iterator[ValueNode]:
    """Yield a value as a node, if there is room for it; `left` holds the number of nodes that are still allowed."""
    if left[0] <= 0:
        return
    left[0] -= 1
    if not isinstance(value, dict | list) or not value:
        yield ValueNode(label, cut(value, 1000) if isinstance(value, str) else Excerpt(in_one_line(value)))
        return
    items = list(value.items()) if isinstance(value, dict) else [(str(at), one) for at, one in enumerate(value)]
    word = "field" if isinstance(value, dict) else "item"
    summary = Excerpt(f"{len(items)} {word}{'s' if len(items) > 1 else ''}")
    if levels <= 1:
        yield ValueNode(label, summary, (), len(items))
        return
    parts = [node for name, one in items[:MOST_NODES] for node in _nodes(name[:200], one, left, levels - 1)]
    yield ValueNode(label, summary, parts, len(items) - len(parts))
