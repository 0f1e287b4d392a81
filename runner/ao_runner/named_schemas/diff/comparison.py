"""The story of a comparison: every pair of schemas that stand at the same place, the outermost first."""

from dataclasses import dataclass

from ao_protocol.json_path import ROOT
from ao_protocol.output.json_values import canonical_json
from ao_protocol.wire import JsonObject
from ao_runner.named_schemas.diff.effects import Context, Effect, Judge
from ao_runner.named_schemas.diff.facts import Document
from ao_runner.named_schemas.diff.keywords import differences_between
from ao_runner.named_schemas.diff.steps import Change, Difference, Pair


@dataclass(frozen=True, slots=True)
class Comparison:
    """All differences between two schemas, and what becomes of what the first one accepts."""

    verdict: Effect
    differences: tuple[Difference, ...]


def compare_schemas(old: JsonObject, new: JsonObject) -> Comparison:
    """Compare two schemas.

    The verdicts `same` and `wider` are proven: whatever the first schema accepts, the second one does. `narrower`
    says that it may refuse some of it, `unclear` that neither could be told. There are no differences exactly where
    both are the same JSON.

    Raises:
        InvalidSchema: one of them is none that answers can be held to.
    """
    judge = Judge()
    first, second = Document(old).part(), Document(new).part()
    if canonical_json(old) == canonical_json(new):
        return Comparison(Effect.SAME, ())
    differences = _found(Pair(first, second, Context()), judge)
    if not differences:
        what = "only written in another way: order, identifiers, references"
        differences = [Difference(ROOT, Change.CHANGED, what, Effect.SAME)]
    return Comparison(judge.verdict(first, second) or _feared(differences), tuple(differences))


def _found(whole: Pair, judge: Judge) -> list[Difference]:
    found: dict[tuple[str, Change, str], Difference] = {}
    pending, seen = [whole], {whole}
    while pending:
        inside: list[Pair] = []
        for step in differences_between(pending.pop(), judge):
            if isinstance(step, Difference):
                key = step.place, step.change, step.what
                # What several places share is told once, with the heaviest of its effects.
                known = found.get(key, step)
                found[key] = max(known, step, key=lambda difference: difference.effect.weight)
            elif step not in seen:
                seen.add(step)
                inside.append(step)
        pending += reversed(inside)
    return list(found.values())


def _feared(differences: list[Difference]) -> Effect:
    """Return the verdict where nothing was proven."""
    is_refused = any(difference.effect is Effect.NARROWER for difference in differences)
    return Effect.NARROWER if is_refused else Effect.UNCLEAR
