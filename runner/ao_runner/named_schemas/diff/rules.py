"""How keywords differ that hold no other schemas: types, values, bounds, names, and what is there for readers only."""

from collections.abc import Callable
from typing import Any, Final

from ao_protocol.output.json_values import canonical_json
from ao_runner.named_schemas.diff.effects import Effect, Judge
from ao_runner.named_schemas.diff.proof import JUDGING
from ao_runner.named_schemas.diff.steps import Change, Difference, Pair, Steps, from_to
from ao_runner.named_schemas.diff.words import as_json, listed, words_for

_WORDS: Final[dict[str, Callable[[Any], str]]] = {
    **dict.fromkeys(("contains", "else", "if", "not", "propertyNames", "then"), words_for),
    "type": lambda names: words_for({"type": names}),
}
_DECIDING: Final = {"else": "if", "then": "if"}


def compare_rule(pair: Pair, judge: Judge, keyword: str) -> Steps:
    """Yield that a keyword is there in one schema only, or says something else."""
    change, old, new = pair.change(keyword), pair.old.rules.get(keyword), pair.new.rules.get(keyword)
    words = _WORDS.get(keyword, as_json)
    deciding = _DECIDING.get(keyword, keyword)
    match change:
        case Change.ADDED:
            what = words(new)
        case Change.REMOVED:
            what = f"was {words(old)}"
        case Change.CHANGED if canonical_json(old) != canonical_json(new):
            what = from_to(words(old), words(new))
        case _:
            return
    effect = pair.effect(judge, deciding) if deciding in JUDGING else Effect.ANNOTATION
    yield Difference(pair.place(keyword), change, what, effect)


def compare_enum(pair: Pair, judge: Judge, keyword: str) -> Steps:
    """Yield which values there are now, and which there are no more."""
    if pair.change(keyword) is not Change.CHANGED:
        yield from compare_rule(pair, judge, keyword)
        return
    old = {canonical_json(value): value for value in pair.old.rules[keyword]}
    new = {canonical_json(value): value for value in pair.new.rules[keyword]}
    gained = [value for text, value in new.items() if text not in old]
    lost = [value for text, value in old.items() if text not in new]
    if gained:
        effect = judge.of_values(pair.context, pair.old, pair.new, gained)
        yield Difference(pair.place(keyword), Change.ADDED, listed(gained), effect)
    if lost:
        effect = judge.of_values(pair.context, pair.old, pair.new, lost)
        yield Difference(pair.place(keyword), Change.REMOVED, f"was {listed(lost)}", effect)


def compare_required(pair: Pair, judge: Judge, keyword: str) -> Steps:
    """Yield which members must be there now, and which may be missing."""
    old, new = pair.old.rules.get(keyword, []), pair.new.rules.get(keyword, [])
    for name in dict.fromkeys([*new, *old]):
        effect = judge.of_required(pair.context, pair.old, pair.new, name)
        if name not in old:
            yield Difference(pair.place(keyword), Change.ADDED, f"{as_json(name)} must be there", effect)
        elif name not in new:
            yield Difference(pair.place(keyword), Change.REMOVED, f"{as_json(name)} may be missing", effect)
