"""The problems of a value that a schema refuses, in words, by keyword.

jsonschema-rs decides on every part of the schema and on every keyword that asserts something. This module follows the
parts that refuse, without recursion, and states what they refuse in the words of the library jsonschema. No valid part
is visited.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

from ao_protocol.contracts.problems import Problem, listed, shown
from ao_protocol.contracts.verdicts import JSON, MAX_BACKTRACKS, Engine, pattern_engine, search_failure
from ao_protocol.json_path import below
from ao_protocol.short_text import shorten

MAX_EXPLAINING_STEPS: Final = 100_000
"""The maximum effort to find the reasons of a refusal: 0.5 s (measured). A step compiles one value of the schema."""
STEPS_OF_A_PART: Final = 20
STEPS_OF_A_CHECK: Final = 0.2
STEPS_OF_A_MEMBER: Final = 0.3
"""Of a keyword's value that is gone through."""
MAX_MESSAGE_CHARACTERS: Final = 1_000


@dataclass(frozen=True, slots=True)
class _Refused:
    """A value and the part of the schema that refuses it."""

    schema: JSON
    path: str
    value: JSON


class _TooMuchEffort(Exception):
    """The reasons of a refusal take more than the allowed steps to find."""


def explain(engine: Engine, path: str, value: object) -> Iterator[Problem]:
    """Yield the problems of a value that the engine's schema refuses, lazily, at least one.

    The order is that of the schema's keywords and of the value's members. A part of a schema is explained once for each
    value and place. If the reasons take more than 100,000 steps to find, the last problem is the part that was reached.
    """
    # A key is validated at the path of its object, so the path alone does not identify the value.
    visited: set[tuple[int, str, int]] = set()
    explanation = _Explanation(engine)
    start = _Refused(engine.dereferenced(engine.document), path, value)
    stack: list[tuple[_Refused, Iterator[Problem | _Refused]]] = [(start, iter([start]))]
    while stack:
        refused, steps = stack[-1]
        try:
            step = next(steps, None)
        except _TooMuchEffort:
            yield Problem(refused.path, f"{_not_valid(refused)}, for reasons that take too many steps to find")
            return
        if step is None:
            stack.pop()
        elif isinstance(step, Problem):
            yield step
        elif (site := (id(step.schema), step.path, id(step.value))) not in visited:
            visited.add(site)
            stack.append((step, explanation.reasons(step)))


def _not_valid(refused: _Refused) -> str:
    return f"{shown(refused.value)} is not valid under {shown(refused.schema)}"


class _Explanation:
    """The verdicts of one explanation, and its steps, whether or not the engine has compiled a part before."""

    def __init__(self, engine: Engine) -> None:
        self.engine: Final = engine
        self._left = float(MAX_EXPLAINING_STEPS)
        self._checks: dict[int, Callable[[object], bool]] = {}

    def spend(self, steps: float) -> None:
        self._left -= steps
        if self._left < 0:
            raise _TooMuchEffort

    def accepts(self, schema: JSON, value: object) -> bool:
        """Return whether a part of the document accepts a value."""
        schema = self.engine.dereferenced(schema)
        if isinstance(schema, bool):
            return schema
        check = self._checks.get(id(schema))
        if check is None:
            self.spend(STEPS_OF_A_PART + self.engine.count_reached(schema))
            check = self._checks[id(schema)] = self.engine.part(schema).is_valid
        self.spend(STEPS_OF_A_CHECK)
        return check(value)

    def below(self, at: _Refused, schema: JSON, value: JSON, step: str | int | None = None) -> tuple[_Refused, ...]:
        """Return the value if a part of the document refuses it; `step` leads from the value of `at` to it."""
        if self.accepts(schema, value):
            return ()
        return (_Refused(self.engine.dereferenced(schema), at.path if step is None else below(at.path, step), value),)

    def has_match(self, pattern: str, text: str) -> bool:
        """Return whether a pattern is found in a text. A search that takes too many steps finds nothing."""
        self.spend(STEPS_OF_A_CHECK)
        return pattern_engine(pattern).is_valid(text)

    def reasons(self, refused: _Refused) -> Iterator[Problem | _Refused]:
        """Yield what the keywords of a part say, and the parts inside it that refuse the value or a member of it."""
        if refused.schema is False:
            yield Problem(refused.path, f"False schema does not allow {shown(refused.value)}")
            return
        explained = False
        for keyword, rule in refused.schema.items():
            if keyword not in _KEYWORDS or not isinstance(refused.value, _KEYWORDS[keyword][0]):
                continue
            self.spend(STEPS_OF_A_MEMBER * len(rule) if isinstance(rule, dict | list) else STEPS_OF_A_CHECK)
            for found in _KEYWORDS[keyword][1](self, refused, rule):
                explained = True
                if isinstance(found, _Refused):
                    yield found
                else:
                    yield Problem(refused.path, shorten(found, MAX_MESSAGE_CHARACTERS), keyword)
        if not explained:
            yield Problem(refused.path, _not_valid(refused))


