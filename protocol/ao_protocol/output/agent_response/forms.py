"""The story of reading and writing a response: which form a text is in, and the form that is wanted."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from ao_protocol.output.agent_response.candidates import ROOT_TAG, Candidate, candidates_in, within_its_fence
from ao_protocol.output.agent_response.json_form import JSON_INSTRUCTIONS, read_json, write_json
from ao_protocol.output.agent_response.markdown_form import (
    MARKDOWN_INSTRUCTIONS,
    has_summary_heading,
    read_markdown,
    write_markdown,
)
from ao_protocol.output.agent_response.model import UNKNOWN_AGENT, AgentResponse, Form
from ao_protocol.output.agent_response.notes import Notes, Remark, RemarkKind
from ao_protocol.output.agent_response.older_formats import read_older, read_older_wrapper
from ao_protocol.output.agent_response.plain_text import readable
from ao_protocol.output.agent_response.refusals import (
    AgentResponseError,
    NoResponseFound,
    NotWellFormed,
    ResponseTooLarge,
    excerpt,
)
from ao_protocol.output.agent_response.xml_document import read_element
from ao_protocol.output.agent_response.xml_form import ROOT, XML_INSTRUCTIONS, response_from_element, write_xml
from ao_protocol.output.agent_response.xml_repair import remark_repairs, repaired_xml

MAX_CHARACTERS: Final = 4 * 1024 * 1024

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


def instructions_for(form: Form) -> str:
    """Return what a model is told so that it answers in a form; the example in it is a response."""
    return _INSTRUCTIONS[form]


def write_response(response: AgentResponse, form: Form) -> str:
    """Return the response in a form; `parse_agent_response` reads every form back without a difference."""
    return _WRITERS[form](response)


@dataclass(frozen=True, slots=True)
class Reading:
    """A response, the form it was found in (none, if an older format), and what its author should know."""

    response: AgentResponse
    form: Form | None
    remarks: tuple[Remark, ...] = ()

    @property
    def is_repaired(self) -> bool:
        """Tell whether the text broke the grammar of its form and could still mean one thing only."""
        return any(remark.kind is RemarkKind.REPAIRED for remark in self.remarks)

    @property
    def is_older(self) -> bool:
        """Tell whether the response, or a part of it, is in a format that is no longer written."""
        return any(remark.kind is RemarkKind.OLDER for remark in self.remarks)


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
    return examine_response(text, form=form, agent=agent).response


def parse_agent_response(text: str, *, agent: str | None = None) -> AgentResponse:
    """Return the response that stands in a text, in one of the three forms or in an older one.

    What begins first is taken, also inside prose and fences; where it cannot be read as its form at all, the next.
    `agent` is the name to use where the text does not say whose answer it is. Time is linear in the text.

    Raises:
        AgentResponseError: the leaf says why; the place, what was found, and what was expected are its fields.
    """
    return examine_response(text, agent=agent).response


def examine_response(text: str, *, form: Form | None = None, agent: str | None = None) -> Reading:
    """Return the response that stands in a text, and how it was read: its form, what was repaired or passed over.

    Without `form` it is `parse_agent_response` that tells more, with it `read_response`.

    Raises:
        AgentResponseError: as they do.
    """
    if len(text) > MAX_CHARACTERS:
        raise ResponseTooLarge("the text", f"{len(text)} characters", f"{MAX_CHARACTERS} at most")
    text = readable(text.removeprefix("\ufeff"))
    candidates = (found for found in candidates_in(text) if form in {None, found[1]})
    reading, refusal = _first_readable(text, candidates, agent)
    if reading is None and form is None:
        reading = _without_front_matter(text, agent, is_broken=refusal is not None) or _in_an_older_format(text, agent)
    if reading is not None:
        return reading
    wanted = f"a response written as {form.value}" if form else "a response as XML, JSON or Markdown, or an older one"
    raise refusal or NoResponseFound("the text", excerpt(text), wanted)


def _first_readable(
    text: str, candidates: Iterable[Candidate], agent: str | None
) -> tuple[Reading | None, NotWellFormed | None]:
    refusal: NotWellFormed | None = None
    for start, form in candidates:
        notes = Notes()
        try:
            response = _read_at(text, start, form, agent, notes)
        except NotWellFormed as error:
            refusal = refusal or error
        else:
            return Reading(response, form, notes.remarks), None
    return None, refusal


def _read_at(text: str, start: int, form: Form, agent: str | None, notes: Notes) -> AgentResponse:
    match form:
        case Form.XML:
            return _read_xml(text, start, notes)
        case Form.JSON:
            return read_json(text, notes)
        case Form.MARKDOWN:
            inside, behind = within_its_fence(text, start)
            response = read_markdown(inside, notes, agent)
            if behind is not None:
                _remark_another(text, behind, notes)
            return response


def _read_xml(text: str, start: int, notes: Notes) -> AgentResponse:
    try:
        root = read_element(text, start)
    except NotWellFormed as refusal:
        response = _read_repaired(text, start, refusal, notes)
    else:
        response = response_from_element(root, notes)
    another = ROOT_TAG.search(text, max(text.find(f"</{ROOT}", start), start + 1))
    if another is not None:
        _remark_another(text, another.start(), notes)
    return response


def _read_repaired(text: str, start: int, refusal: NotWellFormed, notes: Notes) -> AgentResponse:
    repaired = repaired_xml(text, start) if text.startswith(f"<{ROOT}", start) else None
    if repaired is None:
        raise refusal
    try:
        root = read_element(repaired.text, start)
        response = response_from_element(root, notes) if repaired.is_clear else None
    except AgentResponseError as error:
        refusal.further = tuple(problem for problem in error.problems if problem.place != refusal.place)
        raise refusal from error
    if response is None:
        raise refusal
    remark_repairs(text, repaired, notes)
    return response


def _remark_another(text: str, start: int, notes: Notes) -> None:
    line = text.count("\n", 0, start) + 1
    notes.remark(RemarkKind.PASSED_OVER, f"line {line}", "perhaps another response; the first one is read")


def _without_front_matter(text: str, agent: str | None, *, is_broken: bool) -> Reading | None:
    if is_broken or not has_summary_heading(text):
        return None
    notes = Notes()
    response = read_markdown(text, notes, agent or UNKNOWN_AGENT)
    return Reading(response, Form.MARKDOWN, notes.remarks)


def _in_an_older_format(text: str, agent: str | None) -> Reading | None:
    for read in (read_older_wrapper, read_older):
        notes = Notes()
        response = read(text, notes, agent)
        if response is not None:
            return Reading(response, None, notes.remarks)
    return None
