"""Why a schema refuses a value, in the words of jsonschema. Import it late: jsonschema takes 75 ms to import.

jsonschema-rs decides what is refused (`verdicts`), and jsonschema's keyword functions word it. They see a validator
that asks jsonschema-rs and goes no deeper by itself, so that nothing recurses and nothing valid is entered. Keywords
that jsonschema judges slowly or differently are in `ANSWERED`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from jsonschema import Draft7Validator, ValidationError, validators

from ao_protocol.contracts.problems import Problem, listed, shown
from ao_protocol.contracts.verdicts import MAX_BACKTRACKS, Engine, gives_up_on, keyword_engine, matches
from ao_protocol.json_path import below

MAX_MESSAGE_CHARACTERS: Final = 1_000


@dataclass(slots=True)
class Refused:
    """A value that a part of the schema refuses, to be explained next; `parent` is set by jsonschema."""

    schema: Any
    path: str
    value: Any
    parent: object = None


JSON: TypeAlias = Any
"""A value or a part of a schema."""
Step: TypeAlias = "Problem | Refused"
Words: TypeAlias = Iterator["ValidationError | Refused"]


def explain(engine: Engine, path: str, value: object) -> Iterator[Problem]:
    """Yield the problems of a value that the engine's schema refuses, lazily, at least one.

    The order is that of the schema's keywords and of the value's members. A part of a schema that is reached
    twice at one place is explained once.
    """
    # A key is judged at the place of its object, so the place alone does not say which value it is.
    visited: set[tuple[int, str, int]] = set()
    stack: list[Iterator[Step]] = [iter([Refused(engine.dereferenced(engine.document), path, value)])]
    while stack:
        step = next(stack[-1], None)
        if step is None:
            stack.pop()
        elif isinstance(step, Problem):
            yield step
        elif (site := (id(step.schema), step.path, id(step.value))) not in visited:
            visited.add(site)
            stack.append(_explain_refused(engine, step))


def _explain_refused(engine: Engine, refused: Refused) -> Iterator[Step]:
    if refused.schema is False:
        yield Problem(refused.path, f"False schema does not allow {shown(refused.value)}")
        return
    asking = _Asking(engine, refused.path, refused.value, _shortened(refused.value))
    explained = False
    for keyword in [keyword for keyword in refused.schema if keyword in _WORDS]:
        rule = _shortened(refused.schema[keyword])
        for error in _WORDS[keyword](asking, rule, asking.shown, refused.schema):
            explained = True
            if isinstance(error, Refused):
                yield error
                continue
            cut = error.message[MAX_MESSAGE_CHARACTERS:] and "…"
            yield Problem(refused.path, error.message[:MAX_MESSAGE_CHARACTERS] + cut)
            meant = [each for each in error.context or () if _may_be_meant(engine, each)]
            yield from meant if len(meant) == 1 else ()
    if not explained:
        yield Problem(refused.path, f"{shown(refused.value)} is not valid under {shown(refused.schema)}")


@dataclass(slots=True)
class _Asking:
    """The validator that jsonschema's keyword functions see; `shown` is the value with a short `repr`."""

    engine: Engine
    path: str
    value: Any
    shown: Any
    schema: Any = None

    def is_type(self, instance: object, name: str) -> bool:
        return bool(Draft7Validator.TYPE_CHECKER.is_type(instance, name))

    def evolve(self, schema: object) -> "_Asking":
        self.schema = schema
        return self

    def is_valid(self, instance: object) -> bool:
        return not self.descend(instance, self.schema)

    def descend(
        self, instance: object, schema: JSON, path: str | int | None = None, schema_path: object = None
    ) -> tuple[Refused, ...]:
        value = self.value if instance is self.shown else instance
        schema = self.engine.dereferenced(getattr(schema, "whole", schema))
        if self.engine.part_accepts(schema, value):
            return ()
        return (Refused(schema, self.path if path is None else below(self.path, path), value),)


_SHORTENED: Final[dict[type, Any]] = {
    kind: type(kind.__name__, (kind,), {"__repr__": lambda short: shown(short.whole)}) for kind in (dict, list, str)
}


