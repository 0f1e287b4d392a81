"""What is wanted of workers: the requests to stop runs, and to drain."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ao_runner.store.engine import Engine


@dataclass(frozen=True, slots=True)
class Requests:
    """What is wanted of one worker."""

    stops: Mapping[str, int]
    """The number of requests to stop, for each running run that has some."""
    drain: bool = False
    """Whether it has to leave when its runs have ended. It claims no more of them."""


class WorkerTable(Engine):
    """The queries about requests to workers."""

    def request_drain(self, owner: str) -> bool:
        """Request that a living worker drains, and return whether there is such a one.

        The request is part of the worker's row, and is never withdrawn: a worker that is started anew has another name.
        """
        is_living = owner in self.living_owners()
        return is_living and self.write("UPDATE workers SET drain = 1 WHERE worker_id = ?", (owner,)) > 0

    def requests_to(self, owner: str) -> Requests:
        """Return what is wanted of a worker, in one query."""
        rows = dict(map(tuple, self.fetch(_REQUESTS, (owner, owner))))
        drain = rows.pop(None, 0)
        return Requests(rows, bool(drain))


_REQUESTS: Final = """
SELECT run_id, CAST(stop_wanted AS INTEGER) FROM runs WHERE status = 'running' AND owner = ? AND stop_wanted > 0
UNION ALL SELECT NULL, drain FROM workers WHERE worker_id = ? AND drain <> 0
"""
