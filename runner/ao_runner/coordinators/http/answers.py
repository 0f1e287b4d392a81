"""What an answer of the server means. No connection is known here."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeGuard

from pydantic import JsonValue

from ao_protocol.wire import JsonObject
from ao_runner.coordinators.port import CoordinatorUnavailable

MAX_SHOWN_CHARACTERS: Final = 300
MAX_DIGITS: Final = 4000
"""Python refuses to read longer integers, and with one of them the whole answer; no run can be sent either."""
_AGAIN_LATER: Final = frozenset({408, 425, 429})
_WHO_ARE_YOU: Final = frozenset({401, 403})


@dataclass(frozen=True, slots=True)
class Answer:
    """What the coordinator itself answered: a success, or a refusal with its reason."""

    status: int
    body: JsonValue

    @property
    def document(self) -> JsonObject:
        """The body; empty where there was none, or one that is no object."""
        return self.body if isinstance(self.body, dict) else {}

    @property
    def is_success(self) -> bool:
        """True for 2xx."""
        return 200 <= self.status < 300

    @property
    def error(self) -> str:
        """The short name of the error, such as `duplicate_runner`; empty where there is none."""
        detail = self.document.get("detail")
        name = detail.get("error") if isinstance(detail, dict) else detail
        return name if isinstance(name, str) else ""

    @property
    def reason(self) -> str:
        """Why it was refused, for people, cut short."""
        return f"{self.status}: {shortened(_worded(self.document.get('detail')))}"


@dataclass(eq=False)
class Unanswered(CoordinatorUnavailable):
    """A request of which nobody knows for sure that the coordinator refused it or carried it out."""

    in_doubt: bool = True
    """False where it certainly was not carried out."""
    is_garbage: bool = False
    """Somebody answered, who is perhaps no coordinator at all."""


def understood(place: str, status: int, headers: Mapping[str, str], body: bytes) -> Answer:
    """Return what the coordinator said.

    Raises:
        Unanswered: it cannot now, or it was somebody else who answered, such as a proxy with a page of its own.
    """
    if status >= 500 or status in _AGAIN_LATER:
        reason = f"it answered {status}" + (f", {shown}" if (shown := shortened(_text(body))) else "")
        raise Unanswered(place, reason, _retry_after(headers), in_doubt=status >= 500)
    is_json, document = _decoded(body)
    if status in _WHO_ARE_YOU:
        return Answer(status, document)
    if not is_json or 300 <= status < 400 or (status >= 400 and not isinstance(document, dict)):
        shown = shortened(_text(body)) or headers.get("location", "nothing")
        raise Unanswered(place, f"expected JSON and found, with status {status}: {shown}", is_garbage=True)
    return Answer(status, document)


def is_name(value: JsonValue) -> TypeGuard[str]:
    """Tell whether a value can name something in an address: text that is not empty and valid Unicode."""
    return isinstance(value, str) and value != "" and not any("\ud800" <= character <= "\udfff" for character in value)


def shortened(text: str) -> str:
    """Return a text on one line and no longer than is good for an error."""
    line = " ".join(text.split())
    return line if len(line) <= MAX_SHOWN_CHARACTERS else f"{line[:MAX_SHOWN_CHARACTERS]}…"


def _decoded(body: bytes) -> tuple[bool, JsonValue]:
    """Return whether a body is JSON, and what it says. An empty one says nothing, which is fine."""
    if not body.strip():
        return True, None
    try:
        return True, json.loads(body, parse_int=lambda digits: int(digits[:MAX_DIGITS]))
    except (ValueError, RecursionError):
        return False, None


def _worded(detail: JsonValue) -> str:
    match detail:
        case str():
            return detail
        case {"error": str(error), "message": str(message)}:
            return f"{error}: {message}"
        case None:
            return "no reason given"
        case _:
            return json.dumps(detail, ensure_ascii=False)


def _text(body: bytes) -> str:
    return body[: 4 * MAX_SHOWN_CHARACTERS].decode("utf-8", "replace")


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that are asked for. A date is not understood: clocks differ."""
    try:
        seconds = float(headers.get("retry-after", ""))
    except ValueError:
        return None
    return seconds if seconds >= 0 else None