def _shortened(value: JSON) -> JSON:
    """Return a value that jsonschema may put into a message: its `repr` is cut, and costs the same for any size."""
    if type(value) not in _SHORTENED:
        return value
    copy = _SHORTENED[type(value)](value)
    copy.whole = value
    return copy


def _may_be_meant(engine: Engine, alternative: Refused) -> bool:
    """Tell whether the value has the type that an alternative asks for, and the constants that identify it."""
    schema, value = alternative.schema, alternative.value
    if not isinstance(schema, dict) or not _agrees(schema, value, "type"):
        return False
    members = value if isinstance(value, dict) else {}
    declared = {name: engine.dereferenced(member) for name, member in schema.get("properties", {}).items()}
    return all(_agrees(declared[name], members[name], "const", "enum") for name in declared if name in members)


def _agrees(schema: JSON, value: object, *keywords: str) -> bool:
    judged = [keyword for keyword in keywords if isinstance(schema, dict) and keyword in schema]
    judge = Draft7Validator({})
    return not any([*_WORDS[keyword](judge, schema[keyword], _shortened(value), schema)] for keyword in judged)


def _answered(keyword: str, words: str) -> Callable[..., Words]:
    """Return a keyword function that asks jsonschema-rs whether the keyword accepts the value."""

    def explain_keyword(asking: _Asking, rule: JSON, instance: JSON, schema: dict[str, Any]) -> Words:
        if not keyword_engine(keyword, schema[keyword]).is_valid(asking.value):
            yield ValidationError(words.format(instance, rule))

    return explain_keyword


def _pattern(asking: _Asking, rule: JSON, instance: JSON, schema: dict[str, Any]) -> Words:
    if isinstance(asking.value, str) and gives_up_on(schema["pattern"], asking.value):
        yield ValidationError(f"{instance!r} could not be matched with {rule!r} in {MAX_BACKTRACKS} steps")
    else:
        yield from _answered("pattern", "{0!r} does not match {1!r}")(asking, rule, instance, schema)


def _format(asking: _Asking, rule: JSON, instance: JSON, schema: dict[str, Any]) -> Words:
    if asking.engine.checks_formats:
        yield from _answered("format", "{0!r} is not a {1!r}")(asking, rule, instance, schema)


def _pattern_properties(asking: _Asking, rule: JSON, instance: JSON, _schema: dict[str, Any]) -> Words:
    for pattern, below_pattern in rule.items() if isinstance(instance, dict) else ():
        for name in instance:
            if matches(pattern, name):
                yield from asking.descend(instance[name], below_pattern, path=name)


def _additional_properties(asking: _Asking, rule: JSON, instance: JSON, schema: dict[str, Any]) -> Words:
    if not isinstance(instance, dict):
        return
    declared, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    extra = (name for name in instance if name not in declared and not any(matches(each, name) for each in patterns))
    if rule is not False:
        for name in extra:
            yield from asking.descend(instance[name], rule, path=name)
        return
    names = sorted(extra)
    if names and patterns:
        verb = "does" if len(names) == 1 else "do"
        yield ValidationError(f"{listed(names)} {verb} not match any of the regexes: {listed(sorted(patterns))}")
    elif names:
        verb = "was" if len(names) == 1 else "were"
        yield ValidationError(f"Additional properties are not allowed ({listed(names)} {verb} unexpected)")


def _additional_items(asking: _Asking, rule: JSON, instance: JSON, schema: dict[str, Any]) -> Words:
    # jsonschema fails where `items` is a boolean.
    if isinstance(schema.get("items"), list):
        yield from Draft7Validator.VALIDATORS["additionalItems"](asking, rule, instance, schema)


ANSWERED: Final[dict[str, Any]] = {
    "additionalItems": _additional_items,
    "additionalProperties": _additional_properties,
    "format": _format,
    "multipleOf": _answered("multipleOf", "{0!r} is not a multiple of {1!r}"),
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "uniqueItems": _answered("uniqueItems", "{0!r} has non-unique elements"),
}
_WORDS: Final[Mapping[str, Any]] = validators.extend(Draft7Validator, ANSWERED).VALIDATORS  # type: ignore[no-untyped-call]  # so its stubs say
