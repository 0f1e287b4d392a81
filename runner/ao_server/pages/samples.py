"""A value that fits a JSON Schema, for people who write one. Validation has the last word."""

import json
import math
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from ao_protocol.contracts import Problem, check_schema, is_valid, validate
from ao_protocol.wire import JsonObject
from ao_runner.processes.judging import is_quick
from ao_server.pages.form_fields import resolved

VARIANTS: Final = 16
MOST_LEVELS: Final = 24
LEVELS_OF_OPTIONAL: Final = 4
MOST_STEPS: Final = 2000
FORMATS: Final = {
    "date": "2026-01-31", "time": "12:30:00Z", "date-time": "2026-01-31T12:30:00Z", "email": "a@example.com",
    "uri": "https://example.com/", "uri-reference": "/a", "hostname": "example.com", "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1", "regex": "a+", "json-pointer": "/a",
}  # fmt: skip
_ATOM: Final = re.compile(
    r"(?:\\(?P<escape>.)|\[(?P<set>(?:\\.|[^\]\\])+)\]|(?P<char>[^\\\[\](){}|*+?^$])|(?P<edge>[\^$]))"
    r"(?P<times>\{\d+(?:,\d*)?\}|[*+?])?"
)
_ESCAPED: Final = {"d": "7", "w": "a", "s": " ", "S": "a", "D": "a", "W": "-", "n": "\n", "t": "\t", "b": ""}


@dataclass(frozen=True, slots=True)
class Sample:
    """A value, and what is wrong with it if none was found that fits."""

    value: Any
    problems: list[Problem]

    @property
    def text(self) -> str:
        """The value as JSON."""
        return json.dumps(self.value, indent=2, ensure_ascii=False)


