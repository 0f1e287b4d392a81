"""Answers in the older formats are read, with the punctuation that models use."""

import pytest

from ao_protocol.agent_response import (
    AgentResponse,
    Finding,
    NotWellFormed,
    RelevantFile,
    Results,
    parse_agent_response,
)


@pytest.mark.parametrize(
    "line",
    [
        "- [P1] SQL injection — api.ts:45 — No sanitization",
        "- [P1] SQL injection – api.ts:45 – No sanitization",
        "- [P1] SQL injection - api.ts:45 - No sanitization",
        "- [P1] SQL injection -- api.ts:45 -- No sanitization",
        "* **[P1]** SQL injection — `api.ts:45` — No sanitization",
        "1. [p1]: **SQL injection** — api.ts:45 — No sanitization",
        "  • [P1] SQL injection  —  api.ts:45  —  No sanitization  ",
        "[P1] SQL injection — api.ts:45 — No sanitization",
        "- [P1] SQL injection\n  — api.ts:45\n  — No sanitization",
    ],
)
@pytest.mark.parametrize(
    "frame", ["Findings:\n{}", "I looked.\n\n**Findings:**\n\n{}\n\nThat is all.", "```\nFindings:\n{}\n```"]
)
def test_a_finding_line_is_read_whatever_its_punctuation(line: str, frame: str) -> None:
    response = parse_agent_response(frame.format(line), agent="security-sentinel")
    assert response == AgentResponse(
        agent="security-sentinel",
        summary="1 finding: 1 P1",
        findings=[Finding(priority="P1", location="api.ts:45", issue="SQL injection", rationale="No sanitization")],
    )


@pytest.mark.parametrize(
    ("line", "issue", "location", "rationale"),
    [
        ("Race — lock not held — src/a.py:12 — two threads", "Race — lock not held", "src/a.py:12", "two threads"),
        ("Race — src/a.py:12 — two threads — and more", "Race", "src/a.py:12", "two threads — and more"),
        ("Weak hash - MD5 — auth.py:3 — collisions - old", "Weak hash - MD5", "auth.py:3", "collisions - old"),
        ("Re-use of well-known e-mail — a.py:1 — up-to-date", "Re-use of well-known e-mail", "a.py:1", "up-to-date"),
        ("No tests — nobody noticed", "No tests", "", "nobody noticed"),
        ("No tests — src/a.py:1", "No tests", "src/a.py:1", ""),
        ("No tests — src/a.py", "No tests", "", "src/a.py"),
        ("No tests", "No tests", "", ""),
        ("Loop — a.py:1, b.py:2-5 and 9 — slow", "Loop", "a.py:1, b.py:2-5 and 9", "slow"),
        ("Race — no lock — in a worker — two threads", "Race", "", "no lock — in a worker — two threads"),
        ("Raw query (src/a.ts:12) — not bound", "Raw query (src/a.ts:12)", "", "not bound"),
        ("Weak hash - MD5", "Weak hash - MD5", "", ""),
        ("Broken — C:\\src\\a.cs:7 — x", "Broken", "C:\\src\\a.cs:7", "x"),
        ("Missing alt — the login page — blind users", "Missing alt", "the login page", "blind users"),
        ("List<String> & more — A.java:1 — a < b", "List<String> & more", "A.java:1", "a < b"),
        ("Uses -- flags – a.sh:3 – odd", "Uses -- flags", "a.sh:3", "odd"),
    ],
)
def test_the_part_that_looks_like_a_place_is_the_location(line: str, issue: str, location: str, rationale: str) -> None:
    (finding,) = parse_agent_response(f"Findings:\n- [P2] {line}").findings
    assert (finding.issue, finding.location, finding.rationale) == (issue, location, rationale)


def test_several_findings_keep_their_order_and_their_further_lines() -> None:
    text = """Findings:
- [P2] One — a.py:1 — first
  goes on
- [P1] Two — b.py:2 — second
  - Suggestion: mend it

- [P3] Three — c.py:3 — third
Regards"""
    assert parse_agent_response(text) == AgentResponse(
        agent="unknown",
        summary="3 findings: 1 P1, 1 P2, 1 P3",
        findings=[
            Finding(priority="P2", location="a.py:1", issue="One", rationale="first\ngoes on"),
            Finding(priority="P1", location="b.py:2", issue="Two", rationale="second", suggestion="mend it"),
            Finding(priority="P3", location="c.py:3", issue="Three", rationale="third\nRegards"),
        ],
    )


