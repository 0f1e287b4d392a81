"""How lists of schemas differ: which of one list go with which of the other, and what the rest means."""

from collections.abc import Sequence
from typing import Any, Final

from ao_protocol.output.json_values import canonical_json
from ao_runner.named_schemas.diff.demands import alternatives, exclude_each_other
from ao_runner.named_schemas.diff.effects import Judge
from ao_runner.named_schemas.diff.facts import Part
from ao_runner.named_schemas.diff.rules import compare_rule
from ao_runner.named_schemas.diff.steps import Change, Difference, Pair, Steps
from ao_runner.named_schemas.diff.words import words_for


def compare_alternatives(pair: Pair, judge: Judge, keyword: str) -> Steps:
    """Yield what `allOf`, `anyOf` or `oneOf` has more and less, and the schemas in it that go together."""
    if keyword != "allOf" and pair.change(keyword) is not Change.CHANGED:
        yield from compare_rule(pair, judge, keyword)
        return
    old, new = alternatives(pair.old, keyword), alternatives(pair.new, keyword)
    context = pair.context
    if keyword == "oneOf" and not (exclude_each_other(old) and exclude_each_other(new)):
        context = context.uncertain()
    together, less, more = match_alternatives(old, new)
    for i, j in together:
        yield Pair(old[i], new[j], context)
    for index in less:
        if keyword == "allOf":
            effect = judge.of_less(context, [pair.new], old[index])
        else:
            effect = judge.of_more(context, [pair.old, old[index]], pair.new)
        what = f"was {words_for(pair.old.rules[keyword][index])}"
        yield Difference(Pair(pair.old, pair.old, context).place(keyword, index), Change.REMOVED, what, effect)
    for index in more:
        if keyword == "allOf":
            effect = judge.of_more(context, [pair.old], new[index])
        else:
            effect = judge.of_less(context, [pair.new, new[index]], pair.old)
        yield Difference(pair.place(keyword, index), Change.ADDED, words_for(pair.new.rules[keyword][index]), effect)


def match_alternatives(old: Sequence[Part], new: Sequence[Part]) -> tuple[list[tuple[int, int]], list[int], list[int]]:
    """Return which go together, by their indexes, and which of the old and of the new ones are left."""
    before, after = [_Look(part) for part in old], [_Look(part) for part in new]
    ranked = sorted(
        ((one.likeness(other), -i, -j) for i, one in enumerate(before) for j, other in enumerate(after)), reverse=True
    )
    pairs: dict[int, int] = {}
    taken: set[int] = set()
    for score, i, j in ranked:
        if score and -i not in pairs and -j not in taken:
            pairs[-i] = -j
            taken.add(-j)
    left = [index for index in range(len(old)) if index not in pairs]
    right = [index for index in range(len(new)) if index not in taken]
    if len(left) == len(right) == 1:
        pairs[left.pop()] = right.pop()
    return sorted(pairs.items()), left, right


def are_alike(old: Part, new: Part) -> bool:
    """Tell whether two schemas can be taken for the same thing, changed or not."""
    return _Look(old).likeness(_Look(new)) >= _SAME_TITLE


_SAME_TITLE: Final = 2


class _Look:
    """By what a schema is recognized."""

    def __init__(self, part: Part) -> None:
        self.definition = part.pointer if part.pointer.startswith(("/definitions/", "/$defs/")) else None
        self.text = canonical_json(part.schema)
        self.tags = _tags(part)
        self.title = part.rules.get("title")
        self.words = words_for(part.schema)

    def likeness(self, other: "_Look") -> int:
        """Return how much speaks for two being the same thing; 0 where nothing does."""
        if self.definition is not None and self.definition == other.definition:
            return 5
        if self.text == other.text:
            return 4
        if not self.tags.isdisjoint(other.tags):
            return 3
        if self.title is not None and self.title == other.title:
            return _SAME_TITLE
        return int(self.words == other.words)


def _tags(part: Part) -> set[str]:
    """Return the members that tell a schema from others: those that can have one value only."""
    members: dict[str, Any] = part.rules.get("properties", {})
    return {
        canonical_json([name, member["const"]])
        for name, member in members.items()
        if isinstance(member, dict) and "const" in member
    }