_SENTENCES: Final = {
    "const": "{rule} was expected",
    "enum": "{value} is not one of {rule}",
    "exclusiveMaximum": "{value} is greater than or equal to the maximum of {rule}",
    "exclusiveMinimum": "{value} is less than or equal to the minimum of {rule}",
    "format": "{value} is not a {rule}",
    "maxItems": "{value} is too long",
    "maxLength": "{value} is too long",
    "maxProperties": "{value} has too many properties",
    "maximum": "{value} is greater than the maximum of {rule}",
    "minItems": "{value} is too short",
    "minLength": "{value} is too short",
    "minProperties": "{value} does not have enough properties",
    "minimum": "{value} is less than the minimum of {rule}",
    "multipleOf": "{value} is not a multiple of {rule}",
    "pattern": "{value} does not match {rule}",
    "type": "{value} is not of type {rule}",
    "uniqueItems": "{value} has non-unique elements",
}
"""The sentence for each keyword that asserts something about the value itself."""
_SENTENCES_OF_LIMITS: Final[Mapping[tuple[str, float], str]] = {
    **dict.fromkeys((("maxItems", 0), ("maxLength", 0), ("maxProperties", 0)), "{value} is expected to be empty"),
    **dict.fromkeys((("minItems", 1), ("minLength", 1), ("minProperties", 1)), "{value} should be non-empty"),
}


def _sentence(keyword: str, asked: _Explanation, at: _Refused, rule: JSON) -> Iterator[str]:
    sentence = _SENTENCES[keyword]
    if keyword == "pattern":
        gave_up = search_failure(rule, at.value)
        is_accepted = gave_up is None
        if gave_up:
            sentence = f"{{value}} could not be matched with {{rule}} in {MAX_BACKTRACKS} steps"
    else:
        is_accepted = asked.engine.keyword_accepts(at.schema, keyword, at.value)
    if is_accepted:
        return
    if isinstance(rule, int | float):
        sentence = _SENTENCES_OF_LIMITS.get((keyword, rule), sentence)
    words = listed(rule) if keyword == "type" and isinstance(rule, list) else shown(rule)
    yield sentence.format(value=shown(at.value), rule=words)


_Words: TypeAlias = Iterator[str | _Refused]


def _all_of(asked: _Explanation, at: _Refused, rule: JSON) -> _Words:
    for schema in rule:
        yield from asked.below(at, schema, at.value)


def _any_of(asked: _Explanation, at: _Refused, rule: JSON) -> _Words:
    if not any(asked.accepts(schema, at.value) for schema in rule):
        yield from _no_alternative(asked, at, rule)


def _one_of(asked: _Explanation, at: _Refused, rule: JSON) -> _Words:
    fitting = (schema for schema in rule if asked.accepts(schema, at.value))
    first = next(fitting, None)
    if first is None:
        yield from _no_alternative(asked, at, rule)
    elif others := list(fitting):
        yield f"{shown(at.value)} is valid under each of {', '.join(map(repr, [*others, first]))}"


def _no_alternative(asked: _Explanation, at: _Refused, rule: JSON) -> _Words:
    """Yield that no alternative fits, and the only one that may be meant, if there is one."""
    yield f"{shown(at.value)} is not valid under any of the given schemas"
    asked.spend(STEPS_OF_A_PART * len(rule))
    alternatives = map(asked.engine.dereferenced, rule)
    meant = [schema for schema in alternatives if _may_be_meant(asked.engine, schema, at.value)]
    if len(meant) == 1:
        yield _Refused(meant[0], at.path, at.value)


def _may_be_meant(engine: Engine, schema: JSON, value: JSON) -> bool:
    """Return whether the value has the type that an alternative requires, and its identifying constants."""
    if not isinstance(schema, dict) or not _agrees(engine, schema, value, "type"):
        return False
    members = value if isinstance(value, dict) else {}
    declared = {name: engine.dereferenced(member) for name, member in schema.get("properties", {}).items()}
    return all(_agrees(engine, declared[name], members[name], "const", "enum") for name in declared if name in members)


