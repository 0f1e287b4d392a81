"""What is wrong with a value, and where: the words in which every refusal is told.

Values come from a model and may be megabytes long, so whatever a message shows of them is cut short.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

MAX_SHOWN_CHARACTERS: Final = 200


@dataclass(frozen=True, slots=True)
class Problem:
    """One reason why a value is refused.

    `path` is a place such as `$.issues[0].severity` or `$["a b"]`; `message` is worded as jsonschema words it.
    As text it is an entry of `validation_errors` (SPEC 6.3).
    """

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


def shown(value: object) -> str:
    """Return `repr(value)`, cut after 200 characters at a cost that does not depend on the value's size."""
    return _cut(_repr_pieces(value))


def listed(values: Iterable[object]) -> str:
    """Return the values as jsonschema enumerates them, `'a', 'b'`, cut like one value."""
    return _cut(_separated(values))


def _cut(pieces: Iterator[str]) -> str:
    written: list[str] = []
    length = 0
    for piece in pieces:
        written.append(piece)
        length += len(piece)
        if length > MAX_SHOWN_CHARACTERS:
            return "".join(written)[:MAX_SHOWN_CHARACTERS] + "…"
    return "".join(written)


def _separated(values: Iterable[object]) -> Iterator[str]:
    for index, value in enumerate(values):
        yield ", " if index else ""
        yield shown(value)


@dataclass(frozen=True, slots=True)
class _Text:
    text: str


def _repr_pieces(value: object) -> Iterator[str]:
    pending: list[object] = [value]
    while pending:
        match pending.pop():
            case _Text(text):
                yield text
            case dict() as members:
                pending.extend(reversed(_object_pieces(members)))
            case list() as items:
                pending.extend(reversed(_array_pieces(items)))
            case scalar:
                yield _scalar_repr(scalar)


def _object_pieces(members: dict[object, object]) -> list[object]:
    pieces: list[object] = [_Text("{")]
    for index, (key, member) in enumerate(islice(members.items(), MAX_SHOWN_CHARACTERS)):
        pieces += [_Text(", " if index else ""), key, _Text(": "), member]
    return [*pieces, _Text("}")]


def _array_pieces(items: list[object]) -> list[object]:
    pieces: list[object] = [_Text("[")]
    for index, item in enumerate(islice(items, MAX_SHOWN_CHARACTERS)):
        pieces += [_Text(", " if index else ""), item]
    return [*pieces, _Text("]")]


def _scalar_repr(scalar: object) -> str:
    if isinstance(scalar, str):
        return repr(scalar[: MAX_SHOWN_CHARACTERS + 1])
    if isinstance(scalar, int) and scalar.bit_length() > 4 * MAX_SHOWN_CHARACTERS:
        # CPython refuses to print integers of more than 4,300 digits.
        return f"an integer of {scalar.bit_length()} bits"
    if scalar is None or isinstance(scalar, int | float):
        return repr(scalar)
    return f"a {type(scalar).__name__}"
