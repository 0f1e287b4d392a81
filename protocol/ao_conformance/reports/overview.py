"""A result in the order in which people read it: verdict, broken requirements, their evidence, omissions."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from ao_conformance.reports.transcript_rows import one_line
from ao_conformance.vectors import FIRST_PLAYED
from ao_conformance.verdict import (
    BROKEN,
    UNSEEN,
    Finding,
    Reason,
    RequirementResult,
    SuiteResult,
    VectorResult,
    Verdict,
)

PROTOCOL_NAME: Final = "AO executor protocol"
MOST_REASONS: Final = 3
SOON_SECONDS: Final = 10.0
MOST_MISSING: Final = 20
MOST_NAMED: Final = 100
MOST_WORDS: Final = 120
OF_A_TOOL: Final = "event:tool_"
"""The beginning of each moment at which a tool is started or finished."""
WORDS: Final[Mapping[Verdict, str]] = {verdict: verdict.value.replace("_", " ") for verdict in Verdict}
SIGNS: Final[Mapping[Verdict, str]] = dict(zip(Verdict, "✓✗!○◌?⚠", strict=True))


@dataclass(frozen=True, slots=True)
class Exhibit:
    """One way in which a requirement was broken, and the vectors that show it."""

    finding: Finding
    vector: VectorResult | None
    """The simplest vector that shows it; `None` if the result does not contain it."""
    vector_id: str
    also_in: tuple[str, ...]
    """The other vectors that show the same."""


@dataclass(frozen=True, slots=True)
class Overview:
    """The parts of a result, in their order. A requirement is in at most one of the first four."""

    broken: tuple[RequirementResult, ...]
    """Requirements that count against the executable, with a finding or without a vector in `unjudged`.

    Those that most vectors show come first, because the others often follow from them.
    """
    warned: tuple[RequirementResult, ...]
    known: tuple[RequirementResult, ...]
    """Requirements that are broken, or only warn, and are in the list of known failures."""
    not_applicable: tuple[RequirementResult, ...]
    never_exercised: tuple[RequirementResult, ...]
    unjudged: tuple[VectorResult, ...]
    """Vectors that count as broken without a finding in `broken`, mostly because the suite itself failed."""
    vectors: Mapping[str, VectorResult]
    without_a_tool: tuple[VectorResult, ...] = ()
    """Vectors that wait for a tool that was never started."""

    def exhibits(self, requirement: RequirementResult) -> list[Exhibit]:
        """Return the evidence that a requirement is broken, one exhibit for equal findings, the most frequent first."""
        together: dict[tuple[str, str, Verdict], dict[str, Finding]] = {}
        for vector_id, finding in requirement.findings:
            shown = together.setdefault((finding.expected, finding.found, finding.verdict), {})
            shown.setdefault(vector_id, finding)
        exhibits = []
        for shown in sorted(together.values(), key=len, reverse=True):
            plainest = min(shown, key=self._effort)
            others = tuple(vector_id for vector_id in shown if vector_id != plainest)
            exhibits.append(Exhibit(shown[plainest], self.vectors.get(plainest), plainest, others))
        return exhibits

    def _effort(self, vector_id: str) -> tuple[bool, bool, int]:
        """Return a sort key for how hard a play is to read: the simplest vector, then short plays and transcripts."""
        vector, is_another = self.vectors.get(vector_id), vector_id != FIRST_PLAYED
        if vector is None:
            return is_another, False, 0
        return is_another, vector.seconds > SOON_SECONDS, sum(len(entry.text) for entry in vector.transcript)


def overview_of(result: SuiteResult) -> Overview:
    """Return a result, sorted by the verdicts on its requirements."""
    rules, missing = result.requirements, {rule.id for rule in result.missing}
    counting = [rule for rule in rules if not rule.known_failing]
    failed = [rule for rule in counting if rule.verdict in BROKEN]
    told = {vector_id for rule in failed for vector_id, _ in rule.findings}
    unjudged = tuple(
        vector
        for vector in result.vectors
        if vector.verdict in BROKEN and not vector.known_failing and vector.id not in told
    )
    with_a_vector = {rule for vector in unjudged for rule in vector.requirements}
    broken = [rule for rule in failed if rule.findings or rule.id not in with_a_vector]
    broken.sort(key=lambda rule: len({vector_id for vector_id, _ in rule.findings}), reverse=True)
    known = BROKEN | {Verdict.WARN}
    return Overview(
        broken=tuple(broken),
        warned=tuple(rule for rule in counting if rule.verdict is Verdict.WARN and rule.id not in missing),
        known=tuple(rule for rule in rules if rule.known_failing and rule.verdict in known),
        not_applicable=tuple(rule for rule in rules if rule.verdict is Verdict.NOT_APPLICABLE),
        never_exercised=tuple(rule for rule in rules if rule.verdict is Verdict.NEVER_EXERCISED),
        unjudged=unjudged,
        vectors={vector.id: vector for vector in result.vectors},
        without_a_tool=tuple(vector for vector in result.vectors if vector.unreached.startswith(OF_A_TOOL)),
    )


def looked_at_in(requirement: RequirementResult, result: SuiteResult) -> str:
    """Return the basis of a verdict, such as `3 vectors, 6 left out`; those left out name the rule and show nothing."""
    left_out = sum(requirement.id in vector.requirements and vector.verdict in UNSEEN for vector in result.vectors)
    return amount(len(requirement.vectors), "vector") + (f", {left_out} left out" if left_out else "")


def by_section(requirements: Iterable[RequirementResult]) -> dict[str, list[RequirementResult]]:
    """Return requirements by section; sections are in the order of their first occurrence."""
    sections: dict[str, list[RequirementResult]] = {}
    for requirement in requirements:
        sections.setdefault(requirement.section, []).append(requirement)
    return sections


def by_reason(requirements: Iterable[RequirementResult]) -> dict[str, list[RequirementResult]]:
    """Return requirements by the reason for their verdict; reasons are in the order of their first occurrence."""
    reasons: dict[str, list[RequirementResult]] = {}
    for requirement in requirements:
        reasons.setdefault(requirement.reason or "no reason was given", []).append(requirement)
    return reasons


def counts(result: SuiteResult) -> list[tuple[Verdict, int]]:
    """Return the number of requirements for each verdict. Numbers of 0 are left out, except for pass and fail."""
    numbers = [(verdict, result.count(verdict)) for verdict in WORDS]
    return [(verdict, number) for verdict, number in numbers if number or verdict in {Verdict.PASS, Verdict.FAIL}]


def counts_text(result: SuiteResult) -> str:
    """Return the counts in a line, such as `74 requirements: 72 pass, 2 fail`."""
    numbers = ", ".join(f"{number} {WORDS[verdict]}" for verdict, number in counts(result))
    return f"{amount(len(result.requirements), 'requirement')}: {numbers}"


def kept_of_applicable(result: SuiteResult) -> tuple[int, int]:
    """Return the number of requirements that are kept, warnings included, and of those that apply."""
    kept = result.count(Verdict.PASS) + result.count(Verdict.WARN)
    return kept, len(result.requirements) - result.count(Verdict.NOT_APPLICABLE)


def who(result: SuiteResult) -> str:
    """Return the name of the tested program, with its version if it has one."""
    name = result.name or (result.command[0] if result.command else "the executable")
    return f"{name} {result.version}".strip()


def seed_text(result: SuiteResult) -> str:
    """Return the seed, and how often each vector was played if more than once."""
    return f"{result.seed}, each vector {result.repeats} times" if result.repeats > 1 else str(result.seed)


def scope(result: SuiteResult) -> str:
    """Return the scope of the test: the level of an executor, or the suite."""
    return result.level if result.suite == "executor" else result.suite


def never_exercised(result: SuiteResult) -> str:
    """Return what a claim has to add, such as `, 2 never exercised`; empty if everything that applies was exercised."""
    number = result.count(Verdict.NEVER_EXERCISED)
    return f", {number} never exercised" if number and result.conforms and not result.left_out else ""


def next_level(result: SuiteResult) -> str:
    """Return the level above the one that is reached; empty if that is unknown or the highest."""
    return {"": "core", "core": "standard"}.get(result.reached or "", "") if result.reached is not None else ""


def missing_in_short(result: SuiteResult) -> list[tuple[str, str]]:
    """Return the requirements that are missing to the next level, with short texts; of too many, only the ids."""
    shown = []
    for rule in result.missing[:MOST_MISSING]:
        found = f"; found: {one_line(rule.findings[0][1].found, MOST_WORDS)}" if rule.findings else ""
        shown.append((rule.id, one_line(rule.text, MOST_WORDS) + found))
    rest = [rule.id for rule in result.missing[MOST_MISSING:]]
    more = f", and {len(rest) - MOST_NAMED} others" if len(rest) > MOST_NAMED else ""
    return [*shown, (f"{len(rest)} more", ", ".join(rest[:MOST_NAMED]) + more)] if rest else shown


def why_left_out(result: SuiteResult) -> str:
    """Return why vectors were not played, such as `resume is not declared (12)`, the most frequent reasons first."""
    reasons = Counter(vector.reason for vector in result.vectors if vector.verdict in UNSEEN)
    told = [f"{reason} ({number})" for reason, number in reasons.most_common(MOST_REASONS)]
    others = len(reasons) - len(told)
    return "; ".join([*told, *([amount(others, "other reason")] if others else [])])


def verdict_word(result: SuiteResult) -> str:
    """Return the verdict on the whole in a word or two; `not tested` if no vector was played."""
    if result.is_interrupted:
        return "interrupted"
    return f"{WORDS[result.verdict]}{never_exercised(result)}" if result.executed else "not tested"


def headline(result: SuiteResult) -> str:
    """Return the verdict on the whole in one sentence."""
    never = never_exercised(result)
    rules = f"{scope(result)}{never and f'{never},'} of the {PROTOCOL_NAME} {result.protocol_version}"
    if result.is_interrupted:
        failed = sum(1 for vector in result.vectors if vector.verdict in BROKEN and not vector.known_failing)
        played = f"{result.executed} of {amount(len(result.vectors), 'vector')}"
        return f"{who(result)} was not tested to the end: {played} were played, and {failed or 'none'} failed."
    if result.reached and not result.left_out:
        above = next_level(result)
        but = f"; {amount(len(result.missing), 'requirement')} missing to {above}" if above else ""
        return f"{who(result)} reaches {rules}{but}."
    match result.verdict:
        case Verdict.HARNESS_ERROR:
            return f"Nothing can be said about {who(result)}: {_failure_of_the_suite(result)}."
        case Verdict.FAIL | Verdict.UNTESTABLE:
            return f"{who(result)} does not pass {rules}: {_reasons(result)}."
        case _:
            known = len(overview_of(result).known)
            but = f"; {amount(known, 'known failure')} did not count" if known else ""
            if result.left_out:
                played = f"{result.executed} of {result.left_out + len(result.vectors):,} vectors"
                return f"{who(result)} passes the selected {played}{but}. Run all vectors to test {rules}."
            return f"{who(result)} passes {rules}{but}."


def amount(number: int, noun: str) -> str:
    """Return a number with its noun, such as `1 vector` and `2 vectors`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _failure_of_the_suite(result: SuiteResult) -> str:
    if result.executed:
        failed = sum(rule.verdict is not Verdict.HARNESS_ERROR for rule in overview_of(result).broken)
        return "the suite itself failed" + (f"; {amount(failed, 'requirement')} failed beside that" if failed else "")
    reasons = list(dict.fromkeys(vector.reason for vector in result.vectors if vector.reason))
    level = "; add --level standard" if Reason.ABOVE_LEVEL in reasons else ""
    return "no vector was played" + (f" ({'; '.join(reasons[:MOST_REASONS])}){level}" if reasons else "")


def _reasons(result: SuiteResult) -> str:
    overview = overview_of(result)
    reasons = [
        (overview.broken, f"{len(overview.broken)} of {kept_of_applicable(result)[1]} applicable requirements failed"),
        (overview.unjudged, f"{amount(len(overview.unjudged), 'vector')} could not be judged"),
        (result.stale, f"{amount(len(result.stale), 'known failure')} did not fail"),
        (result.unstable, f"{amount(len(result.unstable), 'vector')} did not end the same way each time"),
    ]
    left_out = [
        vector.reason
        for vector in result.vectors
        if vector.reason in {Reason.NO_DESCRIPTION, Reason.NO_RUN, Reason.HANGS}
    ]
    why = left_out[0].partition(",")[0] if left_out else ""
    unplayed = f"; {amount(len(left_out), 'vector')} not played, since {why}" if left_out else ""
    return ", ".join(reason for those, reason in reasons if those) + unplayed
