"""JSON Schema Draft-7, the part that tests need; where a rule is unknown it demands nothing.

It reads nothing from outside, and an interval timer ends what takes too long: a pattern that backtracks, or branches
that double at each level (AOX-164, AOX-165).
"""

import contextlib
import json
import re
import signal
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from paths import below, problem_at

MAX_SECONDS = 1.0
TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "integer": lambda value: TYPES["number"](value) and value == int(value),
}


class TookTooLong(Exception):
    """A value could not be judged in the time there is."""


def problems_of(schema: Any, value: Any, path: str = "$") -> list[str]:
    """Return what is wrong with a value, as `path: message`; nothing where it fits."""
    validator = Validator(schema)
    try:
        with _time_limit():
            return list(validator.check(schema, value, path))
    except TookTooLong:
        return [problem_at(path, f"it could not be judged within {MAX_SECONDS:g} s")]
    except RecursionError:
        return [problem_at(path, "it is nested too deeply to be judged")]


def is_same(one: Any, other: Any) -> bool:
    """Say whether two values are the same JSON: 1 is 1.0, and true is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(is_same(value, other[key]) for key, value in one.items())
    return bool(one == other)


def resolve(root: Any, reference: str) -> Any:
    """Return what a reference within `root` points at; raise LookupError where there is nothing."""
    if not reference.startswith("#"):
        raise LookupError(reference)
    here = root
    for step in reference.removeprefix("#").split("/")[1:]:
        key = re.sub("%([0-9A-Fa-f]{2})", lambda code: chr(int(code[1], 16)), step)
        key = key.replace("~1", "/").replace("~0", "~")
        here = here[int(key)] if isinstance(here, list) and key.isdigit() else here[key]
    if not isinstance(here, dict | bool) or (reference not in {"#", ""} and "#/" not in reference):
        raise LookupError(reference)
    return here


class Validator:
    """One schema document, and the rules that stand in it."""

    def __init__(self, root: Any) -> None:
        self._root = root

    def check(self, schema: Any, value: Any, path: str) -> Iterator[str]:
        """Yield the problems of a value under a schema of the document."""
        if schema is False:
            yield problem_at(path, "nothing is allowed here")
        if not isinstance(schema, dict):
            return
        if "$ref" in schema:
            yield from self.check(resolve(self._root, schema["$ref"]), value, path)
            return
        for keyword, rule in schema.items():
            if keyword in RULES:
                yield from RULES[keyword](self, rule, value, path, schema)

    def fits(self, schema: Any, value: Any) -> bool:
        """Say whether a value fits a schema of the document."""
        return next(self.check(schema, value, "$"), None) is None

    def of_field(self, path: str, key: str, message: str) -> str:
        """Return the problem of a field that should be there, or should not."""
        return problem_at(path, f"'{key}' is {message}")


def _type(_: Validator, rule: Any, value: Any, path: str, schema: Any) -> Iterator[str]:
    names = rule if isinstance(rule, list) else [rule]
    if not any(TYPES[name](value) for name in names):
        yield problem_at(path, f"is not of type {' or '.join(repr(name) for name in names)}")


def _enum(_: Validator, rule: Any, value: Any, path: str, schema: Any) -> Iterator[str]:
    if not any(is_same(one, value) for one in rule):
        yield problem_at(path, f"is not one of {json.dumps(rule, ensure_ascii=False)[:200]}")


def _const(_: Validator, rule: Any, value: Any, path: str, schema: Any) -> Iterator[str]:
    if not is_same(rule, value):
        yield problem_at(path, f"is not {json.dumps(rule, ensure_ascii=False)[:200]}")


def _required(self: Validator, rule: Any, value: Any, path: str, schema: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key in rule:
            if key not in value:
                yield self.of_field(path, key, "a required property")


def _properties(self: Validator, rule: Any, value: Any, path: str, schema: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, below_it in rule.items():
            if key in value:
                yield from self.check(below_it, value[key], below(path, key))


def _pattern_properties(self: Validator, rule: Any, value: Any, path: str, schema: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for pattern, below_it in rule.items():
            for key in value:
                if re.search(pattern, key):
                    yield from self.check(below_it, value[key], below(path, key))


def _additional_properties(self: Validator, rule: Any, value: Any, path: str, schema: Any) -> Iterator[str]:
    if isinstance(value, dict):
        known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
        for key in value:
            if key in known or any(re.search(pattern, key) for pattern in patterns):
                continue
            if rule is False:
                yield self.of_field(path, key, "not an allowed property")
            else:
                yield from self.check(rule, value[key], below(path, key))


def _dependencies(self: Validator, rule: Any, value: Any, path: str, schema: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, needed in rule.items():
            if key in value:
                yield from self.check({"required": needed} if isinstance(needed, list) else needed, value, path)


def _property_names(self: Validator, rule: Any, value: Any, path: str, schema: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key in value:
            if not self.fits(rule, key):
                yield self.of_field(path, key, "not an allowed name")


def _items(self: Validator, rule: Any, value: Any, path: str, schema: Any) -> Iterator[str]:
    if isinstance(value, list):
        for index, one in enumerate(value):
            if not isinstance(rule, list):
                yield from self.check(rule, one, below(path, index))
            elif index < len(rule):
                yield from self.check(rule[index], one, below(path, index))
            else:
                yield from self.check(schema.get("additionalItems", True), one, below(path, index))


def _contains(self: Validator, rule: Any, value: Any, path: str, schema: Any) -> Iterator[str]:
    if isinstance(value, list) and not any(self.fits(rule, one) for one in value):
        yield problem_at(path, "holds no item of the kind that is demanded")


def _unique_items(_: Validator, rule: Any, value: Any, path: str, schema: Any) -> Iterator[str]:
    if rule and isinstance(value, list):
        for index, one in enumerate(value):
            if any(is_same(one, other) for other in value[:index]):
                yield problem_at(below(path, index), "stands there twice")


def _pattern(_: Validator, rule: Any, value: Any, path: str, schema: Any) -> Iterator[str]:
    if isinstance(value, str) and not re.search(rule, value):
        yield problem_at(path, f"does not match {rule!r}")


def _multiple_of(_: Validator, rule: Any, value: Any, path: str, schema: Any) -> Iterator[str]:
    if TYPES["number"](value) and abs(value / rule - round(value / rule)) > 1e-9:
        yield problem_at(path, f"is not a multiple of {rule}")


def _all_of(self: Validator, rule: Any, value: Any, path: str, schema: Any) -> Iterator[str]:
    for one in rule:
        yield from self.check(one, value, path)


def _any_of(self: Validator, rule: Any, value: Any, path: str, schema: Any) -> Iterator[str]:
    if not any(self.fits(one, value) for one in rule):
        yield problem_at(path, "fits none of the schemas of anyOf")


def _one_of(self: Validator, rule: Any, value: Any, path: str, schema: Any) -> Iterator[str]:
    fitting = sum(self.fits(one, value) for one in rule)
    if fitting != 1:
        yield problem_at(path, f"fits {fitting} of the schemas of oneOf instead of one")


def _not(self: Validator, rule: Any, value: Any, path: str, schema: Any) -> Iterator[str]:
    if self.fits(rule, value):
        yield problem_at(path, "fits a schema that it must not fit")


def _if(self: Validator, rule: Any, value: Any, path: str, schema: Any) -> Iterator[str]:
    branch = "then" if self.fits(rule, value) else "else"
    yield from self.check(schema.get(branch, True), value, path)


def _bound(size_of: Callable[[Any], Any], is_kept: Callable[[Any, Any], bool], words: str) -> Any:
    def check(_: Validator, rule: Any, value: Any, path: str, schema: Any) -> Iterator[str]:
        size = size_of(value)
        if size is not None and not is_kept(size, rule):
            yield problem_at(path, f"{words} {rule}")

    return check


def _number(value: Any) -> Any:
    return value if TYPES["number"](value) else None


def _length(kind: type[str | list[Any] | dict[str, Any]]) -> Callable[[Any], Any]:
    return lambda value: len(value) if isinstance(value, kind) else None


RULES: dict[str, Any] = {
    "type": _type,
    "enum": _enum,
    "const": _const,
    "required": _required,
    "properties": _properties,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "propertyNames": _property_names,
    "dependencies": _dependencies,
    "items": _items,
    "contains": _contains,
    "uniqueItems": _unique_items,
    "pattern": _pattern,
    "multipleOf": _multiple_of,
    "allOf": _all_of,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "not": _not,
    "if": _if,
    "minimum": _bound(_number, lambda size, rule: size >= rule, "is less than"),
    "maximum": _bound(_number, lambda size, rule: size <= rule, "is greater than"),
    "exclusiveMinimum": _bound(_number, lambda size, rule: size > rule, "is not greater than"),
    "exclusiveMaximum": _bound(_number, lambda size, rule: size < rule, "is not less than"),
    "minLength": _bound(_length(str), lambda size, rule: size >= rule, "is shorter than"),
    "maxLength": _bound(_length(str), lambda size, rule: size <= rule, "is longer than"),
    "minItems": _bound(_length(list), lambda size, rule: size >= rule, "has fewer items than"),
    "maxItems": _bound(_length(list), lambda size, rule: size <= rule, "has more items than"),
    "minProperties": _bound(_length(dict), lambda size, rule: size >= rule, "has fewer properties than"),
    "maxProperties": _bound(_length(dict), lambda size, rule: size <= rule, "has more properties than"),
}


@contextlib.contextmanager
def _time_limit() -> Iterator[None]:
    def give_up(number: int, frame: FrameType | None) -> None:
        raise TookTooLong

    signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, MAX_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
