"""A value to begin with for people who write a JSON Schema. It need not fit: the page validates it like any other."""

from dataclasses import dataclass
from typing import Any, Final

from ao_protocol.contracts import check_schema
from ao_protocol.wire import JsonObject
from ao_server.pages.form_fields import resolved

MOST_LEVELS: Final = 24
LEVELS_OF_OPTIONAL: Final = 4
MOST_STEPS: Final = 2000
MOST_ITEMS: Final = 100
MOST_CHARACTERS: Final = 4096
FORMATS: Final = {
    "date": "2026-01-31", "time": "12:30:00Z", "date-time": "2026-01-31T12:30:00Z", "email": "a@example.com",
    "uri": "https://example.com/", "hostname": "example.com", "ipv4": "192.0.2.1", "ipv6": "2001:db8::1",
}  # fmt: skip
OF_KEYWORDS: Final = {
    "object": {"properties", "required", "additionalProperties"},
    "array": {"items", "minItems", "contains"},
    "number": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
}
"""The keywords by which a schema without a type is taken for one of these types; others are of a text."""


def sample_of(schema: JsonObject) -> Any:  # noqa: ANN401  # any JSON
    """Return a value that a schema names, or one of its type with its members, in bounded time.

    Patterns, conditions and dependencies are not looked at.

    Raises:
        InvalidSchema: The schema is not acceptable.
    """
    check_schema(schema)
    return _Sampler(schema).value(schema, MOST_LEVELS)


@dataclass(slots=True)
class _Sampler:
    root: JsonObject
    left: int = MOST_STEPS
    """The number of steps that are still allowed."""

    def value(self, schema: object, levels: int) -> Any:  # noqa: ANN401  # any JSON
        rules = self._joined(schema, levels)
        named = [rules[name] for name in ("const", "default") if name in rules]
        named += [one for name in ("examples", "enum") for one in rules.get(name, [])]
        if named:
            return named[0]
        kinds = rules.get("type") or [*(kind for kind, names in OF_KEYWORDS.items() if names & rules.keys()), "string"]
        match kinds[0] if isinstance(kinds, list) else kinds:
            case "object" if levels > 0 and self.left > 0:
                return self._object(rules, levels)
            case "array" if levels > 0 and self.left > 0:
                return self._array(rules, levels)
            case "string":
                return _text(rules)
            case "integer" | "number" as number:
                return _number(rules, is_whole=number == "integer")
            case other:
                return True if other == "boolean" else None

    def _joined(self, schema: object, levels: int) -> dict[str, Any]:
        """Return a schema with those that apply to the same value, and of alternatives with the first."""
        rules: dict[str, Any] = dict(resolved(schema, self.root))
        self.left -= 1
        if levels <= 0 or self.left <= 0:
            return rules
        alternatives = [rules[name] for name in ("anyOf", "oneOf") if name in rules]
        first: list[Any] = [next((one for one in choices if one is not False), {}) for choices in alternatives]
        for part in [*rules.get("allOf", []), *first]:
            more = self._joined(part, levels - 1)
            for name in ("properties", "required"):
                if name in rules and name in more:
                    kept = rules[name]
                    more[name] = {**kept, **more[name]} if isinstance(kept, dict) else [*kept, *more[name]]
            rules |= more
        return rules

    def _object(self, rules: dict[str, Any], levels: int) -> JsonObject:
        properties = rules.get("properties", {})
        wanted = list(rules.get("required", []))
        if levels > MOST_LEVELS - LEVELS_OF_OPTIONAL:
            wanted += [name for name, rule in properties.items() if rule is not False]
        return {name: self.value(properties.get(name, {}), levels - 1) for name in dict.fromkeys(wanted)}

    def _array(self, rules: dict[str, Any], levels: int) -> list[Any]:
        items = rules.get("contains", rules.get("items", {}))
        if isinstance(items, list):
            return [self.value(one, levels - 1) for one in items]
        least = 1 if levels > MOST_LEVELS - LEVELS_OF_OPTIONAL else 0
        count = min(max(least, rules.get("minItems", 0)), rules.get("maxItems", MOST_ITEMS), MOST_ITEMS)
        return [self.value(items, levels - 1) for _ in range(int(count))]


def _text(rules: dict[str, Any]) -> str:
    least, most = int(min(rules.get("minLength", 0), MOST_CHARACTERS)), rules.get("maxLength", MOST_CHARACTERS)
    text = FORMATS.get(str(rules.get("format")), "text")
    return text.ljust(least, "x")[: int(min(most, MOST_CHARACTERS))]


def _number(rules: dict[str, Any], *, is_whole: bool) -> float:
    step = rules.get("multipleOf", 1)
    low, high = rules.get("minimum", rules.get("exclusiveMinimum")), rules.get("maximum", rules.get("exclusiveMaximum"))
    value = low if low is not None else high if high is not None else step
    if value == rules.get("exclusiveMinimum") or value == rules.get("exclusiveMaximum"):
        value += step if low is not None else -step
    return int(value) if is_whole else value
