"""JUnit XML, in the form that CI systems agree on: a suite for each topic, a case for each vector.

There is no standard. This keeps to what the schema of Jenkins' xUnit plugin (junit-10.xsd) allows, in which properties
belong to suites. A known failure is a skipped case, as pytest has it. Some case fails or errs exactly where the exit
code of the suite is not 0.
"""

from collections.abc import Iterable
from shlex import join
from typing import Final

from ao_conformance.reports.markup import Element, element, xml_text
from ao_conformance.reports.overview import BROKEN, PROTOCOL_NAME, WORDS, headline, overview_of
from ao_conformance.reports.transcript import excerpt, transcript_rows
from ao_conformance.reports.visible import cut
from ao_conformance.verdict import Finding, RequirementResult, SuiteResult, VectorResult, Verdict

MAX_ROWS: Final = 200
MAX_TEXT: Final = 2_000
WHOLE: Final = "The result as a whole"
"""The suite of what no vector shows by itself."""


def junit_text(result: SuiteResult) -> str:
    """Return the report as XML.

    A failure is a vector that fails or could not be tested; an error is one in which the suite itself failed; skipped
    are those that do not apply or are known to fail; a warning goes to the output of its case.
    """
    topics: dict[str, list[Element]] = {}
    for vector in result.vectors:
        topics.setdefault(vector.topic, []).append(_vector_case(vector))
    whole = _whole_cases(result)
    suites = [_suite(topic, cases, result) for topic, cases in topics.items()]
    suites += [_suite(WHOLE, whole, result)] if whole else []
    attributes = {
        "name": f"{PROTOCOL_NAME} {result.protocol_version}",
        **_numbers(suites),
        "time": _time(result.seconds),
    }
    attributes.pop("skipped")
    return xml_text(element("testsuites", attributes, *suites))


def _suite(topic: str, cases: list[Element], result: SuiteResult) -> Element:
    numbers = {
        "tests": len(cases),
        "failures": _holding("failure", cases),
        "errors": _holding("error", cases),
        "skipped": _holding("skipped", cases),
    }
    attributes = {name: str(number) for name, number in numbers.items()}
    time = _time(sum(float(case.get("time", "0")) for case in cases))
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
    held = [element("property", {"name": name, "value": value}) for name, value in properties.items()]
    return element(
        "testsuite",
        {"name": topic, **attributes, "time": time, "timestamp": result.started_at},
        element("properties", None, *held),
        *cases,
    )


def _vector_case(vector: VectorResult) -> Element:
    content = []
    detail = "\n\n".join([*(_finding_text(finding) for finding in vector.findings), _played(vector)])
    if vector.verdict in BROKEN and vector.known_failing:
        content.append(element("skipped", {"message": f"known failure: {_message(vector)}"}))
    elif vector.verdict is Verdict.HARNESS_ERROR:
        content.append(element("error", {"type": vector.verdict, "message": _message(vector)}, detail))
    elif vector.verdict in BROKEN:
        content.append(element("failure", {"type": vector.verdict, "message": _message(vector)}, detail))
    elif vector.verdict is Verdict.NOT_APPLICABLE:
        content.append(element("skipped", {"message": _message(vector)}))
    elif vector.verdict is Verdict.WARN:
        content.append(element("system-out", None, f"warning: {_message(vector)}\n\n{detail}"))
    name = f"{vector.id}: {vector.title}"
    return _case(name, f"{vector.level}.{vector.topic}", content, vector.seconds)


def _whole_cases(result: SuiteResult) -> list[Element]:
    shown = {vector.id for vector in result.vectors if vector.verdict in BROKEN and not vector.known_failing}
    untold = [
        requirement
        for requirement in overview_of(result).broken
        if not shown.intersection(vector_id for vector_id, _ in requirement.findings)
    ]
    cases = [_requirement_case(requirement) for requirement in untold]
    for entry in result.stale:
        why = "it is in the list of known failures and did not fail; take it out"
        cases.append(_case(entry, WHOLE, [element("failure", {"type": "stale", "message": why})]))
    for vector_id in result.unstable:
        why = "its verdict was not the same in every repeat"
        cases.append(_case(vector_id, WHOLE, [element("failure", {"type": "unstable", "message": why})]))
    if result.is_interrupted:
        error = element("error", {"type": "interrupted", "message": headline(result)})
        cases.append(_case("the suite is played to its end", WHOLE, [error]))
    if not result.executed:
        error = element("error", {"type": Verdict.HARNESS_ERROR, "message": headline(result)})
        cases.append(_case("at least one vector is played", WHOLE, [error]))
    return cases


def _requirement_case(requirement: RequirementResult) -> Element:
    tag = "error" if requirement.verdict is Verdict.HARNESS_ERROR else "failure"
    message = requirement.reason or WORDS[requirement.verdict]
    texts = [f"{requirement.id}: {requirement.text}", *(_finding_text(finding) for _, finding in requirement.findings)]
    problem = element(tag, {"type": requirement.verdict, "message": cut(message, MAX_TEXT)}, "\n\n".join(texts))
    return _case(requirement.id, WHOLE, [problem])


def _case(name: str, group: str, content: Iterable[Element], seconds: float = 0.0) -> Element:
    return element("testcase", {"classname": group, "name": name, "time": _time(seconds)}, *content)


def _message(vector: VectorResult) -> str:
    found = "; ".join(f"{finding.requirement}: {finding.found}" for finding in vector.findings)
    return cut(found or vector.reason or WORDS[vector.verdict], MAX_TEXT)


def _finding_text(finding: Finding) -> str:
    where = f", line {finding.line} of stdout" if finding.line else ""
    parts = [
        f"{finding.requirement} ({WORDS[finding.verdict]}{where})",
        f"  expected  {cut(finding.expected, MAX_TEXT)}",
        f"  found     {cut(finding.found, MAX_TEXT)}",
        f"  rule      ao conformance explain {finding.requirement}",
    ]
    return "\n".join(parts)


def _played(vector: VectorResult) -> str:
    rows = excerpt(transcript_rows(vector.transcript), MAX_ROWS)
    lines = [f"{row.seconds:9.3f}  {row.channel:<7} {cut(row.text, MAX_TEXT)}" for row in rows]
    hint = f"hint: {vector.hint}" if vector.hint else ""
    texts = [vector.reason, hint, "\n".join(lines), f"reproduce: {vector.reproduce}" if vector.reproduce else ""]
    return "\n\n".join(text for text in texts if text)


def _numbers(suites: list[Element]) -> dict[str, str]:
    names = ("tests", "failures", "errors", "skipped")
    return {name: str(sum(int(suite.get(name, "0")) for suite in suites)) for name in names}


def _holding(tag: str, cases: list[Element]) -> int:
    return sum(1 for case in cases if case.find(tag) is not None)


def _time(seconds: float) -> str:
    return f"{seconds:.3f}"
