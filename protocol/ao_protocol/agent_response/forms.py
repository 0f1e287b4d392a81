"""Reading and writing a response: which form a text is in, where it begins, and the instructions for a model."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeAlias

from ao_protocol.agent_response.json_form import read_json, write_json
from ao_protocol.agent_response.markdown_form import FRONT_MATTER, read_markdown, write_markdown
from ao_protocol.agent_response.model import AgentResponse, Finding, Form, RelevantFile, Results, readable
from ao_protocol.agent_response.older_formats import read_older
from ao_protocol.agent_response.response_errors import (
    NoResponseFound,
    Notes,
    NotWellFormed,
    Remark,
    RemarkKind,
    ResponseTooLarge,
    excerpt,
)
from ao_protocol.agent_response.xml_form import ROOT, read_xml, write_xml

MAX_CHARACTERS: Final = 4 * 1024 * 1024
MAX_ATTEMPTS: Final = 8
"""A text may mention the element before it begins it; each attempt may read the whole text."""

_Candidate: TypeAlias = tuple[int, Form]

_PROLOG: Final = re.compile(r"(?:\A\s*|(?<=```)(?:xml)?[ \t]*\n\s*)(?=<(?:\?xml|!DOCTYPE))")
_ROOT_TAG: Final = re.compile(rf"<{ROOT}(?=[\s/>])")
_JSON_OBJECT: Final = re.compile(r"""\{\s*["'“”]""")
_NAMES_IN_JSON: Final = tuple(f"{left}{name}" for name in ("agent", "summary") for left in "\"'“")

_WRITERS: Final[dict[Form, Callable[[AgentResponse], str]]] = {
    Form.XML: write_xml,
    Form.JSON: write_json,
    Form.MARKDOWN: write_markdown,
}
_EXAMPLE: Final = AgentResponse(
    agent="your-name",
    summary="What you did, in one sentence",
    findings=[
        Finding(
            priority="P1",
            location="src/file.py:12",
            issue="What is wrong",
            rationale="Why it matters",
            suggestion="How to mend it",
        )
    ],
    results=Results(
        files=[RelevantFile(path="src/file.py", relevance="Why this file matters")],
        answer="The direct answer to the question",
    ),
    error="Why you could not do what was asked",
)
_INSTRUCTIONS: Final = """\
Answer with {what} and nothing else, in the form of the example. Only agent and summary are required; leave out what
does not apply. A priority is P1 (most important), P2 or P3. {notes}

{example}"""
_NOTES_OF_FORMS: Final = {
    Form.XML: """\
Elements of your own go into <agent_specific> at the end. Write & as &amp; and < as &lt; in texts, or put a text into
<![CDATA[...]]>.""",
    Form.JSON: "Whatever only you have to say goes into an object agent_specific.",
    Form.MARKDOWN: """\
The parts of a finding are separated by " — "; further lines of it are indented by two spaces. Whatever only you have
to say goes into a section Agent-Specific at the end.""",
}


def instructions_for(form: Form) -> str:
    """Return the instructions for a model to answer in a form; the example in them is a response."""
    what = {Form.XML: "one XML element", Form.JSON: "one JSON object", Form.MARKDOWN: "Markdown"}[form]
    example = write_response(_EXAMPLE, form).strip()
    return _INSTRUCTIONS.format(what=what, example=example, notes=_NOTES_OF_FORMS[form])


def write_response(response: AgentResponse, form: Form) -> str:
    """Return the response in a form; `parse_agent_response` reads each form back without a difference."""
    return _WRITERS[form](response)


@dataclass(frozen=True, slots=True)
class Reading:
    """A response, its form (None if it is in an older format), and what its author should know."""

    response: AgentResponse
    form: Form | None
    remarks: tuple[Remark, ...] = ()

    @property
    def is_repaired(self) -> bool:
        """Tell whether the text violated the grammar of its form and could still mean one thing only."""
        return any(remark.kind is RemarkKind.REPAIRED for remark in self.remarks)

    @property
    def is_older(self) -> bool:
        """Tell whether the response, or a part of it, is in an older format."""
        return any(remark.kind is RemarkKind.OLDER for remark in self.remarks)


def parse_agent_response(text: str, *, agent: str | None = None) -> AgentResponse:
    """Return the response that a text contains, in one of the three forms or in an older one.

    Raises:
        AgentResponseError: as `examine_response` does.
    """
    return examine_response(text, agent=agent).response


def examine_response(text: str, *, form: Form | None = None, agent: str | None = None) -> Reading:
    """Return the response that a text contains, with its form and with remarks.

    The first candidate is read, also inside prose and fences; the next one if it cannot be parsed at all. Time is
    linear in the text.

    Args:
        text: at most `MAX_CHARACTERS` characters.
        form: the only form to accept; None accepts all three and the older formats.
        agent: the name of the agent if an answer in an older format does not contain it.

    Raises:
        AgentResponseError: the subclass says why; the place, what was found, and what was expected are its fields.
    """
    if len(text) > MAX_CHARACTERS:
        raise ResponseTooLarge("the text", f"{len(text)} characters", f"{MAX_CHARACTERS} at most")
    text = readable(text.removeprefix("\ufeff"))
    refusal: NotWellFormed | None = None
    for start, candidate in _candidates(text):
        notes = Notes()
        if form not in {None, candidate}:
            continue
        try:
            return Reading(_read_at(text, start, candidate, notes), candidate, tuple(notes.remarks))
        except NotWellFormed as error:
            refusal = refusal or error
    notes = Notes()
    older = read_older(text, notes, agent) if form is None else None
    if older is not None:
        return Reading(older, None, tuple(notes.remarks))
    wanted = f"a response written as {form.value}" if form else "a response as XML, JSON or Markdown, or an older one"
    raise refusal or NoResponseFound("the text", excerpt(text), wanted)


def _candidates(text: str) -> Iterator[_Candidate]:
    """Yield the places where a response may begin, in their order."""
    begin = len(text) - len(text.lstrip())
    if _ROOT_TAG.match(text, begin):
        # It is the first, so the rest need not be searched unless it cannot be read.
        yield begin, Form.XML
    xml = [match.end() for match in islice(_PROLOG.finditer(text), MAX_ATTEMPTS)]
    xml += [match.start() for match in islice(_ROOT_TAG.finditer(text, begin + 1), MAX_ATTEMPTS)]
    found = [(start, Form.XML) for start in xml]
    if "agent:" in text:
        found += [(match.start(), Form.MARKDOWN) for match in [FRONT_MATTER.search(text)] if match]
    if any(name in text for name in _NAMES_IN_JSON):
        found += [(match.start(), Form.JSON) for match in [_JSON_OBJECT.search(text)] if match]
    yield from sorted(found)


def _read_at(text: str, start: int, form: Form, notes: Notes) -> AgentResponse:
    match form:
        case Form.JSON:
            return read_json(text, notes)
        case Form.MARKDOWN:
            return read_markdown(text, start, notes)
        case Form.XML:
            response = read_xml(text, start, notes)
            another = _ROOT_TAG.search(text, max(text.find(f"</{ROOT}", start), start + 1))
            if another is not None:
                line = text.count("\n", 0, another.start()) + 1
                message = "perhaps another response; the first one is read"
                notes.remark(RemarkKind.PASSED_OVER, f"line {line}", message)
            return response
