"""A glance at a line of stdout while a play goes on; the judge looks properly."""

import json
from collections.abc import Sequence
from typing import Any, Final

from ao_conformance.driver.transcript import OutputLine

TERMINAL: Final = frozenset({"result", "failure"})


def member(raw: bytes, name: str) -> Any:  # noqa: ANN401  # any JSON
    """Return a field of the object that stands in a line; None where there is none."""
    try:
        document = json.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return None
    return document.get(name) if isinstance(document, dict) else None


def event_type_of(raw: bytes) -> str | None:
    """Return the type of the event in a line; None where there is none."""
    found = member(raw, "event_type") if b"event_type" in raw else None
    return found if isinstance(found, str) else None


def is_terminal(raw: bytes) -> bool:
    """Say whether a line ends a run."""
    return event_type_of(raw) in TERMINAL


def count_of_type(lines: Sequence[OutputLine], event_type: str) -> int:
    """Return how many lines are events of a type."""
    return sum(1 for line in lines if event_type_of(line.raw) == event_type)
