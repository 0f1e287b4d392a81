"""The Markdown form: front matter with agent and version, then a section for each part of the response.

A line of a text that reads like a heading of this form is written with a reference for its first `#`.
"""

import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

from ao_protocol.agent_response.finding_lines import (
    file_lines,
    files_in,
    finding_lines,
    findings_in,
    reference_to,
    resolve_references,
    without_references,
)
from ao_protocol.agent_response.model import (
    BLANKS,
    AgentResponse,
    Notes,
    NotWellFormed,
    RemarkKind,
    UnexpectedContent,
    excerpt,
    json_text,
    response_from_document,
)
from ao_protocol.framing import NotIJson, decode_object
from ao_protocol.json_words import shown

FRONT_MATTER: Final = re.compile(
    r"^---[ \t]*\n(?:(?:[A-Za-z_][A-Za-z0-9_-]*:[^\n]*|#[^\n]*|[ \t]*)\n){0,40}agent:[^\n]*\n", re.MULTILINE
)
"""The beginning of front matter that names an agent."""

_FRONT_LINE: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_-]*):(.*)")
_PLAIN: Final = re.compile(r"(?!(?:y|n|yes|no|true|false|on|off|null)\Z)[A-Za-z][A-Za-z0-9_-]*", re.IGNORECASE)
_NOT_IN_YAML: Final = re.compile("[\x7f-\xa0\u2028\u2029\ufeff]")
_FENCE_BEFORE: Final = re.compile(r"(`{3,}|~{3,})[A-Za-z]*[ \t]*\n\s*\Z")
_LONGEST_FENCE: Final = 100
_MAX_FENCES: Final = 8
_HEADING: Final = re.compile(
    r"#{1,6}[ \t]+(?:\*\*)?(summary|findings|results|files|answer|error|agent[-_ ]specific)(?:\*\*)?:?", re.IGNORECASE
)
_LONGEST_HEADING: Final = 80
_JSON_FENCE: Final = re.compile(r"(`{3,})(?:json)?[ \t]*\n(?P<body>.*)\n\1", re.DOTALL | re.IGNORECASE)


def write_markdown(response: AgentResponse) -> str:
    """Return the response as Markdown with front matter."""
    return "\n".join(_lines(response)).rstrip(BLANKS) + "\n"


def _lines(response: AgentResponse) -> Iterator[str]:
    yield from ("---", f"agent: {_yaml(response.agent)}", f"version: {_yaml(response.version)}", "---", "")
    yield from _section("## Summary", response.summary)
    if response.findings:
        yield from ("## Findings", "")
        for finding in response.findings:
            yield from finding_lines(finding)
        yield ""
    if response.results is not None:
        yield from ("## Results", "")
        if response.results.files:
            yield from ("### Files", "")
            for file in response.results.files:
                yield from file_lines(file)
            yield ""
        if response.results.answer is not None:
            yield from _section("### Answer", response.results.answer)
    if response.error is not None:
        yield from _section("## Error", response.error)
    if response.agent_specific is not None:
        yield from ("## Agent-Specific", "", "```json", json_text(response.agent_specific), "```")


def _yaml(text: str) -> str:
    if _PLAIN.fullmatch(text):
        return text
    # YAML has no pairs of surrogates, so characters beyond U+FFFF are not escaped.
    return _NOT_IN_YAML.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(text, ensure_ascii=False))


def _section(heading: str, text: str) -> Iterator[str]:
    yield from (heading, "")
    for line in without_references(text).split("\n"):
        yield line if _heading_in(line) is None else reference_to("#") + line[1:]
    yield ""


def read_markdown(text: str, start: int, notes: Notes) -> AgentResponse:
    """Return the response in the Markdown at `start`, up to the end of the fence around it."""
    first_line = text.count("\n", 0, start) + 1
    front, body, first_line = _front_matter(_within_its_fence(text, start, notes), first_line)
    sections = _sections(body, first_line, notes)
    if not sections.get("summary", _Section(1, "")).text:
        notes.refuse(UnexpectedContent("the text", "no summary", "a section '## Summary' with a text"))
    document: dict[str, object] = {name: text for name, text in front.items() if name in {"agent", "version"}}
    document |= {name: resolve_references(sections[name].text) for name in ("summary", "error") if name in sections}
    if "findings" in sections:
        document["findings"] = findings_in(sections["findings"].text, notes, sections["findings"].line)
    if sections.keys() & {"results", "files", "answer"}:
        answer = sections.get("answer", sections.get("results", _Section(1, "")))
        files = files_in(sections["files"].text) if "files" in sections else []
        document["results"] = {"files": files, "answer": resolve_references(answer.text)}
    if "agent_specific" in sections:
        line, own = sections["agent_specific"]
        fenced = _JSON_FENCE.fullmatch(own)
        try:
            own_json = decode_object(fenced["body"].encode()) if fenced else {"text": resolve_references(own)}
            document["agent_specific"] = own_json
        except NotIJson as error:
            notes.refuse(NotWellFormed(f"line {line}, agent-specific", str(error), "one JSON object"))
    notes.settle()
    for name in front.keys() - document.keys():
        notes.remark(RemarkKind.PASSED_OVER, f"$.{name}", "an unknown name")
    return response_from_document(document)


