"""The reports for programs: JSON by the published schema `conformance-report`, JUnit XML, and a badge."""

import json
import math
from collections.abc import Mapping, Sequence
from shlex import join
from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree

from ao_conformance.reports.overview import (
    PROTOCOL_NAME,
    WORDS,
    headline,
    kept_of_applicable,
    never_exercised,
    overview_of,
    scope,
)
from ao_conformance.reports.transcript_rows import encodable, excerpt, transcript_rows, visible
from ao_conformance.verdict import (
    BROKEN,
    UNSEEN,
    Finding,
    RequirementResult,
    SuiteResult,
    TranscriptEntry,
    VectorResult,
    Verdict,
)
from ao_protocol.short_text import shorten_with_length

if TYPE_CHECKING:
    from junitparser import TestCase, TestSuite
    from junitparser.junitparser import FinalResult

MAX_ROWS: Final = 200
MAX_TEXT: Final = 2_000
WHOLE: Final = "The result as a whole"
"""The JUnit suite for problems that no single vector shows."""
REPORT_SCHEMA_VERSION: Final = "1.2"
"""The version of the report, not of the protocol. A new minor version only adds fields."""


def document_text(result: SuiteResult) -> str:
    """Return the report as indented JSON with its keys in a fixed order.

    Any JSON parser reads it: a lone surrogate becomes the text of its escape, and a number that JSON lacks a string.
    """
    document = _plain({"schema_version": REPORT_SCHEMA_VERSION, **_members(result)})
    return json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False) + "\n"


MEMBERS: Final[Mapping[type, tuple[str, ...]]] = {
    SuiteResult: (
        *("suite", "suite_version", "protocol_version", "level", "verdict", "exit_code", "counts", "executed", "name"),
        *("version", "command", "seed", "repeats", "started_at", "seconds", "stale", "unstable", "left_out", "reached"),
        *("missing", "requirements", "vectors", "description"),
    ),
    RequirementResult: (
        *("id", "keyword", "level", "section", "text", "why", "verdict", "known_failing", "reason", "findings"),
        "vectors",
    ),
    VectorResult: (
        *("id", "title", "topic", "level", "capability", "requirements", "judged", "verdict", "known_failing"),
        *("reason", "hint", "findings", "seconds", "reproduce", "transcript"),
    ),
    Finding: ("requirement", "verdict", "expected", "found", "line"),
    TranscriptEntry: ("seconds", "process", "channel", "text"),
}
"""The members of each object of the report, in their order."""


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
        case _ if type(value) in MEMBERS:
            return {name: _plain(held) for name, held in _members(value).items()}
        case _:
            return value


def _members(value: object) -> dict[str, object]:
    own: dict[str, object] = {}
    if isinstance(value, SuiteResult):
        own["counts"] = {verdict.value: value.count(verdict) for verdict in Verdict}
    elif isinstance(value, RequirementResult):
        own["findings"] = [{"vector": name, **_members(finding)} for name, finding in value.findings]
    return {name: own[name] if name in own else getattr(value, name) for name in MEMBERS[type(value)]}


def badge_text(result: SuiteResult) -> str:
    """Return the badge, such as `core 3.0: 74/74`: the kept and the applicable requirements.

    It is green if everything is kept, yellow if the suite passes with warnings or known failures, red if it fails, and
    grey for a selection or if nothing could be tested.
    """
    kept, applicable = kept_of_applicable(result)
    colour = "brightgreen" if result.verdict is not Verdict.WARN and kept == applicable else "yellow"
    if result.verdict in {Verdict.FAIL, Verdict.UNTESTABLE}:
        colour = "red"
    message = f"{kept}/{applicable}{never_exercised(result)}"
    if result.left_out:
        message, colour = "a selection", "lightgrey"
    is_error = result.verdict is Verdict.HARNESS_ERROR or result.is_interrupted
    if is_error:
        message = "not tested"
    if result.verdict is Verdict.HARNESS_ERROR:
        colour = "lightgrey"
    badge = {
        "schemaVersion": 1,
        "label": PROTOCOL_NAME,
        "message": visible(f"{scope(result)} {result.protocol_version}: {message}"),
        "color": colour,
        **({"isError": True} if is_error else {}),
    }
    return json.dumps(badge, ensure_ascii=False) + "\n"


def junit_text(result: SuiteResult) -> str:
    """Return the report as JUnit XML: a suite for each topic, a case for each vector.

    JUnit XML has no standard. The report conforms to the schema of Jenkins' xUnit plugin (junit-10.xsd), in which
    properties belong to suites. A failure is a vector that fails or could not be tested. An error is a vector in which
    the suite itself failed. Skipped are vectors that do not apply or are known to fail, as in pytest. A warning is in
    the output of its case. Some case has a failure or an error exactly if the exit code of the suite is not 0.
    """
    from junitparser import JUnitXml

    topics: dict[str, list[TestCase]] = {}
    for vector in result.vectors:
        topics.setdefault(vector.topic, []).append(_vector_case(vector))
    if whole := _whole_cases(result):
        topics[WHOLE] = [*topics.get(WHOLE, ()), *whole]
    report = JUnitXml(visible(f"{PROTOCOL_NAME} {result.protocol_version}"))
    for topic, cases in topics.items():
        report.add_testsuite(_suite(topic, cases, result))
    report.tests = sum(len(cases) for cases in topics.values())
    report.failures = sum(suite.failures for suite in report)
    report.errors = sum(suite.errors for suite in report)
    report.time = round(result.seconds, 3)
    document: bytes = report.tostring()  # type: ignore[no-untyped-call]  # the library has no annotation here
    tree = ElementTree.fromstring(document)  # noqa: S314  # our own document
    for element in tree.iter():
        if "time" in element.attrib:
            element.set("time", f"{float(element.attrib['time']):.3f}")
    ElementTree.indent(tree)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(tree, encoding="unicode")}\n'


