"""A finding's line is read by position, and no word of it is ever lost."""

import re
from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ao_protocol.agent_response import (
    AgentResponse,
    AgentResponseError,
    Finding,
    UnexpectedContent,
    parse_agent_response,
)


def findings_of(lines: str) -> list[Finding]:
    return parse_agent_response(f"Findings:\n{lines}").findings


def test_wrapped_lines_belong_to_their_finding_indented_or_not() -> None:
    text = "- [P1] A line that\n  goes on — a.ts:1 — for\n  long\n- [P2] Another that\ngoes on — b.ts:2 — too"
    assert [(each.issue, each.location, each.rationale) for each in findings_of(text)] == [
        ("A line that\ngoes on", "a.ts:1", "for\nlong"),
        ("Another that\ngoes on", "b.ts:2", "too"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "Findings: none",
        "Findings:\n- N/A",
        "**Findings:** No findings.",
        "No findings",
        "No issues found.",
    ],
)
def test_saying_that_nothing_was_found_is_an_answer(text: str) -> None:
    assert parse_agent_response(text) == AgentResponse(agent="unknown", summary="No findings")


@pytest.mark.parametrize(
    "text",
    [
        "Findings: No input validation in the login",
        "Findings: None of the endpoints checks its input",
        "Findings: None-checks are missing",
        "Findings: no issues found, except that a.ts:3 is odd",
        "**No issues found** in src/",
        "No issues found. However, a.ts:3 is odd.",
        "None",
        "The reviewer said: No findings",
    ],
)
def test_a_finding_that_begins_with_no_is_not_taken_for_none(text: str) -> None:
    with pytest.raises(AgentResponseError):
        parse_agent_response(text)


def test_a_section_that_says_neither_findings_nor_none_is_refused_and_not_emptied() -> None:
    with pytest.raises(UnexpectedContent, match="No input is checked"):
        parse_agent_response("---\nagent: a\n---\n## Summary\ns\n## Findings\nNo input is checked")


WORDS = (
    "a issue src/a.ts:12 C:\\x.ts:1-2 b.py (src/b.ts:3) [c.ts#L4] `d.ts:5` **e** Node.js and/or x[0] no none "
    "suggestions & <b> “q” don’t 12 f.ts:6: (g) —h"
)
words = st.sampled_from(WORDS.split())
gaps = st.sampled_from(
    [" ", " — ", " – ", " - ", " -- ", ": ", "—", "  ", " —", ", ", "; ", ". ", " | ", "\n  ", "\n", "\n  - ", " :"]
)
marks = st.sampled_from(["- [P1] ", "[P2]: ", "1. [p3] ", "* **[P1]** ", "- **[P2] "])


@given(mark=marks, words=st.lists(words, min_size=1, max_size=12), gaps=st.lists(gaps, min_size=12, max_size=12))
@example(mark="- [P1] ", words=["src/a.ts:12", "a", "a"], gaps=[": ", "\n  - ", *[" "] * 10])
def test_every_word_of_a_line_stands_in_its_finding(mark: str, words: list[str], gaps: list[str]) -> None:
    line = "".join(word + gap for word, gap in zip(words, gaps, strict=False))
    findings = findings_of(mark + line)
    said = " ".join(f"{each.issue} {each.location} {each.rationale}" for each in findings)
    assert not Counter(re.findall(r"\w+", line)) - Counter(re.findall(r"\w+", said))


@given(text=st.text(st.sampled_from('aP1 \n—–-:()[]/.`*\\#"“”;<>0\t'), max_size=60))
def test_no_punctuation_loses_a_word(text: str) -> None:
    line = f"x{text}"
    findings = findings_of(f"- [P1] {line.replace(chr(10), chr(10) + '  ')}")
    said = " ".join(f"{each.issue} {each.location} {each.rationale}" for each in findings)
    assert not Counter(re.findall(r"\w+", line)) - Counter(re.findall(r"\w+", said))
