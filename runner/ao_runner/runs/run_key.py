"""What an event's place in the world is called for ever: a run, an attempt at it, and a number within the attempt."""

from dataclasses import dataclass
from typing import Final

from ao_protocol.identifiers import MAX_IDENTIFIER_BYTES, MAX_IDENTIFIER_CHARACTERS, fits_in_events

MAX_ATTEMPTS: Final = 10**18


@dataclass(frozen=True, slots=True, order=True)
class RunKey:
    """One attempt at one run. With an event's `seq` it names that event permanently: receivers drop what they have.

    Raises:
        ValueError: `run_id` is empty, longer than names may be (SPEC 4.1) or no valid Unicode, or `attempt` is not in
            1 to 10^18 - 1.
    """

    run_id: str
    attempt: int
    """From 1; grows each time that the run is handed out."""

    def __post_init__(self) -> None:
        if not 0 < len(self.run_id) <= MAX_IDENTIFIER_CHARACTERS:
            raise ValueError(f"a run_id has 1 to {MAX_IDENTIFIER_CHARACTERS} characters, this one {len(self.run_id)}")
        if any("\ud800" <= character <= "\udfff" for character in self.run_id):
            raise ValueError(f"a run_id is valid Unicode, {self.run_id!r} is not")
        if not fits_in_events(self.run_id):
            raise ValueError(f"a run_id has at most {MAX_IDENTIFIER_BYTES} bytes as JSON")
        if not 1 <= self.attempt < MAX_ATTEMPTS:
            raise ValueError(f"attempts are counted from 1, not {self.attempt}")

    def __str__(self) -> str:
        return f"{self.run_id}/{self.attempt}"
