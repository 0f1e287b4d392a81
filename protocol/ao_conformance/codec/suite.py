"""The story of the suite for parsers: ask everything, sort what was answered, judge, and count."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Final

from ao_conformance.codec.answers import Answer, Stray, sort_lines
from ao_conformance.codec.exchange import Exchange, exchange
from ao_conformance.codec.judge import mistake
from ao_conformance.codec.questions import Question
from ao_conformance.driver.transcript import shown
from ao_conformance.known_failing import KnownFailing
from ao_conformance.rules import requirements_by_id
from ao_conformance.suite import DISTRIBUTION
from ao_conformance.tally import requirement_result
from ao_conformance.verdict import (
    Finding,
    RequirementResult,
    SuiteResult,
    TranscriptEntry,
    VectorResult,
    Verdict,
    worst,
)
from ao_protocol.published import CURRENT_SCHEMAS

CODEC: Final = "codec"
LIMIT_SECONDS: Final = 60.0
STRAYS: Final = "codec-stdout"
"""The vector that is failed by lines that answer no question. It is in no file and only in results that need it."""
STRAYS_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class Plan:
    """What a tester asked for."""

    command: tuple[str, ...]
    questions: Sequence[Question]
    known_failing: KnownFailing = field(default_factory=KnownFailing)
    limit_seconds: float = LIMIT_SECONDS
    """For all questions together."""


def run_suite(plan: Plan, tell: Callable[[VectorResult], None] = lambda result: None) -> SuiteResult:
    """Ask a codec everything and return the result; `tell` hears of each vector when it is judged.

    Raises:
        OSError: the command cannot be started.
    """
    started_at = datetime.now(UTC)
    came = exchange(plan.command, [question.line for question in plan.questions], plan.limit_seconds)
    vectors = _judged(plan, came, tell)
    vectors, requirements, stale = plan.known_failing.apply(vectors, _tally(vectors))
    return SuiteResult(
        suite=CODEC,
        command=plan.command,
        name=shlex.join(plan.command),
        version="",
        protocol_version=CURRENT_SCHEMAS,
        suite_version=version(DISTRIBUTION),
        level=CODEC,
        seed=0,
        repeats=1,
        started_at=started_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        seconds=round(came.seconds, 1),
        vectors=tuple(vectors),
        requirements=tuple(requirements),
        stale=stale,
    )


def _judged(plan: Plan, came: Exchange, tell: Callable[[VectorResult], None]) -> list[VectorResult]:
    answers, strays = sort_lines(came.lines, {question.id for question in plan.questions})
    silence = _silence(plan.questions, answers, came.ending)
    results = []
    for number, question in enumerate(plan.questions):
        given = answers.get(question.id, ())
        result = replace(
            _result(question, given, silence),
            transcript=_transcript(question, came.asked_at[number : number + 1], given, came),
            reproduce=shlex.join(["ao", "conformance", "codec", "--only", question.id, "--", *plan.command]),
        )
        tell(result)
        results.append(result)
    return [*results, _stray_result(strays)] if strays else results


def _silence(questions: Sequence[Question], answers: Mapping[str, Sequence[Answer]], ending: str) -> Mapping[str, str]:
    """Return what to say of each question that was not answered; the first one is where to look."""
    unanswered = [question.id for question in questions if question.id not in answers]
    told = f"no answer; the command {ending}"
    if len(unanswered) < 2:
        return dict.fromkeys(unanswered, told)
    first = unanswered[0]
    elsewhere = f"{told}, and the first question without an answer is {first}"
    return dict.fromkeys(unanswered, elsewhere) | {first: f"{told}, and this is the first question without an answer"}


def _result(question: Question, given: Sequence[Answer], silence: Mapping[str, str]) -> VectorResult:
    match given:
        case []:
            return _failed(question, "an answer", silence[question.id])
        case [_, _, *_]:
            numbers = " and ".join(str(answer.line.number) for answer in given)
            return _failed(question, "one answer", f"{len(given)} answers, on lines {numbers} of stdout")
    answer = given[0].document
    if answer.get("unsupported") is True:
        return _with_verdict(question, Verdict.NOT_APPLICABLE, "the codec does not support this question")
    wrong = mistake(question.source, answer)
    return _failed(question, *wrong) if wrong else _with_verdict(question, Verdict.PASS)


def _failed(question: Question, expected: str, found: str) -> VectorResult:
    """Return a result with a finding for each requirement: nobody can tell from one answer which of them was missed."""
    rules = requirements_by_id()
    line = None if found.startswith("no answer") else 1
    findings = tuple(
        Finding(name, expected, found, Verdict.WARN if rules[name].keyword == "SHOULD" else Verdict.FAIL, line)
        for name in question.requirements
    )
    return replace(_with_verdict(question, worst(finding.verdict for finding in findings)), findings=findings)


def _with_verdict(question: Question, verdict: Verdict, reason: str = "") -> VectorResult:
    judged = () if verdict is Verdict.NOT_APPLICABLE else question.requirements
    return VectorResult(
        question.id,
        question.title,
        question.topic,
        CODEC,
        None,
        question.requirements,
        verdict,
        reason,
        judged=judged,
    )


def _transcript(
    question: Question, asked_at: Sequence[float], given: Sequence[Answer], came: Exchange
) -> tuple[TranscriptEntry, ...]:
    entries = [TranscriptEntry(round(seconds, 3), "stdin", shown(question.line.rstrip())) for seconds in asked_at]
    entries += [TranscriptEntry(round(one.line.seconds, 3), "stdout", shown(one.line.raw.rstrip())) for one in given]
    if not given:
        if came.stderr:
            entries.append(TranscriptEntry(round(came.seconds, 3), "stderr", came.stderr))
        entries.append(TranscriptEntry(round(came.seconds, 3), "note", f"the command {came.ending}"))
    return tuple(entries)


def _stray_result(strays: Sequence[Stray]) -> VectorResult:
    told = [f"line {stray.line.number} {stray.why}" for stray in strays[:STRAYS_SHOWN]]
    more = len(strays) - STRAYS_SHOWN
    return VectorResult(
        STRAYS,
        "every line on stdout is the answer to a question",
        CODEC,
        CODEC,
        None,
        (),
        Verdict.FAIL,
        "; ".join(told) + (f"; and {more} more" if more > 0 else ""),
        transcript=tuple(
            TranscriptEntry(round(stray.line.seconds, 3), "stdout", shown(stray.line.raw.rstrip()))
            for stray in strays[:STRAYS_SHOWN]
        ),
    )


def _tally(vectors: Sequence[VectorResult]) -> list[RequirementResult]:
    """Return what was found of every requirement that a question names, also of those that no process can show."""
    named = {name for vector in vectors for name in vector.requirements}
    return [
        requirement_result(replace(rule, untestable=None), vectors)
        for rule in requirements_by_id().values()
        if rule.id in named
    ]
