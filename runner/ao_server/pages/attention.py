"""Which runs need a person: failures that nobody has repeated, and runs that wait in vain."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from ao_protocol.errors import ErrorType
from ao_runner.store.deliveries import GivenUp
from ao_runner.store.failure_table import LATELY, MOST_GROUPS, FailureGroup
from ao_runner.store.input_table import MOST_LISTED
from ao_runner.store.limit_table import RunLimit
from ao_runner.store.records import timestamp
from ao_runner.store.run_filter import RunFilter
from ao_runner.store.store import Store
from ao_server.pages.requests import RequestView
from ao_server.pages.run_view import RunRow, rows_of

MOST_RUNS: Final = 100
MOST_ASKING: Final = 20
OF_CONTRACTS: Final = frozenset(
    {
        ErrorType.OUTPUT_SCHEMA_VALIDATION_FAILED,
        ErrorType.SCHEMA_VALIDATION_FAILED,
        ErrorType.OUTPUT_TRUNCATED,
        ErrorType.INVALID_OUTPUT_SCHEMA,
    }
)
OF_LOSSES: Final = frozenset({ErrorType.ATTEMPT_LOST, ErrorType.SESSION_UNAVAILABLE})


@dataclass(frozen=True, slots=True)
class Attention:
    """The runs that need a person, by what is wrong; each list has at most `MOST_RUNS`.

    The same failure of one agent stands once, as its newest run.
    """

    asking: Sequence[RequestView]
    waiting: Sequence[RunRow]
    contracts: Sequence[RunRow]
    lost: Sequence[RunRow]
    others: Sequence[RunRow]
    pauses: Sequence[RunLimit]
    given_up: Sequence[GivenUp]
    """The ends of runs of which a parent or a webhook will not hear."""
    askers: Sequence[RunRow] = ()
    """The runs of `asking`."""
    more_asking: int = 0
    """How many requests wait beyond those of `asking`."""
    is_cut: bool = False
    """Whether there may be more than the lists hold."""
    aside: Sequence[RunRow] = ()
    """The failures that were set aside."""

    @property
    def earlier(self) -> dict[tuple[str, str | None], str]:
        """The notes of what was set aside, by agent and type of error: what has happened again bears it."""
        return {
            (row.state.agent_name, row.state.run.error_type): str((row.state.aside or {}).get("note", ""))
            for row in self.aside
        }

    @property
    def rows(self) -> list[RunRow]:
        """All of these runs, those first that go on as soon as a person answers."""
        return [*self.askers, *self.waiting, *self.contracts, *self.lost, *self.others]

    @property
    def count(self) -> str:
        """How many entries the inbox has; with a plus if there may be more than are listed."""
        runs = len(self.asking) + self.more_asking + len(self.rows) - len(self.askers)
        return f"{runs + len(self.pauses) + len(self.given_up)}{'+' if self.is_cut else ''}"


def attention_of(store: Store) -> Attention:
    """Return the runs that need a person: of the last seven days, if they have failed."""
    queued = rows_of(store, store.runs.search(RunFilter(statuses=("queued",), limit=MOST_RUNS)))
    since = timestamp(store.now() - LATELY)
    asking = store.inputs.waiting()
    parked = {one.run_id for one in asking}
    shown = list(dict.fromkeys(one.run_id for one in asking[:MOST_ASKING]))
    askers = {state.run.run_id: state for state in store.runs.of_ids(shown)}
    failed = _failed(store, store.failures.groups(since, parked))
    given_up = store.deliveries.given_up(since)
    set_aside = {one.run.run_id for one in store.runs.of_ids({one.run_id for one in given_up}) if one.aside}
    of_type = {row.run_id: row.state.run.error_type for row in failed}
    return Attention(
        asking=list(map(RequestView, asking[:MOST_ASKING])),
        waiting=[row for row in queued if row.waiting is not None and not row.waiting.is_passing],
        contracts=[row for row in failed if of_type[row.run_id] in OF_CONTRACTS],
        lost=[row for row in failed if of_type[row.run_id] in OF_LOSSES],
        others=[row for row in failed if of_type[row.run_id] not in OF_CONTRACTS | OF_LOSSES],
        pauses=[limit for limit in store.limits.all() if limit.kind == "pause"],
        given_up=[one for one in given_up if one.run_id not in set_aside],
        askers=rows_of(store, [askers[one] for one in shown if one in askers]),
        more_asking=len(asking[MOST_ASKING:]),
        aside=_failed(store, store.failures.groups(since, are_aside=True)),
        is_cut=len(queued) == MOST_RUNS or len(failed) == MOST_GROUPS or len(asking) == MOST_LISTED,
    )


def _failed(store: Store, groups: Sequence[FailureGroup]) -> list[RunRow]:
    """Return groups of failures as rows, each the newest run of its group."""
    rows = {row.run_id: row for row in rows_of(store, store.runs.of_ids([one.newest for one in groups]))}
    return [replace(rows[one.newest], alike=one.runs) for one in groups if one.newest in rows]
