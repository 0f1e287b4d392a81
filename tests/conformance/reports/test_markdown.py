"""The Markdown page: what stands on it, and that no text changes its structure."""

import re

import pytest
from hypothesis import given
from markdown_it import MarkdownIt

from ao_conformance.reports.pages import fenced, markdown_text, prose
from ao_conformance.verdict import SuiteResult
from tests.conformance.reports.results import every_verdict, hostile_results, small_result

SMALL = """\
# demo 1.2: AO executor protocol 3.0, core

**✗ fail** demo 1.2 does not pass core of the AO executor protocol 3.0: 1 of 2 applicable requirements failed.

2 requirements: 1 pass, 1 fail.

- Started: 2026-11-22T08:00:00Z
- Suite: executor 0.1.0
- Seed: 7
- Played: 2 vectors of 2 in 0.8 s

```sh
demo --quiet
```

## Failures

### ✗ AOX-011

> **fail** (MUST, core, SPEC 2.2) Another major is refused as `unsupported_schema_version`.

Why: Nobody guesses.

- Vector: other-major: another major is refused
- Expected: `failure`, exit 64
- Found: `result`, exit 0
- Hint: compare the major as a number

```text
    0.000  start       demo --quiet
    0.001     in       {"schema_version":"4.0"}
    0.100    out    1  {"event_type":"run_started","seq":1}
>   0.200    out    2  {"event_type":"result","seq":2}
    0.250   exit       0
```

Play it alone:

```sh
ao conformance run --vector other-major -- demo --quiet
```

## Requirements

### SPEC 2.2

| Id | Verdict | Looked at in | Level | Rule |
| --- | --- | --- | --- | --- |
| AOX-011 | ✗ fail | 1 vector | MUST, core | Another major is refused as `unsupported_schema_version`. |
| AOX-012 | ✓ pass | 1 vector | MUST, core | Any minor is accepted. |
"""


def block_structure(text: str) -> list[str]:
    tokens = MarkdownIt("gfm-like", {"html": True, "linkify": False}).parse(text)
    inline = {child.type for token in tokens for child in token.children or []}
    assert inline <= {"text", "code_inline", "strong_open", "strong_close"}
    return [token.type for token in tokens]


def test_a_page_says_first_what_came_of_it_then_what_failed_then_everything() -> None:
    assert markdown_text(small_result()) == SMALL


def test_markup_means_only_itself_but_for_paired_backticks() -> None:
    assert prose("a `b*` *c* <d> | e_f _g_") == r"a `b*` \*c\* &#60;d&#62; &#124; e_f \_g\_"
    assert prose("an odd ` stays") == r"an odd \` stays"
    assert prose("`a|b`", in_table=True) == "a&#124;b"


@pytest.mark.parametrize(
    "hostile",
    [
        "<img src=x onerror=alert(1)>",
        "\\<script>alert(1)</script>",
        "&lt;b&gt;",
        "[x](javascript:alert(1))",
        "![x](http://evil.example/x.png)",
        "<https://evil.example>",
        "https://evil.example and www.evil.example and a@evil.example",
        "`<b>",
        "a | b\n# c\r\n- d\x1b[31m",
    ],
)
def test_nothing_of_an_executable_is_a_tag_or_a_link(hostile: str) -> None:
    page = prose(hostile)

    rendered = MarkdownIt("gfm-like", {"html": True, "linkify": False}).render(page)
    assert re.findall("<(?!/?p>)", page + rendered) == []
    assert re.findall(r"(?<!\\)[\[\]]|https?://|www\.|@|[\x00-\x09\x0b-\x1f]", page) == []


def test_a_fence_is_longer_than_what_it_holds() -> None:
    assert fenced("````\nx") == "`````text\n````\nx\n`````"


@given(hostile_results())
def test_no_text_changes_the_structure_of_the_page(result: SuiteResult) -> None:
    text = markdown_text(result)

    assert block_structure(text) == block_structure(markdown_text(every_verdict()))
    text.encode()
