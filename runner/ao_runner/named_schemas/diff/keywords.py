"""How two schemas at the same place differ: what kind of value they ask for, then keyword by keyword."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final
from urllib.parse import quote

from ao_runner.named_schemas.diff.alternatives import are_alike, compare_alternatives
from ao_runner.named_schemas.diff.demands import alternatives, exclude_each_other
from ao_runner.named_schemas.diff.effects import Effect, Judge, weigh
from ao_runner.named_schemas.diff.facts import Part
from ao_runner.named_schemas.diff.holders import (
    compare_additional,
    compare_condition,
    compare_definitions,
    compare_dependencies,
    compare_items,
    compare_not,
    compare_one_schema,
    compare_pattern_properties,
    compare_properties,
)
from ao_runner.named_schemas.diff.proof import JUDGING
from ao_runner.named_schemas.diff.rules import compare_enum, compare_required, compare_rule
from ao_runner.named_schemas.diff.steps import Change, Difference, Handler, Pair, Steps, from_to
from ao_runner.named_schemas.diff.words import words_for

_KINDS: Final = frozenset({"anyOf", "const", "enum", "oneOf", "type"})
_HANDLERS: Final[Mapping[str, Handler]] = MappingProxyType(
    {
        "$defs": compare_definitions,
        "additionalItems": compare_additional,
        "additionalProperties": compare_additional,
        "allOf": compare_alternatives,
        "anyOf": compare_alternatives,
        "contains": compare_one_schema,
        "definitions": compare_definitions,
        "dependencies": compare_dependencies,
        "else": compare_condition,
        "enum": compare_enum,
        "if": compare_condition,
        "items": compare_items,
        "not": compare_not,
        "oneOf": compare_alternatives,
        "patternProperties": compare_pattern_properties,
        "properties": compare_properties,
        "propertyNames": compare_one_schema,
        "required": compare_required,
        "then": compare_condition,
    }
)
"""Every other keyword says what it says by itself, or is there for readers."""


def differences_between(pair: Pair, judge: Judge) -> Steps:
    """Yield how two schemas differ themselves, and the pairs of schemas inside them."""
    old, new = pair.old, pair.new
    pair = Pair(old, new, judge.inside(old, new, pair.context))
    was, now = _words(old), _words(new)
    if old.schema is False or new.schema is False:
        if old.schema is not new.schema:
            yield Difference(new.place, Change.CHANGED, from_to(was, now), judge.of_whole(pair.context, old, new))
        return
    keywords = list(dict.fromkeys([*new.rules, *old.rules]))
    if _KINDS & old.rules.keys() != _KINDS & new.rules.keys() and was != now:
        meant = list(_meant(pair))
        yield Difference(new.place, Change.CHANGED, from_to(was, now), _effect(pair, judge, meant))
        yield from meant
        done = JUDGING if meant else _KINDS
        keywords = [keyword for keyword in keywords if keyword not in done]
    for keyword in keywords:
        yield from _HANDLERS.get(keyword, compare_rule)(pair, judge, keyword)


def _words(part: Part) -> str:
    """Return the name of a definition, or else what it asks for."""
    *_, holder, name = ["", *part.pointer.split("/")]
    return words_for({"$ref": quote(name)} if holder in {"$defs", "definitions"} else part.schema)


def _meant(pair: Pair) -> Iterator[Pair]:
    """Yield what is one of the alternatives on one side and all there is on the other: `issue` in `issue or null`."""
    for part in _alternatives(pair.new):
        if are_alike(pair.old, part):
            yield Pair(pair.old, part, pair.context)
    for part in _alternatives(pair.old):
        if are_alike(part, pair.new):
            yield Pair(part, pair.new, pair.context)


def _alternatives(part: Part) -> tuple[Part, ...]:
    return alternatives(part, "anyOf") + alternatives(part, "oneOf")


def _effect(pair: Pair, judge: Judge, meant: list[Pair]) -> Effect:
    if not meant:
        return pair.effect(judge, *_KINDS)
    # What changed inside the alternative that is meant is told there.
    is_more = meant[0].old == pair.old and exclude_each_other(alternatives(pair.new, "oneOf"))
    is_less = meant[0].new == pair.new and exclude_each_other(alternatives(pair.old, "oneOf"))
    return weigh(pair.context, forth=is_more, back=is_less, is_told=False)
