"""The filters of the lists of runs and sessions, as an address has them."""

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated, Any, Final, Self
from urllib.parse import urlencode

from fastapi import Depends, Request

from ao_runner.store.records import RunStatus, timestamp
from ao_runner.store.run_filter import SORTED, RunFilter, SortKey
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


SORTS: Final[Mapping[str, SortKey | None]] = {
    **{sign + key: key for key in SORTED for sign in ("", "-")},
    "-age": None,
}
"""What lists can be sorted by, with a minus for the largest value first; by age they are without being told to."""
_TEXTS: Final = ("agent", "profile", "text", "label", "batch", "error")
_CHOICES: Final[Mapping[str, Collection[str]]] = {"status": STATUS_NAMES, "since": TIMES, "sort": SORTS}


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
    first: str = ""
    """The first day (UTC) on which the runs were asked for."""
    last: str = ""
    """The last one."""
    error: str = ""
    """The type of the error."""
    sort: str = ""
    """What the list is sorted by, a key of `SORTS`; the newest run comes first if it is empty."""
    before: int | None = None
    skip: int = 0
    """How many rows a sorted list leaves out at its beginning."""

    @property
    def is_set(self) -> bool:
        """Whether the list shows less than all."""
        return self != ListFilter()

    @property
    def query(self) -> str:
        """The filter as the query of an address, with its question mark."""
        given = {name: value for name, value in asdict(self).items() if value}
        return f"?{urlencode(given)}" if given else ""

    def with_status(self, status: str) -> Self:
        """Return the filter for runs with another status, from the newest on."""
        return replace(self, status=status, before=None, skip=0)

    def sorted_by(self, key: str) -> Self:
        """Return the filter for a list sorted by a column; in the other direction if it is sorted by that already."""
        falling = f"-{key}"
        rising = "" if key == "age" else key
        return replace(self, sort=rising if self.sort == falling else falling, before=None, skip=0)

    def direction_of(self, key: str) -> str:
        """Return how the list is sorted by a column, as `aria-sort` has it; empty if it is not."""
        return {key: "ascending", f"-{key}": "descending"}.get(self.sort or "age", "")

    @property
    def first_page(self) -> Self:
        """The filter for the first page."""
        return replace(self, before=None, skip=0)

    def behind(self, number: int) -> Self:
        """Return the filter for the page behind a run, the last one of this page."""
        return replace(self, skip=self.skip + ROWS) if self.sort else replace(self, before=number)

    def of_store(self, store: Store, agents: Collection[str], *, only_last: bool = False) -> RunFilter:
        """Return the same for the store, with room for one run more than a page has.

        `agents` are the known names: one of them means that agent only, and anything else a part of names.
        """
        is_known = self.agent in agents
        begins = [timestamp(store.now() - TIMES[self.since][1])] if self.since else []
        begins += [_begin_of(self.first)] if self.first else []
        equal: dict[Any, str] = {"batch_id": self.batch, "error_type": self.error}
        parts: dict[Any, str] = {"agent_name": "" if is_known else self.agent, "profile": self.profile}
        return RunFilter(
            statuses=(STATUS_NAMES[self.status],) if self.status else (),
            agent=self.agent if is_known else None,
            parts={name: value for name, value in parts.items() if value},
            since=max(begins, default=None),
            until=_begin_of(self.last, 1) if self.last else None,
            equal={name: value for name, value in equal.items() if value},
            labels=dict([self.label.partition("=")[::2]]) if self.label else {},
            text=self.text or None,
            before=self.before,
            limit=ROWS + 1,
            only=(*(("last",) if only_last else ()), *(("unrepeated",) if self.batch else ())),
            order=SORTS[self.sort] if self.sort else None,
            is_rising=self.sort == "-age" or (self.sort != "" and not self.sort.startswith("-")),
            skip=self.skip,
        )


def _begin_of(day: str, days_later: int = 0) -> str:
    """Return when a day begins, or one some days later."""
    return timestamp(datetime.combine(date.fromisoformat(day) + timedelta(days=days_later), time(), UTC))


def _is_day(text: str) -> bool:
    try:
        return date(2000, 1, 1) < date.fromisoformat(text) < date(9000, 1, 1)
    except ValueError:
        return False


def filter_of(request: Request) -> ListFilter:
    """Return the filter in the address of a request."""
    query = request.query_params
    texts = {name: query.get(name, "").strip()[:MAX_CHARACTERS] for name in _TEXTS}
    chosen = {name: query.get(name, "") for name in _CHOICES}
    chosen = {name: value for name, value in chosen.items() if value in _CHOICES[name]}
    days = {name: query.get(name, "") for name in ("first", "last")}
    days = {name: day for name, day in days.items() if _is_day(day)}
    before, skip = (
        int(number) if number.isascii() and number.isdigit() and len(number) < 19 else 0
        for number in (query.get("before", ""), query.get("skip", ""))
    )
    is_sorted = "sort" in chosen
    return ListFilter(
        **texts, **chosen, **days, before=None if is_sorted else before or None, skip=skip if is_sorted else 0
    )


Filter = Annotated[ListFilter, Depends(filter_of)]
