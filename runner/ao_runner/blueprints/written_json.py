"""JSON that people write: only what every receiver of a line reads alike (RFC 7493), each fault told with its place.

An executor refuses an invocation with a number outside ±(2^53-1), a key that stands twice, or more than 64 levels
(AOX-030). Whoever wrote that is told here, before anything is run.
"""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from pydantic import JsonValue

from ao_protocol.contracts.problems import interoperability_problems, is_interoperable
from ao_protocol.framing import MAX_DEPTH
from ao_protocol.json_path import ROOT, below
from ao_protocol.wire import JsonObject
from ao_runner.errors import RunnerError

MAX_WRITTEN_DEPTH: Final = MAX_DEPTH - 2
"""What somebody wrote stands inside an invocation, and that inside a `prepare` line."""
_MAX_DIGITS: Final = 4000
"""Python refuses to read some more. No integer of that length is a safe one."""
_MAX_QUOTED: Final = 40


@dataclass(eq=False)
class NotInteroperable(RunnerError):
    """A text is no JSON, or a value is none that the protocol can carry."""

    reason: str

    def __str__(self) -> str:
        return self.reason


def parse_json(text: str) -> JsonValue:
    """Return the value that a text holds.

    Raises:
        NotInteroperable: with the line and column, or the path, of what is wrong.
    """
    twice: list[tuple[object, str]] = []

    def build(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        built = dict(pairs)
        if len(built) < len(pairs):
            twice.append((built, next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)))
        return built

    try:
        value: JsonValue = json.loads(
            text, object_pairs_hook=build, parse_int=_integer, parse_float=_number, parse_constant=_no_constant
        )
    except json.JSONDecodeError as error:
        raise NotInteroperable(f"line {error.lineno}, column {error.colno}: {error.msg}") from error
    except RecursionError as error:
        raise NotInteroperable(f"nested deeper than {MAX_WRITTEN_DEPTH} levels") from error
    check_interoperable(value)
    for holder, key in twice:
        place = next((f"{place}: " for place, found in _containers(value) if found is holder), "")
        raise NotInteroperable(f"{place}duplicate key {key!r}")
    return value


def check_interoperable(value: object) -> None:
    """Refuse what a line of the protocol cannot hold.

    Raises:
        NotInteroperable: with the path of each problem.
    """
    if not is_interoperable(value, MAX_WRITTEN_DEPTH):
        problems = interoperability_problems(value, MAX_WRITTEN_DEPTH)
        raise NotInteroperable("; ".join(map(str, problems)))


def unsendable(invocation: JsonObject) -> list[str]:
    """Say what keeps an invocation from being sent, from wherever its parts have come.

    A lone surrogate does not: U+FFFD is sent in its place (AOX-032).
    """
    if is_interoperable(invocation, MAX_DEPTH):
        return []
    text = json.dumps(invocation, ensure_ascii=False)
    whole = json.loads(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
    return list(map(str, interoperability_problems(whole, MAX_DEPTH)))


def _containers(value: object, place: str = ROOT) -> Iterator[tuple[str, object]]:
    """Yield every object and list with its place; the depth of a value that is interoperable is bounded."""
    if isinstance(value, dict | list):
        yield place, value
        for key, member in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _containers(member, below(place, key))


def _integer(digits: str) -> int:
    return int(digits[:_MAX_DIGITS])


def _number(digits: str) -> float:
    number = float(digits)
    if number in {float("inf"), float("-inf")}:
        raise NotInteroperable(f"the number {digits[:_MAX_QUOTED]} is too large")
    return number


def _no_constant(name: str) -> NoReturn:
    raise NotInteroperable(f"{name} is not JSON")
