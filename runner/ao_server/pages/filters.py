"""The filters of the lists of runs and sessions, as an address has them."""

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import Annotated, Any, Final, Self
from urllib.parse import urlencode

from fastapi import Depends, Request

from ao_runner.store.records import RunFilter, RunStatus, timestamp
from ao_runner.store.store import Store
from ao_server.shapes import STATUSES

ROWS: Final = 50
STATUS_NAMES: Final[Mapping[str, RunStatus]] = {names.run: stored for stored, names in STATUSES.items()}
MAX_CHARACTERS: Final = 200
TIMES: Final = {
    "1h": ("last hour", timedelta(hours=1)),
    "24h": ("last 24 hours", timedelta(days=1)),
    "7d": ("last 7 days", timedelta(days=7)),
    "30d": ("last 30 days", timedelta(days=30)),
}


@dataclass(frozen=True, slots=True)
class ListFilter:
    """What a list shows. All that is set has to fit; what an address has beyond that is ignored."""

    status: str = ""
    agent: str = ""
    profile: str = ""
    text: str = ""
    label: str = ""
    """A label as `name=text`."""
    batch: str = ""
    since: str = ""
    """How long ago the runs were asked for at most, a key of `TIMES`."""
    before: int | None = None

    @property
    def is_set(self) -> bool:
        """Whether the list shows less than all."""
        return self != ListFilter()

    @property
    def query(self) -> str:
        """The filter as the query of an address, with its question mark."""
        given = {name: value for name, value in asdict(self).items() if value not in {"", None}}
        return f"?{urlencode(given)}" if given else ""

    def with_status(self, status: str) -> Self:
        """Return the filter for runs with another status, from the newest on."""
        return replace(self, status=status, before=None)

    def older_than(self, number: int | None) -> Self:
        """Return the filter for the page behind a run; None stands for the first page."""
        return replace(self, before=number)

    def of_store(self, store: Store, agents: Collection[str], *, only_last: bool = False) -> RunFilter:
        """Return the same for the store, with room for one run more than a page has.

        `agents` are the known names: one of them means that agent only, and anything else a part of names.
        """
        is_known = self.agent in agents
        parts: dict[Any, str] = {"agent_name": "" if is_known else self.agent, "profile": self.profile}
        return RunFilter(
            statuses=(STATUS_NAMES[self.status],) if self.status else (),
            agent=self.agent if is_known else None,
            parts={name: value for name, value in parts.items() if value},
            since=timestamp(store.now() - TIMES[self.since][1]) if self.since else None,
            equal={"batch_id": self.batch} if self.batch else {},
            labels=dict([self.label.partition("=")[::2]]) if self.label else {},
            text=self.text or None,
            before=self.before,
            limit=ROWS + 1,
            only=(*(("last",) if only_last else ()), *(("unrepeated",) if self.batch else ())),
        )


def _filter_of(request: Request) -> ListFilter:
    query = request.query_params
    status, before = query.get("status", ""), query.get("before", "")
    names = ("agent", "profile", "text", "label", "batch", "since")
    agent, profile, text, label, batch, since = (query.get(name, "").strip()[:MAX_CHARACTERS] for name in names)
    number = int(before) if before.isascii() and before.isdigit() and len(before) < 19 else None
    since = since if since in TIMES else ""
    return ListFilter(status if status in STATUS_NAMES else "", agent, profile, text, label, batch, since, number)


Filter = Annotated[ListFilter, Depends(_filter_of)]