def _within_its_fence(text: str, start: int, notes: Notes) -> str:
    """Return the text up to the last mark of its fence, because it may have fences, but not into another response."""
    fence = _fence_before(text, start)
    if fence is None:
        return text[start:]
    mark = f"\n{fence[1]}\n"
    others = (match.start() for match in islice(FRONT_MATTER.finditer(text, start + 1), _MAX_FENCES))
    another = next((other for other in others if _fence_before(text, other)), None)
    end = f"{text}\n".rfind(mark, start, another)
    if another is not None and end >= 0:
        place = f"line {text.count(chr(10), 0, another) + 1}"
        notes.remark(RemarkKind.PASSED_OVER, place, "perhaps another response; the first one is read")
    elif another is not None:
        end = f"{text}\n".rfind(mark, start)
    return text[start : end if end >= 0 else None]


def _fence_before(text: str, position: int) -> re.Match[str] | None:
    return _FENCE_BEFORE.search(text, max(0, position - _LONGEST_FENCE), position)


def _front_matter(text: str, first_line: int) -> tuple[dict[str, str], str, int]:
    """Return the values of the front matter, all as text, the text after it, and the line where that begins."""
    lines = text.split("\n")
    values: dict[str, str] = {}
    for index, line in enumerate(lines[1:], 1):
        place = f"line {first_line + index}"
        if line.rstrip(BLANKS) in {"---", "..."}:
            return values, "\n".join(lines[index + 1 :]), first_line + index + 1
        if not line.strip(BLANKS) or line.startswith("#"):
            continue
        entry = _FRONT_LINE.fullmatch(line)
        if entry is None:
            raise NotWellFormed(place, excerpt(line), "a line such as 'agent: your-name'")
        if entry[1] in values:
            raise NotWellFormed(place, f"a second {entry[1]}", "each name once")
        values[entry[1]] = _yaml_value(entry[2].strip(BLANKS), place)
    raise NotWellFormed(f"line {first_line}", "front matter without an end", "a line --- behind it")


def _yaml_value(written: str, place: str) -> str:
    if written.startswith('"'):
        try:
            return str(json.JSONDecoder().raw_decode(written)[0])
        except json.JSONDecodeError as error:
            raise NotWellFormed(place, excerpt(written), "a text between two quotation marks") from error
    if written.startswith("'") and written.endswith("'") and len(written) > 1:
        return written[1:-1].replace("''", "'")
    return re.sub(r"[ \t]#.*", "", written).strip(BLANKS)


class _Section(NamedTuple):
    line: int
    text: str


def _sections(body: str, first_line: int, notes: Notes) -> dict[str, _Section]:
    found: dict[str, tuple[int, list[str]]] = {}
    lines: list[str] = []
    for number, line in enumerate(body.split("\n"), first_line):
        heading = _heading_in(line)
        if heading is None:
            lines.append(line)
            continue
        lines = []
        if heading in found:
            notes.refuse(UnexpectedContent(f"line {number}", f"a second section {shown(heading)}", "one at most"))
        else:
            found[heading] = number + 1, lines
    sections: dict[str, _Section] = {}
    for heading, (first, lines) in found.items():
        # The first line keeps its indentation, which matters if the section is a list.
        blank = next((index for index, line in enumerate(lines) if line.strip(BLANKS)), len(lines))
        sections[heading] = _Section(first + blank, "\n".join(lines[blank:]).rstrip(BLANKS))
    return sections


def _heading_in(line: str) -> str | None:
    if not line.startswith("#") or len(line) > _LONGEST_HEADING:
        return None
    found = _HEADING.fullmatch(line.rstrip(BLANKS))
    return re.sub("[-_ ]", "_", found[1].lower()) if found else None
