"""Where a run went wrong and its model was never asked, that is most often why."""

from collections.abc import Sequence
from dataclasses import replace

from ao_conformance.played import Played
from ao_conformance.subject import Subject
from ao_conformance.verdict import Finding, Verdict
from ao_protocol.errors import REFUSALS


def with_unasked_model(findings: Sequence[Finding], subject: Subject, played: Played) -> list[Finding]:
    """Return the findings; the first failure says that the simulated model was not asked, where it had to be."""
    first = next((number for number, one in enumerate(findings) if one.verdict is Verdict.FAIL), None)
    kind = subject.model_kind
    if first is None or kind is None or played.model_requests != 0 or not _had_to_ask(played):
        return list(findings)
    variable = subject.model_variables(kind)["env"]
    found = f"{findings[first].found}; the model was never asked: is {variable}, which describe names, used as its URL?"
    return [*findings[:first], replace(findings[first], found=found), *findings[first + 1 :]]


def _had_to_ask(played: Played) -> bool:
    wants_a_result = any((expected.get("events") or [""])[-1] == "result" for expected in played.expectations)
    return wants_a_result and not any(
        f'"{refusal}"'.encode() in line.raw for refusal in REFUSALS for line in played.lines
    )
