"""The processes that perform runs, and what is wanted of them: the requests to stop runs, and to drain."""

import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from ao_runner.store.columns import NEEDED, Row, Stored
from ao_runner.store.engine import Part
from ao_runner.store.ownership import EVERY_PROFILE, Owner
from ao_runner.store.records import Run, RunState
from ao_runner.store.run_figures import OPEN
from ao_runner.store.run_table import RunTable

WORKER_COLUMNS: Final = "pid, offer, host, drain, outbox_seconds"
MOST_PROFILES: Final = 100
"""Maximum number of profiles whose load is told."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What a worker offers to runs when it claims some."""

    owner: str
    """The name of the worker, see `ao_runner.store.ownership`."""
    profiles: tuple[str, ...] = ()
    """The profiles that it serves; empty if it serves all."""
    tags: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    """The profiles whose sessions are on storage that all hosts share."""
    pausing: tuple[str, ...] = ()
    """The profiles that a usage limit pauses on all hosts."""
    lease_seconds: float = 30.0
    gone_seconds: float = 600.0
    """After this time without a worker, the sessions of another host count as unavailable."""
    host: str | None = None
    """The host of a worker that uses the store through a server; None for a process on this host."""
    slots: int = 0
    """How many runs it performs at most at a time; 0 if it does not tell."""
    needs_tag: bool = False
    """Whether it takes only runs that demand one of its tags, that of its host excepted."""


def offer_text(offer: Offer) -> str:
    """Return an offer as the JSON that other processes read."""
    serves = offer.profiles or (EVERY_PROFILE,)
    told = {"serves": serves, "tags": offer.tags, "shared": offer.shared, "slots": offer.slots}
    return json.dumps({**told, "needs_tag": offer.needs_tag})


def owner_of(pid: int, offer: str, host: str, drain: int, outbox_seconds: float) -> Owner:
    """Return the owner in a row of `WORKER_COLUMNS`, with an offer from `offer_text`."""
    told = json.loads(offer)
    return Owner(
        pid,
        serves=tuple(told.get("serves", ())),
        tags=tuple(told.get("tags", ())),
        shared=tuple(told.get("shared", ())),
        host=host or None,
        drains=bool(drain),
        slots=told.get("slots", 0),
        outbox_seconds=outbox_seconds,
        needs_tag=told.get("needs_tag", False),
    )


@dataclass(frozen=True, slots=True)
class ClaimedRun:
    """A run that a worker has claimed."""

    run: Run
    attempt: int
    queued_at: str = field(metadata=NEEDED)


CLAIMED: Final = Stored("run", ClaimedRun)


@dataclass(frozen=True, slots=True)
class Fleet:
    """The number of processes that take runs from a store, and its load.

    `profiles` has a row for each profile with open runs: its name, the numbers of queued and of running runs, and since
    when the oldest queued one waits.
    """

    workers: int
    profiles: Sequence[tuple[str | None, int, int, str | None]]
    now: datetime
    """The time of the store's clock."""


@dataclass(frozen=True, slots=True)
class WorkerRequests:
    """What is wanted of one worker."""

    stops: Mapping[str, int]
    """The number of requests to stop, for each running run that has some."""
    drain: bool = False
    """Whether it has to leave when its runs have ended. It claims no more of them."""


@dataclass(eq=False)
class WorkerTable(Part):
    """The workers: their leases, the runs that they hold, and the requests to them."""

    _runs: RunTable

    def request_drain(self, owner: str) -> bool:
        """Request that a living worker drains, and return whether there is such a one.

        The request is part of the worker's row, and is never withdrawn: a worker that is started anew has another name.
        """
        is_living = owner in self.living()
        return is_living and self._db.write("UPDATE workers SET drain = 1 WHERE worker_id = ?", (owner,)) > 0

    def requests_to(self, owner: str) -> WorkerRequests:
        """Return what is wanted of a worker, in one query."""
        rows = dict(map(tuple, self._db.fetch(_REQUESTS, (owner, owner))))
        drain = rows.pop(None, 0)
        return WorkerRequests(rows, bool(drain))

    def mark_lost(self, names: Sequence[str]) -> set[str]:
        """Mark those of some workers that are gone and did not leave in order, and return the newly marked ones."""
        living = self.living()
        gone = self._db.listed([name for name in names if name not in living])
        condition = f"told IS NULL AND offer <> '{{}}' AND worker_id {self._db.among_sql}"
        rows = self._db.fetch(f"UPDATE workers SET told = 1 WHERE {condition} RETURNING worker_id", (gone,))  # noqa: S608
        return {str(worker_id) for (worker_id,) in rows}

    def mark_back(self, names: Sequence[str]) -> None:
        """Take note that workers live, so that they can be lost again."""
        condition = f"told IS NOT NULL AND worker_id {self._db.among_sql}"
        self._db.write(f"UPDATE workers SET told = NULL WHERE {condition}", (self._db.listed(names),))  # noqa: S608

    def fleet(self) -> Fleet:
        """Return the number of workers, and the load by profile."""
        with self._db.explaining():
            rows = self._db.fetch(_LOAD.format(greatest=self._db.greatest))
            workers = sum(bool(owner.serves) for owner in self.living().values())
        return Fleet(
            workers, [(profile, queued, running, since) for profile, queued, running, since in rows], self._db.now()
        )

    @abstractmethod
    def mark_claimed(self, offer: Offer, run_ids: Sequence[str]) -> list[Row]:
        """Mark queued runs as running, and return the columns of `CLAIMED` of each that was marked."""

    @abstractmethod
    def renew_leases(self, owner: str, lease_seconds: float, outbox_seconds: float = 0.0) -> set[tuple[str, int]]:
        """Extend every lease of an owner and return the runs that it holds, as run and attempt.

        `outbox_seconds` is the age of its oldest undelivered event, which `living` returns.
        """

    @abstractmethod
    def lost_runs(self) -> list[RunState]:
        """Return the running runs whose owner is gone, or whose lease has expired because it hangs or sleeps."""

    @abstractmethod
    def stranded_runs(self, gone_seconds: float) -> list[RunState]:
        """Return the queued runs of sessions on hosts that have had no living worker for so long, and lock them.

        Runs that have waited for a shorter time are left out, since any host may take those of shared storage.
        """

    @abstractmethod
    def join(self, offer: Offer) -> None:
        """Announce a process that claims runs, as a step of a transaction."""

    @abstractmethod
    def leave(self, owner: str) -> None:
        """Take note that a process claims no more runs, as a step of a transaction."""

    @abstractmethod
    def living(self) -> dict[str, Owner]:
        """Return the processes that perform runs, by name."""

    @abstractmethod
    def lease_seconds(self) -> dict[str, float]:
        """Return for how long the leases of owners go on, by name, if a lease and no lock says that they live."""


_REQUESTS: Final = """
SELECT run_id, CAST(stop_wanted AS INTEGER) FROM runs WHERE status = 'running' AND owner = ? AND stop_wanted > 0
UNION ALL SELECT NULL, drain FROM workers WHERE worker_id = ? AND drain <> 0
"""
_LOAD: Final = f"""
SELECT profile, sum(queued), sum(1 - queued), min(since) FROM (
    SELECT profile, 1 AS queued, {{greatest}}(queued_at, coalesce(not_before, '')) AS since FROM runs
    WHERE {OPEN} AND status = 'queued'
    UNION ALL SELECT profile, 0, NULL FROM runs WHERE {OPEN} AND status = 'running'
) AS open_runs GROUP BY profile ORDER BY profile LIMIT {MOST_PROFILES}
"""  # noqa: S608  # own words
