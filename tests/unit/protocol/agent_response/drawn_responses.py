"""Responses to draw at random, with the texts that forms stumble over."""

from hypothesis import strategies as st

from ao_protocol.agent_response import AgentResponse, Finding, RelevantFile, Results

NASTY = [
    "]]>",
    "<![CDATA[x]]>",
    "a & b < c > d \" ' &amp; &#65; &#38;#65;",
    "two\nlines\n\n  indented\n\ttab",
    "issue — src/a.py:1 — why",
    "— dashes — – - --",
    "- [P1] no finding — x — y",
    "## Results\n### Files\n- /a — b\n## Summary",
    "---\nagent: other\n---",
    "```json\n{}\n```",
    "**bold** `code` _it_ [a](b) \\* # + > | ~",
    "`code`",
    "**bold**",
    "first\n- Suggestion: second\n  - Suggestion: third\nSuggestion: fourth",
    "<agent_response agent='x'>",
    "</agent_response>",
    "none",
    "control \x00\x07\x1b[31m \ufffe \ud800 end\r\nline\rend",
    "\x85 \u2028 \u2029 \ufeff \xa0 \u200b",
    "\u2028",
    "𝕏 é 漢字 🙂",
    "key: value # comment",
    "true",
    '{"summary": 1}',
    "src/a.ts:1: first",
    "first (src/a.ts:1)",
    "C:\\x.ts:1-2",
    "(a.ts:1)",
    "“a.ts:1”",
    "a.ts:1 - b.ts:2",
]

MARKS = [*"—–-#`*[]()<>&;:\"'\n\t \r\x00\\/.aP1", "\n  ", "&#", "a.ts:1", " - "]

texts = st.one_of(
    st.sampled_from(NASTY),
    st.text(max_size=30),
    st.lists(
        st.sampled_from([*"—–-#`*[]()<>&;:\"'\n\t \r\x00\\/.aP1", "\n  ", "&#", "a.ts:1", " - "]), max_size=20
    ).map("".join),
)
filled = texts.map(lambda text: f"{text}x")
scalars = (
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False)
)
words = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.sampled_from(
    ["]]>", "```", "\r\n\x00\x1b", "## Summary", "\ufffe\uffff\x7f\x85"]
)
specifics = st.dictionaries(
    words,
    st.recursive(
        scalars | words,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
        max_leaves=5,
    ),
    max_size=3,
)
findings = st.builds(
    Finding,
    priority=st.sampled_from(["P1", "P2", "P3"]),
    location=texts,
    issue=filled | st.sampled_from(NASTY),
    rationale=texts,
    suggestion=st.none() | texts,
)
files = st.builds(RelevantFile, path=filled | st.sampled_from(NASTY), relevance=texts)
responses = st.builds(
    AgentResponse,
    agent=filled | st.sampled_from(NASTY),
    version=st.sampled_from(["1.0", "1.7"]),
    summary=filled | st.sampled_from(NASTY),
    findings=st.lists(findings, max_size=3),
    results=st.none() | st.builds(Results, files=st.lists(files, max_size=3), answer=st.none() | texts),
    error=st.none() | texts,
    agent_specific=st.none() | specifics,
)
