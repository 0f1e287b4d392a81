"""The problems of a value that a schema refuses, in words, by keyword.

jsonschema-rs decides on every part of the schema and on every keyword that asserts something. This module follows the
parts that refuse, without recursion, and states what they refuse in the words of the library jsonschema. No valid part
is visited.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Final, TypeAlias

from ao_protocol.contracts.problems import Problem
from ao_protocol.contracts.verdicts import JSON, MAX_BACKTRACKS, Engine, pattern_engine, search_failure
from ao_protocol.json_path import below
from ao_protocol.json_words import listed, missing, shown
from ao_protocol.short_text import shorten

MAX_EXPLAINING_STEPS: Final = 100_000
"""The maximum effort to find the reasons of a refusal: 0.5 s (measured). A step compiles one value of the schema."""
STEPS_OF_A_PART: Final = 20
STEPS_OF_A_CHECK: Final = 0.2
STEPS_OF_A_MEMBER: Final = 0.3
"""Of a keyword's value that is gone through."""
MAX_MESSAGE_CHARACTERS: Final = 1_000
MOST_REASONS: Final = 20
"""An alternative with more reasons to refuse a value is not compared more closely."""


@dataclass(frozen=True, slots=True)
class _Refused:
    """A value and the part of the schema that refuses it.

    `needed` are the members that the parts around it require of the same value. `way_out` ends the messages.
    """

    schema: JSON
    path: str
    value: JSON
    needed: frozenset[str] = frozenset()
    way_out: str = ""


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
        schema = self.engine.dereferenced(schema)
        if step is None:
            return (_Refused(schema, at.path, value, self.needed(at), at.way_out),)
        may_be_left_out = value is None and isinstance(step, str) and step not in self.needed(at)
        return (_Refused(schema, below(at.path, step), value, way_out="; leave it out" if may_be_left_out else ""),)

    def needed(self, at: _Refused) -> frozenset[str]:
        """Return the members that a part, those around it and those of its `allOf` require of the same value."""
        parts = [at.schema, *map(self.engine.dereferenced, at.schema.get("allOf", ()))]
        return at.needed.union(*(part.get("required", ()) for part in parts if isinstance(part, dict)))

    def has_match(self, pattern: str, text: str) -> bool:
        """Return whether a pattern is found in a text. A search that takes too many steps finds nothing."""
        self.spend(STEPS_OF_A_CHECK)
        return pattern_engine(pattern).is_valid(text)

    def reasons(self, refused: _Refused) -> Iterator[Problem | _Refused]:
        """Yield what the keywords of a part say, and the parts inside it that refuse the value or a member of it."""
        if refused.schema is False:
            yield Problem(refused.path, f"the schema false does not allow {shown(refused.value)}{refused.way_out}")
            return
        explained = False
        for keyword, words in self.said(refused):
            for found in words:
                explained = True
                if isinstance(found, _Refused | Problem):
                    yield found
                else:
                    message = f"{shorten(found, MAX_MESSAGE_CHARACTERS)}{refused.way_out}"
                    yield Problem(refused.path, message, keyword)
        if not explained:
            yield Problem(refused.path, _not_valid(refused))

    def said(self, refused: _Refused) -> "Iterator[tuple[str, _Words]]":
        """Yield each keyword of a part that is about the value, with what it says."""
        for keyword, rule in refused.schema.items():
            if keyword in _KEYWORDS and isinstance(refused.value, _KEYWORDS[keyword][0]):
                self.spend(STEPS_OF_A_MEMBER * len(rule) if isinstance(rule, dict | list) else STEPS_OF_A_CHECK)
                yield keyword, _KEYWORDS[keyword][1](self, refused, rule)


