"""How much a finding counts: a SHOULD warns, and so does a rule of a level that was not asked for."""

from collections.abc import Iterable
from dataclasses import replace

from ao_conformance.rules import requirements_by_id
from ao_conformance.verdict import Finding, Verdict


def weigh(findings: Iterable[Finding], level: str) -> list[Finding]:
    """Return the findings with their weight at a level, `core` or `standard`."""
    rules = requirements_by_id()
    return [
        replace(finding, verdict=Verdict.WARN)
        if finding.verdict is Verdict.FAIL
        and (
            rules[finding.requirement].keyword == "SHOULD"
            or (level == "core" and rules[finding.requirement].level == "standard")
        )
        else finding
        for finding in findings
    ]
