"""Whether a vector has anything to say of an executable: before it is played, and by what the play showed."""

import math
from collections.abc import Sequence

from ao_conformance.model_stand_in import LINGER
from ao_conformance.played import Played
from ao_conformance.subject import Subject
from ao_conformance.vectors import ProcessVector
from ao_conformance.verdict import NEVER_CAME, NO_DESCRIPTION, Finding, Verdict


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


def shows_nothing(vector: ProcessVector, subject: Subject, played: Played, findings: Sequence[Finding]) -> str | None:
    """Return why a play says nothing, for or against the executable; None where it does."""
    if not subject.description and not played.lines and not vector.source.get("arguments"):
        return NO_DESCRIPTION
    if played.unreached and vector.source.get("unreached") == "not_applicable" and not _fail(findings):
        return f"{NEVER_CAME} {played.unreached[0]} never came"
    if _did_not_last(vector, subject, played, findings):
        return f"{LINGER} (SPEC 12) has no effect: the work lasts no longer"
    shown_by = vector.source.get("shown_by", "")
    if shown_by.encode() not in played.stderr and not _fail(findings):
        hooks = " and ".join(vector.source["environment"])
        return f"{hooks} (SPEC 12) has no effect: {shown_by!r} is not on stderr"
    return None


def _did_not_last(vector: ProcessVector, subject: Subject, played: Played, findings: Sequence[Finding]) -> bool:
    """Tell whether a moment could not come since the work was done at once, by an executor that may do that."""
    if vector.source.get("unreached") != "not_applicable" or subject.has_model or subject.agent_type == "procedural":
        return False
    took = (played.exited_at or math.inf) - played.began_at
    others = [finding for finding in findings if finding.requirement != vector.blames.get("gap")]
    return took < vector.works_for_seconds and played.cancelled_at is None and not _fail(others)


def _fail(findings: Sequence[Finding]) -> bool:
    return any(finding.verdict is Verdict.FAIL for finding in findings)
