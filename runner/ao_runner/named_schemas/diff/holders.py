"""How keywords differ that hold other schemas: what is there in one of the two only, and the pairs to look into."""

from typing import Any

from ao_runner.named_schemas.diff.effects import Context, Effect, Judge
from ao_runner.named_schemas.diff.rules import compare_rule
from ao_runner.named_schemas.diff.steps import Change, Difference, Pair, Steps, from_to
from ao_runner.named_schemas.diff.words import listed, words_for

_OPEN_BEFORE = "; any value could stand under this name before"
_CLOSED_NOW = "; it is refused now"


def compare_one_schema(pair: Pair, judge: Judge, keyword: str) -> Steps:
    """Yield the two schemas under a keyword, or that there is only one."""
    if pair.change(keyword) is Change.CHANGED:
        yield pair.inside(keyword)
    else:
        yield from compare_rule(pair, judge, keyword)


def compare_not(pair: Pair, judge: Judge, keyword: str) -> Steps:
    """Yield what is refused, where to refuse more is to accept less."""
    if pair.change(keyword) is Change.CHANGED:
        yield Pair(pair.old.below(keyword), pair.new.below(keyword), pair.context.inverted())
    else:
        yield from compare_rule(pair, judge, keyword)


def compare_condition(pair: Pair, judge: Judge, keyword: str) -> Steps:
    """Yield `if`, `then` or `else`: under another condition the consequences count for other values."""
    has_both = "if" in pair.old.rules and "if" in pair.new.rules
    is_settled = has_both and keyword != "if" and judge.are_equal(pair.old.below("if"), pair.new.below("if"))
    context = pair.context if is_settled else pair.context.uncertain()
    if pair.change(keyword) is Change.CHANGED:
        yield Pair(pair.old.below(keyword), pair.new.below(keyword), context)
    else:
        yield from compare_rule(pair, judge, keyword)


def compare_properties(pair: Pair, judge: Judge, keyword: str) -> Steps:
    """Yield the properties that are new or gone, and those that both have."""
    old, new = pair.old.rules.get(keyword, {}), pair.new.rules.get(keyword, {})
    for name in dict.fromkeys([*new, *old]):
        if name in old and name in new:
            yield pair.inside(keyword, name)
            continue
        effect = judge.of_member(pair.context, pair.old, pair.new, name)
        is_refusal = effect is Effect.NARROWER
        if name in new:
            what = f"property: {words_for(new[name])}{_OPEN_BEFORE * is_refusal}"
        else:
            what = f"property: was {words_for(old[name])}{_CLOSED_NOW * is_refusal}"
        yield pair.entry(keyword, name, what, effect)


def compare_pattern_properties(pair: Pair, judge: Judge, keyword: str) -> Steps:
    """Yield the patterns of names that are new or gone, and those that both have."""
    old, new = pair.old.rules.get(keyword, {}), pair.new.rules.get(keyword, {})
    for pattern in dict.fromkeys([*new, *old]):
        if pattern in old and pattern in new:
            yield pair.inside(keyword, pattern)
            continue
        words = words_for(new[pattern]) if pattern in new else f"was {words_for(old[pattern])}"
        effect = pair.effect(judge, keyword, "additionalProperties")
        yield pair.entry(keyword, pattern, f"properties called like this: {words}", effect)


def compare_additional(pair: Pair, judge: Judge, keyword: str) -> Steps:
    """Yield what `additionalProperties` or `additionalItems` says of all the others."""
    old, new = pair.old.rules.get(keyword, True), pair.new.rules.get(keyword, True)
    if isinstance(old, dict) and isinstance(new, dict):
        yield pair.inside(keyword)
    elif old is not new or pair.change(keyword) is not Change.CHANGED:
        others = "other properties" if keyword == "additionalProperties" else "items behind those that are listed"
        what = f"{others}: {from_to(_others(old), _others(new))}"
        yield Difference(pair.place(keyword), pair.change(keyword), what, pair.effect(judge, keyword))


def _others(schema: Any) -> str:  # noqa: ANN401  # an object or a boolean
    if isinstance(schema, bool):
        return "allowed" if schema else "refused"
    return words_for(schema)


def compare_items(pair: Pair, judge: Judge, keyword: str) -> Steps:
    """Yield the schemas of all items, or those of items at the same position."""
    old, new = pair.old.rules.get(keyword, True), pair.new.rules.get(keyword, True)
    effect = pair.effect(judge, keyword, "additionalItems")
    if isinstance(old, list) and isinstance(new, list):
        for index in range(max(len(old), len(new))):
            if index >= len(old):
                yield pair.entry(keyword, index, f"item: {words_for(new[index])}", effect)
            elif index >= len(new):
                yield pair.entry(keyword, index, f"item: was {words_for(old[index])}", effect)
            else:
                yield pair.inside(keyword, index)
    elif isinstance(old, list) or isinstance(new, list) or pair.change(keyword) is not Change.CHANGED:
        yield Difference(pair.place(keyword), pair.change(keyword), from_to(_items(old), _items(new)), effect)
    else:
        yield pair.inside(keyword)


def _items(rule: Any) -> str:  # noqa: ANN401  # a schema, or a list of them
    return f"in this order: {', '.join(map(words_for, rule))}" if isinstance(rule, list) else words_for(rule)


def compare_dependencies(pair: Pair, judge: Judge, keyword: str) -> Steps:
    """Yield what the presence of a member demands, where that differs."""
    old, new = pair.old.rules.get(keyword, {}), pair.new.rules.get(keyword, {})
    for name in dict.fromkeys([*new, *old]):
        if name not in old:
            words = _needed(new[name])
        elif name not in new:
            words = f"was {_needed(old[name])}"
        elif isinstance(old[name], list) or isinstance(new[name], list):
            words = from_to(_needed(old[name]), _needed(new[name]))
        else:
            yield pair.inside(keyword, name)
            continue
        if old.get(name) != new.get(name):
            effect = judge.of_dependency(pair.context, pair.old, pair.new, name)
            yield pair.entry(keyword, name, f"with this property: {words}", effect)


def _needed(rule: Any) -> str:  # noqa: ANN401  # a schema, or a list of names
    return f"{listed(rule) or 'nothing'} must be there" if isinstance(rule, list) else words_for(rule)


def compare_definitions(pair: Pair, _judge: Judge, keyword: str) -> Steps:
    """Yield which definitions are new or gone, and those that both have: they count where somebody refers to them."""
    old, new = pair.old.rules.get(keyword, {}), pair.new.rules.get(keyword, {})
    for name in dict.fromkeys([*new, *old]):
        if name in old and name in new:
            inside = pair.inside(keyword, name)
            yield Pair(inside.old, inside.new, Context.unused())
        else:
            words = words_for(new[name]) if name in new else f"was {words_for(old[name])}"
            yield pair.entry(keyword, name, f"definition: {words}", Effect.SAME)
