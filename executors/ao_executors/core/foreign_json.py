"""Read JSON of programs and servers that are not ours, such as an agent. Internal.

What is only odd is mended and does not end a run: bytes that are no UTF-8 and half a surrogate become U+FFFD, NaN and
numbers that are too large for a float become null, and of a duplicate key the last value counts. For what cannot be
read, the run fails as `UnreadableMessage`, in the words of the protocol instead of those of a Python exception.
"""

import json
import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

from ao_executors.core.emitter import EventTooLarge
from ao_executors.core.executor import RunFailed
from ao_protocol.errors import ErrorType
from ao_protocol.framing import MAX_DEPTH, SURROGATE_ESCAPE, LineTooLong, NotIJson, refuse_depth
from ao_protocol.short_text import shorten

JsonDocument: TypeAlias = dict[str, Any]

MAX_LEVELS: Final = 2 * MAX_DEPTH
"""A value that is too deep for an event becomes its text there. A deeper one could not be read on every machine."""
_MAX_DIGITS: Final = 300
"""Every integer of so many digits can be converted to a float and to text."""
_BEGINS_AS_OBJECT: Final = re.compile(rb'(?:\xef\xbb\xbf)?\s*(?:\[\s*)?\{\s*["}]')
"""An object, or a batch of them; not what JavaScript prints of an object, such as `{ a: 1 }`."""
_SHOWN_CHARACTERS: Final = 200
_MAX_NOISE: Final = 10_000
"""How many lines in a row may be no messages."""
_MAX_NOTES: Final = 20
_NOTED_CHARACTERS: Final = 500


class UnreadableMessage(RunFailed):
    """A program or server sent what cannot be read."""

    def __init__(self, sender: str, what: str, why: str, error_type: ErrorType = ErrorType.INTERNAL_ERROR) -> None:
        message = f"{sender} sent {what}, which cannot be read: {why}; use a version that the documentation names"
        super().__init__(error_type, message, origin="environment")


def read_json(written: bytes | str) -> Any:  # noqa: ANN401  # any JSON
    """Return the value of a JSON text, mended as described above.

    Raises:
        NotIJson: It is not JSON, or has more than `MAX_LEVELS` levels.
    """
    text = written if isinstance(written, str) else written.removeprefix(BOM_UTF8).decode(errors="replace")
    if text.count("[") + text.count("{") > MAX_LEVELS:
        refuse_depth(text, MAX_LEVELS)
    try:
        document = _decode(text)
    except json.JSONDecodeError as error:
        raise NotIJson(f"not JSON: {error.msg} at character {error.pos}") from error
    if SURROGATE_ESCAPE.search(text):
        whole = json.dumps(document, ensure_ascii=False).encode("utf-16-le", "surrogatepass")
        document = _decode(whole.decode("utf-16-le", "replace"))
    return document


class MessageLines:
    """The lines of a program that writes one object a line. Other lines are noise, such as a banner.

    Args:
        sender: The program, for messages.
    """

    def __init__(self, sender: str) -> None:
        self.note: Callable[[str], None] = lambda _: None
        """Receives a sentence about noise; at most 20 of them."""
        self._sender = sender
        self._notes_left = _MAX_NOTES
        self._noise = 0

    def read(self, line: bytes | LineTooLong, is_message: Callable[[JsonDocument], bool]) -> JsonDocument | None:
        """Return the message on a line; None if it is noise.

        Raises:
            UnreadableMessage: The line is too long, not JSON, or has several objects; or there is no end of the noise.
        """
        if isinstance(line, LineTooLong):
            raise UnreadableMessage(self._sender, "a message", str(line), ErrorType.LIMIT_EXCEEDED)
        if _BEGINS_AS_OBJECT.match(line):
            message = self._object_on(line)
            if is_message(message):
                self._noise = 0
                return message
        self._noise += 1
        if self._noise > _MAX_NOISE:
            raise UnreadableMessage(
                self._sender, f"{_MAX_NOISE} lines in a row that are no messages", "expected a message"
            )
        if line.strip() and self._notes_left:
            self._notes_left -= 1
            self.note(f"{self._sender} printed: {line.decode(errors='replace')[:_NOTED_CHARACTERS]}")
        return None

    def _object_on(self, line: bytes) -> JsonDocument:
        try:
            message = read_json(line)
        except NotIJson as error:
            begin = shown(line[:_SHOWN_CHARACTERS].decode(errors="replace"))
            raise UnreadableMessage(self._sender, "a message", f"{error}: {begin}") from error
        if not isinstance(message, dict):
            raise UnreadableMessage(self._sender, "a batch of messages", "expected one message a line")
        return message


@contextmanager
def readable(sender: str, what: str, document: object = "") -> Iterator[None]:
    """Guard code that takes fields of `document`: they may be missing, or of any type.

    Raises:
        UnreadableMessage: The code raised what Python raises for such a field.
    """
    try:
        yield
    except EventTooLarge:
        raise
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        why = "a field has another type or value than its protocol defines"
        if isinstance(error, KeyError):
            why = f"it has no {shown(error.args[0])}"
        raise UnreadableMessage(sender, what, f"{why}: {shown(document)}" if document else why) from error


def as_object(value: object) -> JsonDocument:
    """Return a JSON object, empty if the value is anything else."""
    return value if isinstance(value, dict) else {}


def objects_in(value: object) -> list[JsonDocument]:
    """Return the objects in a JSON list; empty if the value is no list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> JsonDocument:
    """Return a JSON object with the members of another one, which are merged into objects of the same name."""
    both = dict(base)
    for name, member in over.items():
        held = both.get(name)
        both[name] = merged(held, member) if isinstance(held, dict) and isinstance(member, Mapping) else member
    return both


def text_of(value: object) -> str:
    """Return a text, or the JSON of any other value."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def shown(value: object) -> str:
    """Return the beginning of the JSON of a value, for a message."""
    return shorten(json.dumps(value, ensure_ascii=False, default=str), _SHOWN_CHARACTERS)


def _integer(digits: str) -> int | None:
    return int(digits) if len(digits) <= _MAX_DIGITS else None


def _float(digits: str) -> float | None:
    number = float(digits)
    return number if abs(number) != float("inf") else None


_decode: Final = json.JSONDecoder(
    strict=False, parse_int=_integer, parse_float=_float, parse_constant=lambda _: None
).decode
