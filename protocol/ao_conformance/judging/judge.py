"""Judge a play: the rules for any run, then the vector's expectations, each error once."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ao_conformance.judging.capabilities import judge_contract, judge_declared, judge_description
from ao_conformance.judging.events import judge_events, judge_lines, judge_sizes
from ao_conformance.judging.expectations import Difference, judge_expectations, judge_remarks
from ao_conformance.judging.output import Asked, Evidence, Output, read_output
from ao_conformance.judging.runs import (
    find_delay,
    judge_clock,
    judge_ending,
    judge_heartbeats,
    judge_input,
    judge_left_files,
    judge_leftovers,
    judge_runs,
    judge_secrets,
    judge_side_effects,
    judge_unasked,
)
from ao_conformance.play_result import PlayResult
from ao_conformance.subject import Subject
from ao_conformance.vectors import requirements_by_id
from ao_conformance.verdict import Finding, Lateness, Verdict
from ao_protocol.errors import REFUSALS

OF_ANY_RUN: Final = (
    "16 20 28 30 32 43 70 71 72 73 74 75 76 78 81 83 84 90 91 92 93 94 100 102 "
    "103 104 105 107 108 110 123 190 191 193 194 198 206"
)
ANY_RUN: Final = tuple(f"AOX-{number:>03}" for number in OF_ANY_RUN.split())
"""The requirements that every play with events tests."""
OF_ANOTHER_ENDING: Final = frozenset({"AOX-043", "AOX-075", "AOX-082"})
"""Requirements that break as a consequence if a run ended differently than expected: a refused line has no names."""
REPEATED: Final[Mapping[str, frozenset[str]]] = {
    "AOX-043": frozenset({"first"}),
    "AOX-058": frozenset({"end"}),
    "AOX-071": frozenset({"first"}),
    "AOX-075": frozenset({"terminal"}),
    "AOX-076": frozenset({"terminal"}),
    "AOX-084": frozenset({"ending", "first", "holds", "terminal"}),
    "AOX-090": frozenset({"events", "first"}),
    "AOX-092": frozenset({"events"}),
    "AOX-094": frozenset({"events", "runs"}),
    "AOX-102": frozenset({"terminal"}),
    "AOX-105": frozenset({"ending", "terminal", "exit"}),
    "AOX-107": frozenset({"terminal"}),
    "AOX-108": frozenset({"exit"}),
    "AOX-110": frozenset({"exit"}),
    "AOX-156": frozenset({"events"}),
    "AOX-193": frozenset({"end"}),
}
"""For rules for any run, the parts of an expectation that only repeat that they are broken."""
ADDED_BY_RUNNERS: Final = frozenset({"AOX-070", "AOX-100", "AOX-196"})
"""Requirements of standard about fields and endings that at core the runner adds."""
SHOWN_OF_EACH: Final = 3


def judge(subject: Subject, played: PlayResult, level: str = "standard") -> list[Finding]:
    """Return all findings of a play, each error once, those of the vector's own expectations last.

    A finding that is only a warning at the `level` hides none that counts at this level.
    """
    weighed = weigh(_everything(subject, played, level), level, counts_should=subject.counts_should)
    return with_unasked_model(weighed, subject, played)


def _everything(subject: Subject, played: PlayResult, level: str) -> list[Finding]:
    if played.flooded:
        return [_flood(played)]
    kind = _kind_of_stdout(played)
    renamed_to = {name for part, name in played.vector.blames.items() if part.startswith("AOX-")}
    output, about = Output((), (), (), b""), {*played.vector.requirements, *renamed_to}
    if kind in {"description", "check"}:
        general = list(judge_description(subject, played, kind))
        about |= {finding.requirement for finding in general}
    else:
        asked = [line for line in played.lines if line.seconds >= played.asked_at]
        known = _asked(subject, played)
        output = read_output(asked, played.unfinished_line, takes_turns=played.takes_turns, asked=known)
        seen = Evidence(subject, played, output)
        if decisive := list(_find_what_hides_the_rest(seen, kind)):
            return first_of_each([*decisive, *judge_secrets(played)])
        rules = OF_ANY_RUN_WITH_EVENTS if kind == "events" else ()
        general = [finding for rule in (judge_unasked, *rules) for finding in rule(seen)]
    renamed = [_renamed(finding, played, output) for finding in (*general, *judge_leftovers(played))]
    return deduplicate(
        PlayFindings(
            remarks=tuple(judge_remarks(played)),
            general=tuple(weigh([*renamed, *judge_secrets(played)], level, counts_should=subject.counts_should)),
            differences=tuple(judge_expectations(played, output)),
            about=frozenset(about),
        )
    )


def _find_what_hides_the_rest(seen: Evidence, kind: str) -> Iterator[Finding]:
    """Find why nothing else can be judged: no line can be read, nothing came, or the first event came late."""
    played, output = seen.played, seen.output
    nothing_came = not (played.lines or played.unfinished_line)
    if kind == "events" and output.unreadable and not output.events:
        yield from judge_lines(seen)
    elif kind in {"events", "unread"} and played.killed and played.waits_for_events and nothing_came:
        if played.model_asked_at is not None:
            found = "the model was asked, and nothing came; flush stdout behind each line"
            yield Finding("AOX-191", "events while the work goes on", found)
        else:
            until = f"until the process was killed after {played.vector.within_seconds:g} s"
            found = f"nothing came {until}; do not wait for more"
            wanted = "events while stdin is open, as soon as the line is complete"
            yield Finding("AOX-040", wanted, found, lateness=Lateness.END)
    elif kind == "events" and (late := find_delay(seen)):
        yield late


def _asked(subject: Subject, played: PlayResult) -> Asked:
    invocation = played.invocation or {}
    named = {name: text for name, text in subject.identity.items() if text}
    return Asked(
        runs=tuple(_text(asked.get("run_id")) for asked in (invocation, *played.turns)),
        session_id=_text(invocation.get("session_id")),
        executor={"name": "unnamed", "version": "0", **named},
        schema_version=str(invocation.get("schema_version")),
        names_are_known=played.invocation is not None,
        began_clock=played.began_clock,
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _flood(played: PlayResult) -> Finding:
    if not played.lines:
        is_run = _kind_of_stdout(played) == "events"
        found = f"none in the first {len(played.unfinished_line):,} bytes, and nothing was read any more"
        return Finding("AOX-028" if is_run else played.vector.requirements[0], "the end of a line", found)
    wrote = f"after {len(played.lines):,} lines nothing was read any more, and nothing can be said of the rest"
    wanted = "as much output as a play has a use for; put small pieces together"
    return Finding(played.vector.requirements[0], wanted, wrote, Verdict.UNTESTABLE)


def judged_in(played: PlayResult) -> Sequence[str]:
    """Return the requirements that the play could have shown as broken; empty if expected events are missing."""
    if _kind_of_stdout(played) != "events":
        return played.vector.requirements
    has_events = any(b"event_type" in line.raw for line in played.lines)
    return (*played.vector.requirements, *ANY_RUN) if has_events else ()


def _kind_of_stdout(played: PlayResult) -> str:
    """Return the kind of content of stdout. If a vector allows several kinds, the output decides."""
    kinds = [str(expected.get("stdout", "events")) for expected in played.vector.expectations]
    return "events" if "events" in kinds and (played.lines or kinds[0] == "events") else kinds[0]


def _judge_all_runs(seen: Evidence) -> Iterator[Finding]:
    if not seen.output.events and seen.output.unreadable:
        return
    expected_runs = max(len(expected.get("runs", [1])) for expected in seen.played.vector.expectations)
    yield from judge_runs(seen.output, expected_runs, seen.played.invocation, seen.played)


def _judge_times(seen: Evidence) -> Iterator[Finding]:
    if seen.played.vector.source.get("reads") is None:  # else a long line delays every later line
        yield from judge_heartbeats(seen.played.invocation, seen.output)
        yield from judge_clock(seen)


OF_ANY_RUN_WITH_EVENTS: Final[tuple[Callable[[Evidence], Iterator[Finding]], ...]] = (
    judge_lines,
    judge_sizes,
    judge_events,
    _judge_all_runs,
    judge_ending,
    judge_side_effects,
    judge_left_files,
    judge_declared,
    judge_contract,
    _judge_times,
    judge_input,
)
"""The rules for any run, in the order of their findings."""


def _renamed(finding: Finding, played: PlayResult, output: Output) -> Finding:
    """Return a finding of a rule for any run, under the requirement that the vector names for this rule.

    The order of events keeps its own requirement if events came, and the terminal event if every run has one: the
    vector's requirement is for a process that died.
    """
    if finding.requirement == "AOX-090" and output.events:
        return finding
    if finding.requirement == "AOX-092" and all(any(event.is_terminal for event in run) for run in output.runs):
        return finding
    return replace(finding, requirement=played.vector.stands_for(finding.requirement))


def with_unasked_model(findings: Sequence[Finding], subject: Subject, played: PlayResult) -> list[Finding]:
    """Return the findings. If the simulated model had to be asked and was not, the first failure mentions that."""
    first = next((number for number, one in enumerate(findings) if one.verdict is Verdict.FAIL), None)
    named = subject.model_variables(subject.model_kind or "")
    if first is None or named is None or played.model_requests != 0 or not _had_to_ask(played):
        return list(findings)
    variable = named["env"]
    found = f"{findings[first].found}; the model was never asked: is {variable}, which describe names, used as its URL?"
    return [*findings[:first], replace(findings[first], found=found), *findings[first + 1 :]]


def _had_to_ask(played: PlayResult) -> bool:
    wants_a_result = any((expected.get("events") or [""])[-1] == "result" for expected in played.expectations)
    return wants_a_result and not any(
        f'"{refusal}"'.encode() in line.raw for refusal in REFUSALS for line in played.lines
    )


def weigh(findings: Iterable[Finding], level: str, *, counts_should: bool = False) -> list[Finding]:
    """Return the findings with their verdicts at a level: a SHOULD, and at core a rule of standard, only warns.

    At core there is no finding about what the runner adds.
    """
    rules = requirements_by_id()
    return [
        replace(finding, verdict=Verdict.WARN)
        if finding.verdict is Verdict.FAIL
        and (
            (rules[finding.requirement].keyword == "SHOULD" and not counts_should)
            or (level == "core" and rules[finding.requirement].level == "standard")
        )
        else finding
        for finding in findings
        if level != "core" or finding.requirement not in ADDED_BY_RUNNERS
    ]


@dataclass(frozen=True, slots=True)
class PlayFindings:
    """The findings of a play, by their source."""

    remarks: tuple[Finding, ...]
    """Problems that the player observed, and wrong requests to the model."""
    general: tuple[Finding, ...]
    """Findings of the rules for any run."""
    differences: tuple[Difference, ...]
    """Differences from the vector's expectations."""
    about: frozenset[str]
    """The requirements that the vector is about."""