def _suite(topic: str, cases: Sequence["TestCase"], result: SuiteResult) -> "TestSuite":
    from junitparser import TestSuite

    suite = TestSuite(visible(topic))
    suite.timestamp = visible(result.started_at)
    properties = {
        "command": join(result.command),
        "executable": result.name,
        "executable_version": result.version,
        "level": result.level,
        "protocol_version": result.protocol_version,
        **({} if result.reached is None else {"reached": result.reached or "none"}),
        **({"missing": " ".join(rule.id for rule in result.missing)} if result.missing else {}),
        "repeats": str(result.repeats),
        "seed": str(result.seed),
        "suite": result.suite,
        "suite_version": result.suite_version,
    }
    for name, value in properties.items():
        suite.add_property(name, visible(value))
    suite.add_testcases(list(cases))
    return suite


def _vector_case(vector: VectorResult) -> "TestCase":
    from junitparser import Error, Failure, Skipped

    case = _case(f"{vector.id}: {vector.title}", f"{vector.level}.{vector.topic}", seconds=vector.seconds)
    detail = "\n\n".join([*(_finding_text(finding) for finding in vector.findings), _played(vector)])
    found = "; ".join(f"{finding.requirement}: {finding.found}" for finding in vector.findings)
    message = shorten_with_length(found or vector.reason or WORDS[vector.verdict], MAX_TEXT)
    if vector.verdict in BROKEN and vector.known_failing:
        case.result = _problem(Skipped, f"known failure: {message}")
    elif vector.verdict in BROKEN:
        kind = Error if vector.verdict is Verdict.HARNESS_ERROR else Failure
        case.result = _problem(kind, message, vector.verdict, detail)
    elif vector.verdict in UNSEEN:
        case.result = _problem(Skipped, f"{WORDS[vector.verdict]}: {message}")
    elif vector.verdict is Verdict.WARN:
        case.system_out = visible(f"warning: {message}\n\n{detail}")
    return case


def _whole_cases(result: SuiteResult) -> list["TestCase"]:
    from junitparser import Error, Failure

    shown = {vector.id for vector in result.vectors if vector.verdict in BROKEN and not vector.known_failing}
    told: list[tuple[str, FinalResult]] = []
    for rule in overview_of(result).broken:
        if shown.isdisjoint(vector_id for vector_id, _ in rule.findings):
            kind = Error if rule.verdict is Verdict.HARNESS_ERROR else Failure
            texts = [f"{rule.id}: {rule.text}", *(_finding_text(finding) for _, finding in rule.findings)]
            message = shorten_with_length(rule.reason or WORDS[rule.verdict], MAX_TEXT)
            told.append((rule.id, _problem(kind, message, rule.verdict, "\n\n".join(texts))))
    why = "it is in the list of known failures and did not fail; take it out"
    told += [(entry, _problem(Failure, why, "stale")) for entry in result.stale]
    why = "its verdict was not the same in every repeat"
    told += [(vector_id, _problem(Failure, why, "unstable")) for vector_id in result.unstable]
    if result.is_interrupted:
        told.append(("the suite is played to its end", _problem(Error, headline(result), "interrupted")))
    if not result.executed:
        told.append(("at least one vector is played", _problem(Error, headline(result), Verdict.HARNESS_ERROR)))
    return [_case(name, WHOLE, problem) for name, problem in told]


def _case(name: str, group: str, problem: "FinalResult | None" = None, seconds: float = 0.0) -> "TestCase":
    from junitparser import TestCase

    case = TestCase(visible(name), visible(group), round(seconds, 3))
    if problem is not None:
        case.result = problem
    return case


def _problem(kind: "type[FinalResult]", message: str, type_: str | None = None, detail: str = "") -> "FinalResult":
    problem = kind(visible(message), None if type_ is None else str(type_))
    if detail:
        problem.text = visible(detail)
    return problem


def _finding_text(finding: Finding) -> str:
    where = f", line {finding.line} of stdout" if finding.line else ""
    parts = [
        f"{finding.requirement} ({WORDS[finding.verdict]}{where})",
        f"  expected  {shorten_with_length(finding.expected, MAX_TEXT)}",
        f"  found     {shorten_with_length(finding.found, MAX_TEXT)}",
        f"  rule      ao conformance explain {finding.requirement}",
    ]
    return "\n".join(parts)


def _played(vector: VectorResult) -> str:
    rows = excerpt(transcript_rows(vector.transcript), MAX_ROWS)
    lines = [f"{row.seconds:9.3f}  {row.channel:<7} {shorten_with_length(row.text, MAX_TEXT)}" for row in rows]
    hint = f"hint: {vector.hint}" if vector.hint else ""
    texts = [vector.reason, hint, "\n".join(lines), f"reproduce: {vector.reproduce}" if vector.reproduce else ""]
    return "\n\n".join(text for text in texts if text)
