"""The story of reading and writing a response: which form a text is in, and the form that is wanted."""

import re
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Final, TypeAlias

from ao_protocol.output.agent_response.front_matter import FRONT_MATTER
from ao_protocol.output.agent_response.json_form import JSON_INSTRUCTIONS, read_json, write_json
from ao_protocol.output.agent_response.markdown_form import (
    MARKDOWN_INSTRUCTIONS,
    has_summary_heading,
    read_markdown,
    write_markdown,
)
from ao_protocol.output.agent_response.model import UNKNOWN_AGENT, AgentResponse
from ao_protocol.output.agent_response.older_formats import read_older, read_older_wrapper
from ao_protocol.output.agent_response.plain_text import readable
from ao_protocol.output.agent_response.refusals import NoResponseFound, NotWellFormed, ResponseTooLarge, excerpt
from ao_protocol.output.agent_response.xml_document import read_element
from ao_protocol.output.agent_response.xml_form import XML_INSTRUCTIONS, response_from_element, write_xml

MAX_CHARACTERS: Final = 16 * 1024 * 1024
MAX_ATTEMPTS: Final = 8
"""A text may name the element before it begins it; every attempt may read the whole text."""


class Form(StrEnum):
    """How a response is written."""

    XML = "xml"
    JSON = "json"
    MARKDOWN = "markdown"


Candidate: TypeAlias = tuple[int, Form]

_INSTRUCTIONS: Final = {
    Form.XML: XML_INSTRUCTIONS,
    Form.JSON: JSON_INSTRUCTIONS,
    Form.MARKDOWN: MARKDOWN_INSTRUCTIONS,
}
_WRITERS: Final[dict[Form, Callable[[AgentResponse], str]]] = {
    Form.XML: write_xml,
    Form.JSON: write_json,
    Form.MARKDOWN: write_markdown,
}
_PROLOG: Final = re.compile(r"(?:\A|```(?:xml)?[ \t]*\n)\s*(?=<\?xml|<!DOCTYPE)")
_ROOT: Final = re.compile(r"<agent_response(?=[\s/>])")
_JSON_OBJECT: Final = re.compile(r'\{\s*"')
_FENCE_BEFORE: Final = re.compile(r"(`{3,}|~{3,})[A-Za-z]*[ \t]*\n\s*\Z")


def instructions_for(form: Form) -> str:
    """Return what a model is told so that it answers in a form; the example in it is a response."""
    return _INSTRUCTIONS[form]


def write_response(response: AgentResponse, form: Form) -> str:
    """Return the response in a form; `parse_agent_response` reads every form back without a difference."""
    return _WRITERS[form](response)


def convert(text: str, form: Form) -> str:
    """Return a response, in whatever form it is, in another form.

    Raises:
        AgentResponseError: as `parse_agent_response` does.
    """
    return write_response(parse_agent_response(text), form)


def read_response(text: str, form: Form, *, agent: str | None = None) -> AgentResponse:
    """Return the response that stands in a text in one form, also inside prose and fences, and in no other.

    Raises:
        AgentResponseError: the leaf says why; the place, what was found, and what was expected are its fields.
    """
    text = _admitted(text)
    response, refusal = _first_readable(text, [found for found in _candidates(text) if found[1] is form], agent)
    if response is not None:
        return response
    raise refusal or NoResponseFound("the text", excerpt(text), f"a response written as {form.value}")


def parse_agent_response(text: str, *, agent: str | None = None) -> AgentResponse:
    """Return the response that stands in a text, in one of the three forms or in an older one.

    What begins first is taken, also inside prose and fences; where it cannot be read as its form at all, the next.
    `agent` is the name to use where the text does not say whose answer it is. Time is linear in the text.

    Raises:
        AgentResponseError: the leaf says why; the place, what was found, and what was expected are its fields.
    """
    text = _admitted(text)
    response, refusal = _first_readable(text, list(_candidates(text)), agent)
    if response is None and refusal is None and has_summary_heading(text):
        response = read_markdown(text, agent or UNKNOWN_AGENT)
    response = response or read_older_wrapper(text, agent) or read_older(text, agent)
    if response is not None:
        return response
    raise refusal or NoResponseFound("the text", excerpt(text), "a response as XML, JSON or Markdown, or an older one")


def _admitted(text: str) -> str:
    if len(text) > MAX_CHARACTERS:
        raise ResponseTooLarge("the text", f"{len(text)} characters", f"{MAX_CHARACTERS} at most")
    return readable(text.removeprefix("\ufeff"))


def _candidates(text: str) -> Iterator[Candidate]:
    """Yield the places where a response may begin, in their order."""
    found: list[Candidate] = [(match.end(), Form.XML) for match in [_PROLOG.search(text)] if match]
    for _, match in zip(range(MAX_ATTEMPTS), _ROOT.finditer(text), strict=False):
        found.append((match.start(), Form.XML))
    found += [(match.start(), Form.MARKDOWN) for match in [FRONT_MATTER.search(text)] if match]
    if '"summary"' in text or '"agent"' in text:
        found += [(match.start(), Form.JSON) for match in [_JSON_OBJECT.search(text)] if match]
    yield from sorted(found)


def _first_readable(
    text: str, candidates: list[Candidate], agent: str | None
) -> tuple[AgentResponse | None, NotWellFormed | None]:
    refusal: NotWellFormed | None = None
    for start, form in candidates:
        try:
            return _read_at(text, start, form, agent), None
        except NotWellFormed as error:
            refusal = refusal or error
    return None, refusal


def _read_at(text: str, start: int, form: Form, agent: str | None) -> AgentResponse:
    match form:
        case Form.XML:
            return response_from_element(read_element(text, start))
        case Form.JSON:
            return read_json(text)
        case Form.MARKDOWN:
            return read_markdown(_within_its_fence(text, start), agent)


def _within_its_fence(text: str, start: int) -> str:
    """Return the Markdown from `start` on, up to the last mark of the fence that it stands in, if it stands in one.

    Line feeds stand for what was before, so that places are those of the whole text.
    """
    fence = _FENCE_BEFORE.search(text, max(0, start - 100), start)
    end = len(text)
    if fence is not None:
        end = max(
            text.rfind(f"\n{fence[1]}\n", start), end - len(fence[1]) - 1 if text.endswith(f"\n{fence[1]}") else -1
        )
        end = end if end >= 0 else len(text)
    return "\n" * text.count("\n", 0, start) + text[start:end]