def _agrees(engine: Engine, schema: JSON, value: JSON, *keywords: str) -> bool:
    given = [keyword for keyword in keywords if isinstance(schema, dict) and keyword in schema]
    return all(engine.keyword_accepts(schema, keyword, value) for keyword in given)


def _not(asked: _Explanation, at: _Refused, rule: JSON) -> _Words:
    if asked.accepts(rule, at.value):
        yield f"{shown(at.value)} should not be valid under {shown(rule)}"


def _if(asked: _Explanation, at: _Refused, rule: JSON) -> _Words:
    branch = "then" if asked.accepts(rule, at.value) else "else"
    yield from asked.below(at, at.schema.get(branch, True), at.value)


def _properties(asked: _Explanation, at: _Refused, rule: JSON) -> _Words:
    for name, schema in rule.items():
        if name in at.value:
            yield from asked.below(at, schema, at.value[name], name)


def _pattern_properties(asked: _Explanation, at: _Refused, rule: JSON) -> _Words:
    for pattern, schema in rule.items():
        for name in at.value:
            if asked.has_match(pattern, name):
                yield from asked.below(at, schema, at.value[name], name)


def _additional_properties(asked: _Explanation, at: _Refused, rule: JSON) -> _Words:
    declared, patterns = at.schema.get("properties", {}), at.schema.get("patternProperties", {})
    undeclared = (name for name in at.value if name not in declared)
    extra = (name for name in undeclared if not any(asked.has_match(pattern, name) for pattern in patterns))
    if rule is not False:
        for name in extra:
            yield from asked.below(at, rule, at.value[name], name)
    elif names := sorted(extra):
        verb = "does" if len(names) == 1 else "do"
        unmatched = f"{listed(names)} {verb} not match any of the regexes: {listed(sorted(patterns))}"
        yield unmatched if patterns else f"Additional properties are not allowed ({_unexpected(names)})"


def _additional_items(asked: _Explanation, at: _Refused, rule: JSON) -> _Words:
    items = at.schema.get("items")
    if isinstance(items, list):
        extra = at.value[len(items) :]
        if rule is False and extra:
            yield f"Additional items are not allowed ({_unexpected(extra)})"
        elif rule is not False:
            for index, item in enumerate(extra, len(items)):
                yield from asked.below(at, rule, item, index)


def _unexpected(values: list[JSON]) -> str:
    return f"{listed(values)} {'was' if len(values) == 1 else 'were'} unexpected"


def _property_names(asked: _Explanation, at: _Refused, rule: JSON) -> _Words:
    for name in at.value:
        yield from asked.below(at, rule, name)


def _required(_asked: _Explanation, at: _Refused, rule: JSON) -> _Words:
    return (f"{name!r} is a required property" for name in rule if name not in at.value)


def _dependencies(asked: _Explanation, at: _Refused, rule: JSON) -> _Words:
    for name, needed in rule.items():
        if name in at.value and isinstance(needed, list):
            yield from (f"{other!r} is a dependency of {name!r}" for other in needed if other not in at.value)
        elif name in at.value:
            yield from asked.below(at, needed, at.value)


def _items(asked: _Explanation, at: _Refused, rule: JSON) -> _Words:
    for index, item in enumerate(at.value[: len(rule)] if isinstance(rule, list) else at.value):
        yield from asked.below(at, rule[index] if isinstance(rule, list) else rule, item, index)


def _contains(asked: _Explanation, at: _Refused, rule: JSON) -> _Words:
    if not any(asked.accepts(rule, item) for item in at.value):
        yield f"None of {shown(at.value)} are valid under the given schema"


_Keyword: TypeAlias = Callable[[_Explanation, _Refused, JSON], _Words]
_KEYWORDS: Final[Mapping[str, tuple[type, _Keyword]]] = {
    **{keyword: (object, partial(_sentence, keyword)) for keyword in _SENTENCES},
    "additionalItems": (list, _additional_items),
    "additionalProperties": (dict, _additional_properties),
    "allOf": (object, _all_of),
    "anyOf": (object, _any_of),
    "contains": (list, _contains),
    "dependencies": (dict, _dependencies),
    "if": (object, _if),
    "items": (list, _items),
    "not": (object, _not),
    "oneOf": (object, _one_of),
    "patternProperties": (dict, _pattern_properties),
    "properties": (dict, _properties),
    "propertyNames": (dict, _property_names),
    "required": (dict, _required),
}
"""For each keyword the type of the values that it is about, and what it says about a value that its schema refuses."""