def deduplicate(seen: PlayFindings) -> list[Finding]:
    """Return the findings without those that follow from others; the result is empty only if nothing is wrong.

    If a run ended differently than expected, its names follow from that. If a rule is broken that the vector is about,
    or the model was asked wrongly, the vector's expectations only repeat it. If another rule for any run is broken,
    some parts of the expectations repeat it (`REPEATED`). A moment that never came and did not have to come is left out
    if something else failed.
    """
    ends_otherwise = any(one.is_another_ending for one in seen.differences)
    general = [one for one in seen.general if not ends_otherwise or one.requirement not in OF_ANOTHER_ENDING]
    told = [*seen.remarks, *general]
    failed = {finding.requirement for finding in told if finding.verdict is Verdict.FAIL}
    differences = list(seen.differences)
    if seen.about & failed:
        differences = []
    repeated = {part for requirement in failed for part in REPEATED.get(requirement, ())}
    differences = [one for one in differences if one.part not in repeated]
    if failed:
        differences = [one for one in differences if not one.may_be]
    return first_of_each([*told, *(one.finding for one in differences)])


def first_of_each(findings: Sequence[Finding]) -> list[Finding]:
    """Return the first three findings of each requirement, in order, without duplicates."""
    kept: list[Finding] = []
    for finding in findings:
        if finding not in kept and sum(other.requirement == finding.requirement for other in kept) < SHOWN_OF_EACH:
            kept.append(finding)
    return kept
