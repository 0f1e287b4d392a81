"""Parse what people and their programs write, restricted to values that every receiver reads alike (RFC 7493).

An executor refuses an invocation with a number outside ±(2^53-1), a duplicate key, or more than 64 levels (AOX-030).
This module reports such problems to the author with their place, before anything is stored or run: of files, of the
command line, of HTTP requests and of Python. YAML is the core schema of YAML 1.2, limited to JSON values, in time
linear in the text: `yes`, `on`, `1:30` and a date are text, and `0777` is 777. Merges (`<<`) and tags of other types
are refused.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from pydantic import JsonValue

from ao_protocol.contracts.problems import interoperability_problems, is_interoperable
from ao_protocol.framing import MAX_DEPTH, MAX_IDENTIFIER_CHARACTERS
from ao_protocol.json_path import ROOT, below
from ao_protocol.json_words import shown
from ao_protocol.short_text import shorten
from ao_protocol.wire import JsonObject

MAX_WRITTEN_DEPTH: Final = MAX_DEPTH - 2
"""The value becomes part of an invocation, which becomes part of a `prepare` line."""
MAX_PATH_CHARACTERS: Final = 4096
_MAX_DIGITS: Final = 1000
"""No valid integer is this long, and parsing longer ones takes quadratic time."""
_MAX_SHOWN_CHARACTERS: Final = 40
_NO_NAME: Final = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


@dataclass(eq=False)
class NotInteroperable(ValueError):
    """A text is not JSON, or the protocol cannot carry a value."""

    reason: str
    line: int | None = None
    """The line of a text that cannot be parsed, from 1."""

    def __str__(self) -> str:
        return self.reason


def decode_text(content: bytes, place: str = "") -> str:
    """Return the text of bytes in UTF-8, without a byte-order mark; `place` begins the error.

    Raises:
        NotInteroperable: A byte is not UTF-8; the error has its place.
    """
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise NotInteroperable(f"{place}byte {error.start} is not UTF-8") from error


def parse_json(text: str, max_depth: int = MAX_WRITTEN_DEPTH) -> JsonValue:
    """Return the value of a JSON text.

    Raises:
        NotInteroperable: The text is invalid; the error has the line and column, or the path.
    """
    flawed: list[tuple[object, str]] = []

    def build(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        built = dict(pairs)
        if len(built) < len(pairs):
            twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
            flawed.append((built, f"duplicate key {shown(twice)}"))
        return built

    def number(digits: str) -> float:
        found = float(digits)
        if not math.isfinite(found):
            large = f"the number {digits[:_MAX_SHOWN_CHARACTERS]} is too large"
            flawed.append((found, large if digits[-1].isdigit() else f"{digits} is not JSON"))
        return found

    try:
        value: JsonValue = json.loads(
            text,
            object_pairs_hook=build,
            parse_int=lambda digits: int(digits[:_MAX_DIGITS]),
            parse_float=number,
            parse_constant=number,
        )
    except json.JSONDecodeError as error:
        raise NotInteroperable(f"line {error.lineno}, column {error.colno}: {error.msg}", error.lineno) from error
    except RecursionError as error:
        raise NotInteroperable(f"nested deeper than {max_depth} levels") from error
    for holder, sentence in flawed:
        place = next((f"{place}: " for place, found in _values(value, max_depth) if found is holder), "")
        raise NotInteroperable(f"{place}{sentence}")
    check_interoperable(value, max_depth)
    return value


def check_interoperable(value: object, max_depth: int = MAX_WRITTEN_DEPTH, place: str = ROOT) -> None:
    """Refuse values that a line of the protocol cannot contain; `place` is that of the value in its document.

    Raises:
        NotInteroperable: There are problems; the error lists each with its path.
    """
    if not is_interoperable(value, max_depth):
        problems = interoperability_problems(value, max_depth)
        raise NotInteroperable("; ".join(f"{place}{str(one).removeprefix(ROOT)}" for one in problems))


def check_name(name: str, most: int = MAX_IDENTIFIER_CHARACTERS, place: str = "") -> str:
    """Return a name if lists, addresses, databases and file systems can hold it.

    Raises:
        NotInteroperable: It is empty, `.`, `..` or too long, or holds a control character or half a surrogate pair.
            `place` begins the error.
    """
    if found := _NO_NAME.search(name):
        problem = f"U+{ord(found[0]):04X} at character {found.start()}"
    elif not 0 < len(name) <= most:
        problem = f"{len(name)} characters"
    elif name in {".", ".."}:  # no address can hold it as a segment
        problem = shown(name)
    else:
        return name
    expected = f"expected a name of 1 to {most} characters other than '.' and '..', none of them a control character"
    raise NotInteroperable(f"{place}found {problem}, {expected}")


def unsendable(invocation: JsonObject) -> list[str]:
    """Return the problems that prevent an invocation from being sent.

    A lone surrogate does not: U+FFFD is sent in its place (AOX-032).
    """
    if is_interoperable(invocation, MAX_DEPTH):
        return []
    text = json.dumps(invocation, ensure_ascii=False)
    whole = json.loads(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
    return list(map(str, interoperability_problems(whole, MAX_DEPTH)))


def _values(value: object, levels: int, place: str = ROOT) -> Iterator[tuple[str, object]]:
    """Yield every value with its place, down to a level."""
    yield place, value
    if levels and isinstance(value, dict | list):
        for key, member in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _values(member, levels - 1, below(place, key))


MAX_VALUES: Final = 1024 * 1024
"""Including a copy for each alias."""
MAX_CHARACTERS: Final = 16 * 1024 * 1024
"""The total of all texts, including a copy for each alias."""

_TAG: Final = "tag:yaml.org,2002:"
_NULL: Final = re.compile(r"null|Null|NULL|~|")
_BOOL: Final = re.compile(r"true|True|TRUE|false|False|FALSE")
_INT: Final = re.compile(r"[-+]?[0-9]+")
_OCTAL: Final = re.compile(r"0o[0-7]+")
_HEX: Final = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_JSON: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")


def parse_yaml(text: str) -> object:
    """Return the value of a YAML text.

    Raises:
        NotInteroperable: The text is invalid; the error has the line and column.
    """
    import yaml

    builder = _Builder()
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        for event in yaml.parse(text, Loader=loader):
            builder.take(event)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        reason = error.problem or error.context
        if "nesting depth" in f"{reason}":  # newer versions of libyaml have a limit of their own
            reason = f"is nested deeper than {MAX_WRITTEN_DEPTH} levels"
        raise NotInteroperable(f"{place}{reason}") from error
    except (yaml.YAMLError, ValueError) as error:
        raise NotInteroperable(f"{error}") from error
    check_interoperable(builder.document)
    return builder.document


class _Builder:
    """Processes the events of a parser one by one; `yaml` has no types."""

    def __init__(self) -> None:
        self.document: object = None
        self._documents = 0
        self._open: list[tuple[list[Any], set[str] | None, str | None, tuple[int, int]]] = []
        """The members so far, the keys of an object (None for a list), the anchor, and the totals before it."""
        self._anchors: dict[str, tuple[object, int, int, int]] = {}
        """The value, and its number of values, characters and levels."""
        self._depths: list[int] = []
        self._values = 0
        self._characters = 0

    def take(self, event: Any) -> None:  # noqa: ANN401
        match type(event).__name__:
            case "DocumentStartEvent":
                self._documents += 1
                if self._documents > 1:
                    raise _refusal(event, "a second document begins; a file holds one")
            case "MappingStartEvent":
                self._begin(event, set(), f"{_TAG}map")
            case "SequenceStartEvent":
                self._begin(event, None, f"{_TAG}seq")
            case "MappingEndEvent" | "SequenceEndEvent":
                self._end(event)
            case "ScalarEvent":
                value = _scalar(event)
                self._spend(event, 1, len(event.value))
                if event.anchor is not None:
                    self._anchors[event.anchor] = (value, 1, len(event.value), 0)
                self._add(event, value, 0)
            case "AliasEvent":
                self._repeat(event)

    def _begin(self, event: Any, keys: set[str] | None, usual_tag: str) -> None:  # noqa: ANN401
        if event.tag not in {None, "!", usual_tag}:
            raise _refusal(event, f"tag {_shown(event.tag)} is not known here; leave it out")
        self._check_depth(event, 1)
        self._open.append(([], keys, event.anchor, (self._values, self._characters)))
        self._depths.append(1)
        if event.anchor is not None:
            self._anchors.pop(event.anchor, None)  # until it ends, its alias would be recursive

    def _end(self, event: Any) -> None:  # noqa: ANN401
        members, keys, anchor, (values, characters) = self._open.pop()
        depth = self._depths.pop()
        value: object = members if keys is None else dict(zip(members[::2], members[1::2], strict=True))
        self._spend(event, 1, 0)
        if anchor is not None:
            self._anchors[anchor] = (value, self._values - values, self._characters - characters, depth)
        self._add(event, value, depth)

    def _repeat(self, event: Any) -> None:  # noqa: ANN401
        if event.anchor not in self._anchors:
            raise _refusal(event, f"alias *{_shown(event.anchor)} has no value before it (a recursive node has none)")
        value, values, characters, depth = self._anchors[event.anchor]
        self._spend(event, values, characters)
        self._check_depth(event, depth)
        self._add(event, _copy(value), depth)

    def _check_depth(self, event: Any, depth: int) -> None:  # noqa: ANN401
        if len(self._open) + depth > MAX_WRITTEN_DEPTH:
            raise _refusal(event, f"is nested deeper than {MAX_WRITTEN_DEPTH} levels")

    def _spend(self, event: Any, values: int, characters: int) -> None:  # noqa: ANN401
        self._values += values
        self._characters += characters
        if self._values > MAX_VALUES or self._characters > MAX_CHARACTERS:
            most = f"{MAX_VALUES} values or {MAX_CHARACTERS} characters"
            raise _refusal(event, f"holds more than {most} with a copy for each of its aliases (*name)")

    def _add(self, event: Any, value: object, depth: int) -> None:  # noqa: ANN401
        if not self._open:
            self.document = value
            return
        members, keys, _, _ = self._open[-1]
        self._depths[-1] = max(self._depths[-1], depth + 1)
        if keys is not None and len(members) % 2 == 0:
            if not isinstance(value, str):
                found = (
                    "an object" if isinstance(value, dict) else "a list" if isinstance(value, list) else shown(value)
                )
                raise _refusal(event, f"key {found} is not a string; quote it")
            if value in keys:
                raise _refusal(event, f"duplicate key {shown(value)}")
            if value == "<<":
                raise _refusal(event, "'<<' is no merge in YAML 1.2; write the fields out")
            keys.add(value)
        members.append(value)


def _scalar(event: Any) -> object:  # noqa: ANN401
    text: str = event.value
    tag = event.tag
    if tag == "!" or (tag is None and event.style):  # quoted, or a block
        return text
    if tag is None:
        return _resolved(event, text)
    name = tag.removeprefix(_TAG)
    if tag == f"{_TAG}str":
        return text
    if name not in _TYPES:
        raise _refusal(event, f"tag {_shown(tag)} is not known here; JSON has no such type")
    value = _resolved(event, text)
    if name == "float" and type(value) is int:
        return float(value)
    if type(value) is not _TYPES[name]:
        raise _refusal(event, f"{shown(text)} is no {name}, as its tag says")
    return value


_TYPES: Final = {"null": type(None), "bool": bool, "int": int, "float": float}


def _resolved(event: Any, text: str) -> object:  # noqa: ANN401
    """Return the value of a plain scalar in the core schema."""
    if text[:1] not in _MAY_BE_MORE:
        return text
    if _NULL.fullmatch(text):
        return None
    if _BOOL.fullmatch(text):
        return text[0] in "tT"
    for pattern, base in ((_INT, 10), (_OCTAL, 8), (_HEX, 16)):
        if pattern.fullmatch(text):
            if len(text) > _MAX_DIGITS:
                raise _refusal(event, f"the integer {_shown(text)} is outside ±9007199254740991")
            return int(text, base)
    if _FLOAT.fullmatch(text):
        return float(text)
    if _NOT_JSON.fullmatch(text):
        raise _refusal(event, f"{text} is not a JSON number")
    return text


_MAY_BE_MORE: Final = frozenset(["", *"nN~tTfF+-.0123456789"])


def _copy(value: object) -> object:
    if isinstance(value, dict):
        return {key: _copy(member) for key, member in value.items()}
    return [_copy(member) for member in value] if isinstance(value, list) else value


def _refusal(event: Any, sentence: str) -> NotInteroperable:  # noqa: ANN401
    mark = event.start_mark
    return NotInteroperable(f"line {mark.line + 1}, column {mark.column + 1}: {sentence}")


def _shown(text: str) -> str:
    return shorten(text, _MAX_SHOWN_CHARACTERS)
