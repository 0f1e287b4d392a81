"""Which requirement a run breaks that did not end as expected, where that is another one than the vector says."""

from typing import Final

from ao_conformance.judging.reading import Event
from ao_conformance.played import Played

UNREADABLE: Final = "AOX-021"
"""Is broken where a line that every receiver accepts is refused as no JSON."""
OF_FIELD: Final = {
    "error.origin": "AOX-100",
    "output.schema_source": "AOX-176",
    "output.retry_count": "AOX-176",
    "output.strategy": "AOX-179",
    "output.sent": "AOX-179",
    "output.delivered_by": "AOX-179",
}
"""Requirements that a field of the terminal event has of its own."""
UNINVITED: Final = "AOX-060"
"""Is broken where a run is cancelled that nobody cancelled, and whose stdin is not open for control."""


def blamed_for_ending(played: Played, terminal: Event) -> str:
    """Return the requirement that is broken where a run ended otherwise than its vector expects."""
    if _was_misread(played, terminal):
        return UNREADABLE
    if terminal.error.get("type") == "cancelled" and played.cancelled_at is None and not played.listens:
        return played.vector.stands_for(UNINVITED)
    if terminal.type == "result" and "result" in played.vector.blames:
        return played.vector.blames["result"]
    return played.vector.blamed("terminal")


def _was_misread(played: Played, terminal: Event) -> bool:
    """Whether a good line was not understood, in a vector that is about something else than lines."""
    return (
        terminal.error.get("type") == "invalid_json"
        and played.invocation is not None
        and "raw_stdin" not in played.vector.source
        and "pad_to_bytes" not in played.vector.source
    )


def blamed_for_field(played: Played, text: str) -> str:
    """Return the requirement of a field of the terminal event that differs, or the one that the vector blames."""
    place = text.partition(" ")[0].partition("[")[0]
    return OF_FIELD.get(place.removeprefix("$."), played.vector.blamed("terminal"))
