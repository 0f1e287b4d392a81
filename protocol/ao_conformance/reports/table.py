"""Several results side by side: a Markdown table with a column for each executor."""

from collections.abc import Sequence
from typing import Final

from ao_conformance.reports.overview import SIGNS, WORDS, kept_of_applicable, verdict_word, who
from ao_conformance.reports.transcript_rows import one_line
from ao_conformance.verdict import UNSEEN, RequirementResult, SuiteResult, Verdict

MAX_CELL: Final = 60
SAME: Final = frozenset({Verdict.PASS, Verdict.NOT_APPLICABLE})
"""A requirement with no other verdict has no row."""


def table_text(results: Sequence[SuiteResult]) -> str:
    """Return the table: what each executor reaches, and each requirement that is not kept, or not seen, by all."""
    by_id = [{rule.id: rule for rule in result.requirements} for result in results]
    ids = [rule.id for rule in results[0].requirements]
    shown = [name for name in ids if any(rules[name].verdict not in SAME for rules in by_id if name in rules)]
    rows = [
        ["", *map(who, results)],
        ["---"] * (len(results) + 1),
        ["level", *map(_level, results)],
        ["verdict", *map(verdict_word, results)],
        ["kept", *("{} of {}".format(*kept_of_applicable(result)) for result in results)],
        ["vectors played", *(f"{result.executed} of {len(result.vectors)}" for result in results)],
        *([name, *(_verdict(rules.get(name)) for rules in by_id)] for name in shown),
    ]
    return "".join(f"| {' | '.join(map(_cell, row))} |\n" for row in rows)


def _level(result: SuiteResult) -> str:
    return result.level if result.reached is None else result.reached or "none"


def _verdict(rule: RequirementResult | None) -> str:
    if rule is None:
        return ""
    known = " (known)" if rule.known_failing and rule.verdict not in UNSEEN else ""
    return f"{SIGNS[rule.verdict]} {WORDS[rule.verdict]}{known}"


def _cell(text: str) -> str:
    return one_line(text, MAX_CELL).replace("|", "\\|")
