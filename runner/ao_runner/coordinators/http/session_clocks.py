"""Timestamps for a server that orders the rows of a session by their text."""

from collections import OrderedDict
from datetime import UTC, datetime, timedelta
from typing import Final

MAX_SESSIONS: Final = 4096
_TICK: Final = timedelta(microseconds=1)
_LATEST: Final = datetime.max.replace(tzinfo=UTC) - timedelta(days=1)
"""Later times are taken for this one: a day of ticks fits behind it, and the same event gets the same time again."""


class SessionClocks:
    """Makes timestamps that grow within each session, whose rows a server orders by the text of them.

    All have the same form and length, so their texts sort as the times do. A clock that stepped back is held at the
    last time seen, plus a microsecond each. The sessions heard of least lately are forgotten.
    """

    def __init__(self) -> None:
        self._latest: OrderedDict[str, datetime] = OrderedDict()

    def stamp(self, session_id: str, timestamp: str) -> str:
        """Return an event's own time, or the next one that is later than all of its session before."""
        moment = _moment(timestamp)
        latest = self._latest.pop(session_id, None)
        if latest is not None and moment <= latest:
            moment = latest + _TICK
        self._latest[session_id] = moment
        if len(self._latest) > MAX_SESSIONS:
            self._latest.popitem(last=False)
        return moment.isoformat(timespec="microseconds")


def _moment(timestamp: str) -> datetime:
    # A leap second is legal on the wire and unknown to datetime.
    text = timestamp[:17] + "59.999999Z" if timestamp[17:19] == "60" else timestamp
    try:
        return min(datetime.fromisoformat(text).astimezone(UTC), _LATEST)
    except (ValueError, OverflowError):
        return datetime.now(UTC)
