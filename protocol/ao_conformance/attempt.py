"""One vector at one executable: whether it applies, how it was played, and what that shows at a level."""

import math
import shlex
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ao_conformance.driver.transcript import Stopped
from ao_conformance.judging.judge import judge, judged_in
from ao_conformance.model_stand_in import LINGER, NoModel
from ao_conformance.placeholders import CannotFill, NoSession
from ao_conformance.play import play
from ao_conformance.play_result import PlayResult
from ao_conformance.subject import Subject
from ao_conformance.surroundings import Surroundings
from ao_conformance.vectors import ProcessVector
from ao_conformance.verdict import NEVER_CAME, NO_DESCRIPTION, Finding, VectorResult, Verdict, worst


def reproduce_line(options: Sequence[str], vector: str, seed: int, command: Sequence[str]) -> str:
    """Return a command for a shell."""
    return shlex.join(["ao", "conformance", "run", *options, "--only", vector, "--seed", str(seed), "--", *command])


def why_not(vector: ProcessVector, subject: Subject, level: str) -> str:
    """Return why a vector does not apply; nothing where it does."""
    if not subject.description and not {"AOX-120", "AOX-190"} & set(vector.requirements):
        return NO_DESCRIPTION
    if vector.level == "standard" and level == "core":
        return "it belongs to the level standard"
    for needed in filter(None, (vector.capability, vector.source.get("also"), _not(vector.source.get("without")))):
        if not subject.declares(needed):
            return f"{needed.removeprefix('!')} is {'' if needed.startswith('!') else 'not '}declared"
    spoken = vector.source.get("speaks")
    if spoken and spoken not in subject.description.get("schema_versions", []):
        return f"version {spoken} is not spoken"
    agent = vector.source.get("agent")
    if agent and agent not in subject.agent_types:
        return f"agents of type {agent} are not served"
    return ""


def _not(capability: str | None) -> str | None:
    return f"!{capability}" if capability else None


def shows_nothing(
    vector: ProcessVector, subject: Subject, played: PlayResult, findings: Sequence[Finding]
) -> str | None:
    """Return why a play says nothing, for or against the executable; None where it does."""
    if not subject.description and not played.lines and not vector.source.get("arguments"):
        return NO_DESCRIPTION
    if played.unreached and vector.source.get("unreached") == "not_applicable" and not _has_failure(findings):
        return f"{NEVER_CAME} {played.unreached[0]} never came"
    if _did_not_last(vector, subject, played, findings):
        return f"{LINGER} (SPEC 12) has no effect: the work lasts no longer"
    shown_by = vector.source.get("shown_by", "")
    if shown_by.encode() not in played.stderr and not _has_failure(findings):
        hooks = " and ".join(vector.source["environment"])
        return f"{hooks} (SPEC 12) has no effect: {shown_by!r} is not on stderr"
    return None


def _did_not_last(vector: ProcessVector, subject: Subject, played: PlayResult, findings: Sequence[Finding]) -> bool:
    """Tell whether a moment could not come since the work was done at once, by an executor that may do that."""
    if vector.source.get("unreached") != "not_applicable" or subject.has_model or subject.agent_type == "procedural":
        return False
    took = (played.exited_at or math.inf) - played.began_at
    others = [finding for finding in findings if finding.requirement != vector.blames.get("gap")]
    return took < vector.works_for_seconds and played.cancelled_at is None and not _has_failure(others)


def _has_failure(findings: Sequence[Finding]) -> bool:
    return any(finding.verdict is Verdict.FAIL for finding in findings)


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
    played: PlayResult | None = None
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
