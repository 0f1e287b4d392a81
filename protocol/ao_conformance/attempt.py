"""One vector at one executable: played, or why not, and what that shows at a level."""

import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ao_conformance.applicability import shows_nothing, why_not
from ao_conformance.driver.transcript import Stopped
from ao_conformance.filling import CannotFill, NoSession
from ao_conformance.judging.judge import judge, judged_in
from ao_conformance.model_stand_in import NoModel
from ao_conformance.play import play
from ao_conformance.played import Played
from ao_conformance.reproducing import reproduce_line
from ao_conformance.subject import Subject
from ao_conformance.surroundings import Surroundings
from ao_conformance.vectors import ProcessVector
from ao_conformance.verdict import Finding, VectorResult, Verdict, worst


@dataclass(frozen=True, slots=True)
class Attempt:
    """A vector that was played, or why it was not."""

    vector: ProcessVector
    seed: int
    reason: str = ""
    """Why there is nothing to judge."""
    verdict: Verdict = Verdict.NOT_APPLICABLE
    """Of the vector, where there is nothing to judge."""
    findings: tuple[Finding, ...] = ()
    played: Played | None = None
    seconds: float = 0.0


def attempt(vector: ProcessVector, surroundings: Surroundings, seed: int, level: str) -> Attempt:
    """Play a vector as the part of a level: at core the executable is fed as a conforming runner does.

    A vector of core is always played in this way.
    """
    began = time.monotonic()
    if reason := why_not(vector, surroundings.subject, level):
        return Attempt(vector, seed, reason)
    try:
        played = play(vector, surroundings, seed, feeds="core" in (vector.level, level))
    except NoSession:
        finding = Finding("AOX-082", "session_bound in the run before, so that it can be gone on with", "none came")
        return Attempt(vector, seed, verdict=Verdict.FAIL, findings=(finding,))
    except (CannotFill, NoModel, Stopped) as reason:
        return Attempt(vector, seed, str(reason))
    except Exception:  # noqa: BLE001  # a fault of the suite ends one vector, not all, and is told as what it is
        return Attempt(vector, seed, traceback.format_exc(limit=-6), Verdict.HARNESS_ERROR)
    return Attempt(vector, seed, played=played, seconds=round(time.monotonic() - began, 2))


def judged(found: Attempt, subject: Subject, level: str, options: Sequence[str]) -> VectorResult:
    """Return what an attempt shows at a level; `options` are those that a reproducing line has to repeat."""
    vector, played = found.vector, found.played
    if played is None:
        nothing = _result(vector, found.verdict, found.reason)
        return replace(nothing, findings=found.findings, judged=vector.requirements if found.findings else ())
    try:
        findings = judge(subject, played, level)
    except Exception:  # noqa: BLE001  # a fault of the judge, likewise
        return _result(vector, Verdict.HARNESS_ERROR, traceback.format_exc(limit=-6))
    if unseen := shows_nothing(vector, subject, played, findings):
        return _result(vector, Verdict.NOT_APPLICABLE, unseen)
    return replace(
        _result(vector, worst([Verdict.PASS, *(finding.verdict for finding in findings)])),
        findings=tuple(findings),
        seconds=found.seconds,
        transcript=played.transcript,
        reproduce=reproduce_line(("--level", level, *options), vector.id, found.seed, subject.command),
        hint=vector.hint if any(finding.requirement == vector.requirements[0] for finding in findings) else "",
        judged=tuple(judged_in(played)),
    )


def _result(vector: ProcessVector, verdict: Verdict, reason: str = "") -> VectorResult:
    return VectorResult(
        vector.id, vector.title, vector.topic, vector.level, vector.capability, vector.requirements, verdict, reason
    )
