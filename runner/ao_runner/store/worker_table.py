"""The processes that perform runs, and what is wanted of them: the requests to stop runs, and to drain."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ao_runner.store.columns import Row, Stored
from ao_runner.store.engine import Part
from ao_runner.store.ownership import Owner
from ao_runner.store.records import ClaimedRun, Fleet, Offer, RunState
from ao_runner.store.run_figures import OPEN
from ao_runner.store.run_table import RunTable

CLAIMED: Final = Stored("run", ClaimedRun)
MOST_PROFILES: Final = 100
"""Maximum number of profiles whose load is told."""


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