def sample_of(schema: JsonObject) -> Sample:
    """Return a value that fits a schema, or the one with the fewest problems that was found.

    One that cannot be judged quickly counts as fitting.

    Raises:
        InvalidSchema: The schema is not acceptable.
    """
    check_schema(schema)
    best: Sample | None = None
    for variant in range(VARIANTS):
        value: Any = None
        with suppress(ArithmeticError):
            value = _Variant(schema, variant // 2, variant % 2 == 0, [MOST_STEPS]).value(schema, MOST_LEVELS)
        problems = validate(value, schema) if is_quick(value, schema) else []
        if best is None or len(problems) < len(best.problems):
            best = Sample(value, problems)
        if not problems:
            break
    return best or Sample(None, [])


@dataclass(frozen=True, slots=True)
class _Variant:
    """One of the values: with or without optional members, and with the n-th of all alternatives."""

    root: JsonObject
    number: int
    has_optional: bool
    left: list[int]
    """The number of steps that are still allowed."""

    def value(self, schema: Any, levels: int) -> Any:  # noqa: ANN401
        schema = self._with_parts(resolved(schema, self.root), levels)
        if known := self._known(schema):
            return known[self.number % len(known)]
        has_room = levels > 0 and self.left[0] >= 0
        kind = (schema.get("type") or _guessed(schema)) if has_room else "null"
        match kind[self.number % len(kind)] if isinstance(kind, list) else kind:
            case "object":
                return self._object(schema, levels)
            case "array":
                return self._array(schema, levels)
            case "string":
                return _text(schema)
            case "integer" | "number" as number:
                return _number(schema, is_whole=number == "integer")
            case other:
                return True if other == "boolean" else None

    @staticmethod
    def _known(schema: dict[str, Any]) -> list[Any]:
        """Return the values that a schema names."""
        if "const" in schema:
            return [schema["const"]]
        lists = [schema[name] for name in ("examples", "enum") if isinstance(schema.get(name), list)]
        return [one for known in lists for one in known] or ([schema["default"]] if "default" in schema else [])

    def _with_parts(self, schema: JsonObject, levels: int) -> dict[str, Any]:
        """Return a schema together with those that apply to the same value, as far as they can be joined."""
        whole: dict[str, Any] = dict(schema)
        self.left[0] -= 1
        if levels <= 0 or self.left[0] < 0:
            return whole
        parts: list[Any] = list(whole.get("allOf") or [])
        parts += [choices[self.number % len(choices)] for name in ("anyOf", "oneOf") if (choices := whole.get(name))]
        if "if" in whole:
            parts += [whole["if"], whole.get("then", {})] if self.number % 2 == 0 else [whole.get("else", {})]
        for part in parts:
            for name, rule in self._with_parts(resolved(part, self.root), levels - 1).items():
                kept = whole.get(name)
                if isinstance(kept, dict) and isinstance(rule, dict):
                    merged = {key: {"allOf": [kept[key], rule[key]]} for key in kept.keys() & rule.keys()}
                    whole[name] = {**kept, **rule, **merged} if name == "properties" else {**kept, **rule}
                elif name == "required" and kept:
                    whole[name] = [*kept, *rule]
                else:
                    whole[name] = rule
        return whole

    def _object(self, schema: dict[str, Any], levels: int) -> JsonObject:
        properties = schema.get("properties", {})
        wanted = list(schema.get("required", []))
        if self._adds_optional(levels):
            wanted += [name for name, rule in properties.items() if rule is not False]
        found = {name: self.value(properties.get(name, {}), levels - 1) for name in dict.fromkeys(wanted)}
        more = schema.get("additionalProperties", {})
        for number in range(len(found), min(int(schema.get("minProperties", 0)), 100)):
            found[f"key{number + 1}"] = self.value(more, levels - 1)
        return found

    def _array(self, schema: dict[str, Any], levels: int) -> list[Any]:
        items = schema.get("items", {})
        if isinstance(items, list):
            return [self.value(one, levels - 1) for one in items]
        least = max(int(schema.get("minItems", 0)), 1 if "contains" in schema else 0)
        count = max(least, 1) if self._adds_optional(levels) else least
        count = min(count, int(schema.get("maxItems", count)), 100)
        found = [self.value(schema.get("contains", items), levels - 1) for _ in range(count)]
        return list(_different(found, resolved(items, self.root))) if schema.get("uniqueItems") else found

    def _adds_optional(self, levels: int) -> bool:
        return self.has_optional and levels > MOST_LEVELS - LEVELS_OF_OPTIONAL and self.left[0] > 0


def _guessed(schema: dict[str, Any]) -> str:
    of_keywords = {
        "object": {"properties", "required", "additionalProperties", "minProperties"},
        "array": {"items", "minItems", "contains"},
        "string": {"pattern", "format", "minLength", "maxLength"},
        "number": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
    }
    return next((kind for kind, names in of_keywords.items() if names & schema.keys()), "string")


def _different(items: list[Any], schema: JsonObject) -> Iterator[Any]:
    allowed = schema.get("enum")
    for number, item in enumerate(items):
        if isinstance(allowed, list) and number < len(allowed):
            yield allowed[number]
        else:
            yield f"{item}{number}" if isinstance(item, str) else item + number if type(item) in {int, float} else item


def _text(schema: dict[str, Any]) -> str:
    rules: JsonObject = {
        name: schema[name] for name in ("format", "pattern", "minLength", "maxLength") if name in schema
    }
    least, most = int(schema.get("minLength", 0)), int(schema.get("maxLength", 4096))
    usual = "text" if least <= len("text") else "text " * (min(least, 4096) // 5 + 1)
    tried = [FORMATS.get(str(schema.get("format")), usual), _matching(str(schema.get("pattern", ""))), "a", "A", "1"]
    cut = [one[: max(least, min(most, len(one)))] for one in tried]
    return next((one for one in cut if not is_quick(one, rules) or is_valid(one, rules)), cut[0])


def _matching(pattern: str) -> str:
    """Return a text for a regular expression without groups, look-around and alternatives; else an empty one."""
    text, position = "", 0
    while position < len(pattern):
        atom = _ATOM.match(pattern, position)
        if atom is None:
            return ""
        position = atom.end()
        written = atom["set"]
        one = atom["char"] or ""
        if atom["escape"]:
            one = _ESCAPED.get(atom["escape"], atom["escape"])
        elif written:
            first = written[1] if written[0] == "\\" and len(written) > 1 else written[0]
            one = _ESCAPED.get(first, first) if written[0] == "\\" else "x" if first == "^" else first
        elif one == ".":
            one = "a"
        times = atom["times"] or ""
        text += one * (
            min(int(re.findall(r"\d+", times)[0]), 1000) if times.startswith("{") else times not in {"*", "?"}
        )
    return text


def _number(schema: dict[str, Any], *, is_whole: bool) -> float:
    step = schema.get("multipleOf", 1)
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    high = schema.get("maximum", schema.get("exclusiveMaximum"))
    start = low if low is not None else min(high, step) if high is not None else step
    value = math.ceil(start / step) * step
    if value == schema.get("exclusiveMinimum") or value == schema.get("exclusiveMaximum"):
        value += step if value == schema.get("exclusiveMinimum") else -step
    if high is not None and value >= high and low is not None and not is_whole and "multipleOf" not in schema:
        value = (low + high) / 2
    return int(value) if is_whole or float(value).is_integer() else value