_SENTENCES: Final = {
    "const": "{rule} was expected",
    "enum": "{value} is not one of {rule}",
    "exclusiveMaximum": "{value} is greater than or equal to the maximum of {rule}",
    "exclusiveMinimum": "{value} is less than or equal to the minimum of {rule}",
    "format": "{value} does not have the format {rule}",
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
_EXAMPLES: Final = {"date": "2026-01-31", "date-time": "2026-01-31T12:00:00Z", "time": "12:00:00Z"}
"""Values of formats that models are often wrong about."""
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
    example = f", as {shown(_EXAMPLES[rule])} has" if keyword == "format" and rule in _EXAMPLES else ""
    yield sentence.format(value=shown(at.value), rule=words) + example


_Words: TypeAlias = Iterator[str | Problem | _Refused]


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
        yield f"{shown(at.value)} is valid under each of {listed([*others, first])}, and only one may accept it"


def _no_alternative(asked: _Explanation, at: _Refused, rule: JSON) -> _Words:
    """Yield that no alternative fits, and what is wrong under the one that was meant."""
    yield f"{shown(at.value)} is not valid under any of the given schemas"
    asked.spend(STEPS_OF_A_PART * len(rule))
    alternatives = [schema for schema in map(asked.engine.dereferenced, rule) if isinstance(schema, dict)]
    of_the_type = [schema for schema in alternatives if _agrees(asked.engine, schema, at.value, "type")]
    members = at.value if isinstance(at.value, dict) else {}
    declared = [_constants(asked.engine, schema, members) for schema in of_the_type]
    meant = [
        schema
        for schema, constants in zip(of_the_type, declared, strict=True)
        if all(_agrees(asked.engine, constants[name], members[name], "const", "enum") for name in constants)
    ]
    if not of_the_type:
        types = [schema["type"] for schema in alternatives if "type" in schema]
        allowed = [name for each in types for name in (each if isinstance(each, list) else [each])]
        if len(types) == len(alternatives):
            yield Problem(
                at.path, f"{shown(at.value)} is not of type {listed(dict.fromkeys(allowed))}{at.way_out}", "type"
            )
    elif not meant and (names := [name for name in members if all(name in constants for constants in declared)]):
        rules = [constants[names[0]] for constants in declared]
        allowed = [value for each in rules for value in (each.get("enum") or [each.get("const")])]
        place = below(at.path, names[0])
        keyword = "enum" if "enum" in rules[0] else "const"
        yield Problem(place, f"{shown(members[names[0]])} is not one of {shown(allowed)}", keyword)
    else:
        nearest = min(meant or of_the_type, key=lambda schema: _distance(asked, schema, at))
        yield replace(at, schema=nearest, needed=asked.needed(at))


def _constants(engine: Engine, schema: JSON, members: dict[str, JSON]) -> dict[str, JSON]:
    """Return the schemas of those members for which an alternative allows certain values only."""
    declared = {name: engine.dereferenced(member) for name, member in schema.get("properties", {}).items()}
    return {
        name: member
        for name, member in declared.items()
        if name in members and isinstance(member, dict) and not member.keys().isdisjoint({"const", "enum"})
    }


def _distance(asked: _Explanation, schema: JSON, at: _Refused) -> tuple[int, int]:
    """Return how many reasons an alternative has to refuse a value, and how many members of the value it lacks.

    Of alternatives inside it the first sentence counts, since each level of them would multiply the steps.
    """
    said = asked.said(replace(at, schema=schema))
    reasons = sum(1 for name, words in said for _ in islice(words, 1 if name in _ALTERNATIVES else MOST_REASONS))
    return reasons, len(set(at.value) - schema.get("properties", {}).keys()) if isinstance(at.value, dict) else 0


_ALTERNATIVES: Final = frozenset({"anyOf", "oneOf"})


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
    return (missing(name) for name in rule if name not in at.value)


def _dependencies(asked: _Explanation, at: _Refused, rule: JSON) -> _Words:
    for name, needed in rule.items():
        if name in at.value and isinstance(needed, list):
            yield from (f"{shown(other)} is a dependency of {shown(name)}" for other in needed if other not in at.value)
        elif name in at.value:
            yield from asked.below(at, needed, at.value)


def _items(asked: _Explanation, at: _Refused, rule: JSON) -> _Words:
    for index, item in enumerate(at.value[: len(rule)] if isinstance(rule, list) else at.value):
        yield from asked.below(at, rule[index] if isinstance(rule, list) else rule, item, index)


def _contains(asked: _Explanation, at: _Refused, rule: JSON) -> _Words:
    if not any(asked.accepts(rule, item) for item in at.value):
        yield f"{shown(at.value)} does not contain items matching the given schema"


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
