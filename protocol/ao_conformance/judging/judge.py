"""The judge: every rule that holds for any run, and then what the vector expects; each mistake is told once."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from ao_conformance.judging.contracts import judge_contract
from ao_conformance.judging.description import judge_description
from ao_conformance.judging.ending import judge_ending, judge_input, judge_secrets, judge_side_effects
from ao_conformance.judging.events import judge_event
from ao_conformance.judging.expectations import judge_expectations, judge_remarks
from ao_conformance.judging.heartbeats import judge_heartbeats
from ao_conformance.judging.honesty import judge_honesty
from ao_conformance.judging.lines import judge_lines, judge_sizes
from ao_conformance.judging.reading import Output, read_output
from ao_conformance.judging.runs import judge_runs
from ao_conformance.played import Played
from ao_conformance.subject import Subject
from ao_conformance.verdict import Finding

ANY_RUN: Final = tuple(
    (
        "AOX-016 AOX-020 AOX-028 AOX-030 AOX-032 AOX-043 AOX-070 AOX-071 AOX-072 AOX-073 AOX-074 "
        "AOX-075 AOX-076 AOX-078 AOX-081 AOX-090 AOX-091 AOX-092 AOX-093 AOX-094 AOX-100 AOX-102 "
        "AOX-103 AOX-104 AOX-105 AOX-107 AOX-108 AOX-123 AOX-190 AOX-193 AOX-194 AOX-198"
    ).split()
)
"""The requirements that are looked at in every play that has events."""
OF_ANOTHER_ENDING: Final = frozenset({"AOX-043", "AOX-082"})
"""What only follows where a run ended otherwise than the vector expects: a line that is refused has no names."""


def judge(subject: Subject, played: Played) -> list[Finding]:
    """Return everything that a play shows to be wrong, each mistake once, the vector's own expectations last.

    What follows from another finding is left out: where the model was asked wrongly or the run ended in another way
    than the vector expects, its exit code and details follow from that; where a rule for any run that the vector is
    about is broken, its expectations only repeat it.
    """
    stdout = _kind_of_stdout(played)
    if stdout in {"description", "check"}:
        found = [*judge_description(subject, played, stdout), *judge_secrets(played), *judge_remarks(played)]
        differences = judge_expectations(played, Output((), (), (), b""))
        return _once(found or [difference.finding for difference in differences])
    output = read_output(played.lines, played.unfinished_line, takes_turns=played.takes_turns)
    remarks = list(judge_remarks(played))
    general = [_renamed(finding, played) for finding in _any_run(subject, played, output)] if stdout == "events" else []
    expected = judge_expectations(played, output)
    own = {finding.requirement for finding in (*general, *remarks)} & {
        *played.vector.requirements,
        *_renamed_to(played),
    }
    if any(finding.is_another_ending for finding in expected):
        general = [finding for finding in general if finding.requirement not in OF_ANOTHER_ENDING]
    if own:
        expected = []
    return _once([*remarks, *general, *(difference.finding for difference in expected), *judge_secrets(played)])


def judged_in(played: Played) -> Sequence[str]:
    """Return the requirements that the play could have shown to be broken."""
    return (*played.vector.requirements, *(ANY_RUN if _kind_of_stdout(played) == "events" else ()))


def _kind_of_stdout(played: Played) -> str:
    """Return what stdout holds: where a vector allows several things, what came decides."""
    kinds = [str(expected.get("stdout", "events")) for expected in played.vector.expectations]
    return "events" if "events" in kinds and (played.lines or kinds[0] == "events") else kinds[0]


def _any_run(subject: Subject, played: Played, output: Output) -> Iterator[Finding]:
    expected_runs = max(len(expected.get("runs", [1])) for expected in played.vector.expectations)
    invocation = dict(played.invocation) if played.invocation is not None else None
    yield from judge_lines(output)
    yield from judge_sizes(output, invocation)
    for event in output.events:
        yield from judge_event(event)
    if output.events or not output.unreadable:
        yield from judge_runs(output, expected_runs, invocation)
    yield from judge_ending(played, output)
    yield from judge_side_effects(played, output)
    yield from judge_honesty(subject, played, output)
    yield from judge_contract(subject, invocation, output)
    yield from judge_heartbeats(invocation, output)
    yield from judge_input(played)


def _renamed(finding: Finding, played: Played) -> Finding:
    """Return a finding of a rule for any run under the requirement that it stands for in this vector."""
    return replace(finding, requirement=played.vector.stands_for(finding.requirement))


def _renamed_to(played: Played) -> set[str]:
    return {name for part, name in played.vector.blames.items() if part.startswith("AOX-")}


def _once(findings: Sequence[Finding]) -> list[Finding]:
    """Return the first three of each requirement, in order."""
    kept: list[Finding] = []
    for finding in findings:
        if finding not in kept and sum(other.requirement == finding.requirement for other in kept) < 3:
            kept.append(finding)
    return kept
