"""The filters of the lists of runs and sessions, as an address has them."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, Final, Self
from urllib.parse import urlencode

from fastapi import Depends, Request

from ao_runner.store.records import RunFilter, RunStatus
from ao_server.shapes import STATUSES

ROWS: Final = 50
STATUS_NAMES: Final[Mapping[str, RunStatus]] = {names.run: stored for stored, names in STATUSES.items()}
MAX_CHARACTERS: Final = 200


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

    def of_store(self, *, only_last: bool = False) -> RunFilter:
        """Return the same for the store, with room for one run more than a page has."""
        equal: dict[Any, str] = {"profile": self.profile, "batch_id": self.batch}
        return RunFilter(
            statuses=(STATUS_NAMES[self.status],) if self.status else (),
            agent=self.agent or None,
            equal={name: value for name, value in equal.items() if value},
            labels=dict([self.label.partition("=")[::2]]) if self.label else {},
            text=self.text or None,
            before=self.before,
            limit=ROWS + 1,
            only=(*(("last",) if only_last else ()), *(("unrepeated",) if self.batch else ())),
        )


def _filter_of(request: Request) -> ListFilter:
    query = request.query_params
    status, before = query.get("status", ""), query.get("before", "")
    names = ("agent", "profile", "text", "label", "batch")
    agent, profile, text, label, batch = (query.get(name, "").strip()[:MAX_CHARACTERS] for name in names)
    number = int(before) if before.isascii() and before.isdigit() and len(before) < 19 else None
    return ListFilter(status if status in STATUS_NAMES else "", agent, profile, text, label, batch, number)


Filter = Annotated[ListFilter, Depends(_filter_of)]
