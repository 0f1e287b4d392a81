"""The judge: every rule that holds for any run, and then what the vector expects."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from ao_conformance.judging.contracts import judge_contract
from ao_conformance.judging.description import judge_description
from ao_conformance.judging.ending import (
    judge_ending,
    judge_input,
    judge_leftovers,
    judge_secrets,
    judge_side_effects,
)
from ao_conformance.judging.events import judge_event
from ao_conformance.judging.expectations import judge_expectations, judge_remarks
from ao_conformance.judging.heartbeats import judge_heartbeats
from ao_conformance.judging.honesty import judge_honesty
from ao_conformance.judging.lines import OF_FORM, judge_lines, judge_sizes
from ao_conformance.judging.reading import Output, read_output
from ao_conformance.judging.runs import judge_runs
from ao_conformance.judging.telling import Seen, first_of_each, tell_once
from ao_conformance.played import Played
from ao_conformance.subject import Subject
from ao_conformance.verdict import Finding

ANY_RUN: Final = tuple(
    f"AOX-{number:03}"
    for number in (
        16,
        20,
        28,
        30,
        32,
        43,
        70,
        71,
        72,
        73,
        74,
        75,
        76,
        78,
        81,
        90,
        91,
        92,
        93,
        94,
        100,
        102,
        103,
        104,
        105,
        107,
        108,
        123,
        190,
        193,
        194,
        198,
    )
)
"""The requirements that are looked at in every play that has events."""


def judge(subject: Subject, played: Played) -> list[Finding]:
    """Return everything that a play shows to be wrong, each mistake once, the vector's own expectations last."""
    kind = _kind_of_stdout(played)
    output, about = Output((), (), (), b""), {*played.vector.requirements, *_renamed_to(played)}
    if kind in {"description", "check"}:
        general = list(judge_description(subject, played, kind))
        about |= {finding.requirement for finding in general}
    else:
        output = read_output(played.lines, played.unfinished_line, takes_turns=played.takes_turns)
        general = list(_any_run(subject, played, output)) if kind == "events" else []
    seen = Seen(
        remarks=tuple(judge_remarks(played)),
        general=tuple(_renamed(finding, played) for finding in (*general, *judge_leftovers(played))),
        differences=tuple(judge_expectations(played, output)),
        about=frozenset(about),
    )
    return first_of_each([*tell_once(seen), *judge_secrets(played)])


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
    yield from judge_lines(output, played.vector.blames.get("broken_line", OF_FORM))
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