@pytest.mark.parametrize(
    "text", ["Findings: none", "Findings:\n- None.", "**Findings:**\n\nNo issues found.", "No findings."]
)
def test_no_findings_is_an_answer(text: str) -> None:
    assert parse_agent_response(text) == AgentResponse(agent="unknown", summary="No findings")


@pytest.mark.parametrize(
    "line",
    [
        "- /src/api.ts — Holds queries",
        "- `/src/api.ts` – Holds queries",
        "* /src/api.ts - Holds queries",
        "/src/api.ts — Holds queries",
    ],
)
def test_codebase_search_gives_files_and_an_answer(line: str) -> None:
    text = f"<results>\n<files>{line}\n</files>\n<answer>\nIn api.ts & b < c\n</answer>\n</results>"
    assert parse_agent_response(text) == AgentResponse(
        agent="codebase-search",
        summary="In api.ts & b < c",
        results=Results(
            files=[RelevantFile(path="/src/api.ts", relevance="Holds queries")], answer="In api.ts & b < c"
        ),
    )


def test_oracle_advises() -> None:
    text = "Well.\n<analysis>a < b</analysis>\n<options>\n1. x\n2. y\n</options>\n"
    text += "<recommendation>\n**Choose**: x\nsince\n</recommendation>"
    assert parse_agent_response(text) == AgentResponse(
        agent="oracle",
        summary="**Choose**: x",
        agent_specific={
            "type": "architecture-advisory",
            "analysis": "a < b",
            "options": "1. x\n2. y",
            "recommendation": "**Choose**: x\nsince",
        },
    )


def test_oracle_looks_for_causes() -> None:
    text = "<hypotheses>\n1. The cache is stale\n</hypotheses>"
    assert parse_agent_response(text) == AgentResponse(
        agent="oracle",
        summary="1. The cache is stale",
        agent_specific={"type": "root-cause-analysis", "hypotheses": "1. The cache is stale"},
    )


@pytest.mark.parametrize("issue", ["SQL injection risk", "List<String> && more"], ids=["xml", "no xml"])
def test_the_wrapper_around_finding_lines_is_read(issue: str) -> None:
    text = f"""Here:
<agent_response agent="security-sentinel" version="1.0">
  <summary>2 issues found</summary>
  <findings>
Findings:
- [P1] {issue} — api/users.ts:45 — Not sanitized
- [P2] Weak password — auth.ts:12 — Minimum is 6
  </findings>
</agent_response>"""
    assert parse_agent_response(text) == AgentResponse(
        agent="security-sentinel",
        summary="2 issues found",
        findings=[
            Finding(priority="P1", location="api/users.ts:45", issue=issue, rationale="Not sanitized"),
            Finding(priority="P2", location="auth.ts:12", issue="Weak password", rationale="Minimum is 6"),
        ],
    )


def test_several_older_formats_in_one_answer_are_all_read() -> None:
    text = """<results><files>- /a.py — x</files><answer>Yes</answer></results>
<recommendation>Do it</recommendation>
Findings:
- [P3] Typo — a.py:1 — reads badly"""
    response = parse_agent_response(text)
    assert response.results == Results(files=[RelevantFile(path="/a.py", relevance="x")], answer="Yes")
    assert response.agent_specific == {"type": "architecture-advisory", "recommendation": "Do it"}
    assert [finding.issue for finding in response.findings] == ["Typo"]


def test_what_was_only_thought_is_no_answer() -> None:
    text = "<thinking>Findings:\n- [P1] Draft — a.py:1 — x</thinking>\nFindings:\n- [P2] Real — a.py:1 — x"
    assert [finding.issue for finding in parse_agent_response(text).findings] == ["Real"]


def test_broken_xml_is_not_read_in_part() -> None:
    text = '<agent_response agent="a"><summary>x && y</summary><results><answer>z</answer></results></agent_response>'
    with pytest.raises(NotWellFormed, match="&amp;"):
        parse_agent_response(text)
