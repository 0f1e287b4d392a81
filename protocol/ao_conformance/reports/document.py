"""The report for programs: everything of a result as JSON, by the published schema `conformance-report`."""

import json
import math
from collections.abc import Mapping
from typing import Any, Final

from ao_conformance.reports.visible import encodable
from ao_conformance.verdict import Finding, RequirementResult, SuiteResult, TranscriptEntry, VectorResult, Verdict

REPORT_SCHEMA_VERSION: Final = "1.1"
"""Of the report, not of the protocol. A new minor only adds fields."""


def document_text(result: SuiteResult) -> str:
    """Return the report as indented JSON with its keys in a fixed order.

    Any JSON parser reads it: a lone surrogate stands as the escape of its number, a number that JSON does not have as
    a string.
    """
    return json.dumps(_plain(_result(result)), ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def _result(result: SuiteResult) -> dict[str, Any]:
    return {
        "schema_version": REPORT_SCHEMA_VERSION,
        "suite": result.suite,
        "suite_version": result.suite_version,
        "protocol_version": result.protocol_version,
        "level": result.level,
        "verdict": result.verdict,
        "exit_code": result.exit_code,
        "counts": {verdict.value: result.count(verdict) for verdict in Verdict},
        "executed": result.executed,
        "name": result.name,
        "version": result.version,
        "command": result.command,
        "seed": result.seed,
        "repeats": result.repeats,
        "started_at": result.started_at,
        "seconds": result.seconds,
        "stale": result.stale,
        "unstable": result.unstable,
        "left_out": result.left_out,
        "reached": result.reached,
        "missing": [_requirement(requirement) for requirement in result.missing],
        "requirements": [_requirement(requirement) for requirement in result.requirements],
        "vectors": [_vector(vector) for vector in result.vectors],
        "description": result.description,
    }


def _requirement(requirement: RequirementResult) -> dict[str, Any]:
    return {
        "id": requirement.id,
        "keyword": requirement.keyword,
        "level": requirement.level,
        "section": requirement.section,
        "text": requirement.text,
        "why": requirement.why,
        "verdict": requirement.verdict,
        "known_failing": requirement.known_failing,
        "reason": requirement.reason,
        "findings": [{"vector": vector_id, **_finding(finding)} for vector_id, finding in requirement.findings],
        "vectors": requirement.vectors,
    }


def _vector(vector: VectorResult) -> dict[str, Any]:
    return {
        "id": vector.id,
        "title": vector.title,
        "topic": vector.topic,
        "level": vector.level,
        "capability": vector.capability,
        "requirements": vector.requirements,
        "judged": vector.judged,
        "verdict": vector.verdict,
        "known_failing": vector.known_failing,
        "reason": vector.reason,
        "hint": vector.hint,
        "findings": [_finding(finding) for finding in vector.findings],
        "seconds": vector.seconds,
        "reproduce": vector.reproduce,
        "transcript": [_entry(entry) for entry in vector.transcript],
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "requirement": finding.requirement,
        "verdict": finding.verdict,
        "expected": finding.expected,
        "found": finding.found,
        "line": finding.line,
    }


def _entry(entry: TranscriptEntry) -> dict[str, Any]:
    return {"seconds": entry.seconds, "process": entry.process, "channel": entry.channel, "text": entry.text}


def _plain(value: object) -> object:
    match value:
        case str():
            return encodable(value)
        case float():
            return round(value, 6) if math.isfinite(value) else str(value)
        case Mapping():
            return {encodable(name): _plain(held) for name, held in value.items()}
        case list() | tuple():
            return [_plain(held) for held in value]
        case _:
            return value
