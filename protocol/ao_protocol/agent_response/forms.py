"""Reading and writing of a response: its form, its beginning in a text, the JSON form, and the instructions."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from typing import Final

from pydantic import BaseModel, JsonValue

from ao_protocol.agent_response.markdown_form import FRONT_MATTER, read_markdown, write_markdown
from ao_protocol.agent_response.model import (
    MAX_NOTES,
    PUBLISHED,
    AgentResponse,
    Finding,
    Form,
    NoResponseFound,
    Notes,
    NotWellFormed,
    RelevantFile,
    Remark,
    RemarkKind,
    ResponseTooLarge,
    Results,
    UnexpectedContent,
    excerpt,
    json_text,
    readable,
    response_from_document,
    response_schema,
)
from ao_protocol.agent_response.older_formats import read_older
from ao_protocol.agent_response.xml_form import ROOT, read_xml, write_xml
from ao_protocol.extraction import NoJsonFound, Source, extract_json
from ao_protocol.extraction.extract import Reader, validity_under
from ao_protocol.extraction.survey import survey
from ao_protocol.json_path import ROOT as DOCUMENT
from ao_protocol.json_path import below
from ao_protocol.json_words import shown

MAX_CHARACTERS: Final = 4 * 1024 * 1024
MAX_ATTEMPTS: Final = 8
"""The maximum number of attempts. A text may mention the element before it; each attempt may read the whole text."""
MAX_BRACES: Final = 1_000_000
"""The maximum number of opening braces. It bounds time, because each is a possible beginning of an object."""

_PROLOG: Final = re.compile(r"(?:\A\s*|(?<=```)(?:xml)?[ \t]*\n\s*)(?=<(?:\?xml|!DOCTYPE))")
_ROOT_TAG: Final = re.compile(rf"<{ROOT}(?=[\s/>])")
_JSON_OBJECT: Final = re.compile(r"""\{\s*["'“”]""")
_NAMES_IN_JSON: Final = tuple(f"{left}{name}" for name in ("agent", "summary") for left in "\"'“")
_PARTS: Final[dict[str, type[BaseModel]]] = {"findings": Finding, "results": Results, "files": RelevantFile}


def instructions_for(form: Form) -> str:
    """Return the instructions for a model to answer in a form. The example in them is a response."""
    return (PUBLISHED / f"instructions_{form.value}.txt").read_text(encoding="utf-8").strip()


def write_response(response: AgentResponse, form: Form) -> str:
    """Return the response in a form. `parse_agent_response` reads it back without a difference."""
    return _WRITERS[form](response)


def _write_json(response: AgentResponse) -> str:
    document = response.model_dump(mode="json", exclude={"agent_specific"}, exclude_none=True)
    if not response.findings:
        del document["findings"]
    if response.agent_specific is not None:
        document["agent_specific"] = response.agent_specific
    return json_text(document)


_WRITERS: Final[dict[Form, Callable[[AgentResponse], str]]] = {
    Form.XML: write_xml,
    Form.JSON: _write_json,
    Form.MARKDOWN: write_markdown,
}


@dataclass(frozen=True, slots=True)
class Reading:
    """A response, its form (None for an older format), and remarks for its author."""

    response: AgentResponse
    form: Form | None
    remarks: tuple[Remark, ...] = ()

    @property
    def is_repaired(self) -> bool:
        """Whether the text violated the grammar of its form but had only one possible meaning."""
        return any(remark.kind is RemarkKind.REPAIRED for remark in self.remarks)

    @property
    def is_older(self) -> bool:
        """Whether the response, or a part of it, is in an older format."""
        return any(remark.kind is RemarkKind.OLDER for remark in self.remarks)


def parse_agent_response(text: str, *, agent: str | None = None) -> AgentResponse:
    """Return the response that a text contains, in one of the three forms or in an older one.

    Raises:
        AgentResponseError: The text has no readable response, as for `examine_response`.
    """
    return examine_response(text, agent=agent).response


def examine_response(text: str, *, form: Form | None = None, agent: str | None = None) -> Reading:
    """Return the response that a text contains, with its form and with remarks.

    The first candidate is read, also inside prose and fences, or the next one if it cannot be parsed at all. Time is
    linear in the text.

    Args:
        text: A text of at most `MAX_CHARACTERS` characters.
        form: The only form to accept; None accepts all three and the older formats.
        agent: The name of the agent for an answer in an older format that does not contain it.

    Raises:
        AgentResponseError: The text has no readable response. The subclass is the reason; the fields are the place, the
            text found, and the text expected.
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


def _candidates(text: str) -> Iterator[tuple[int, Form]]:
    """Yield the places where a response may begin, in order, each with its form."""
    begin = len(text) - len(text.lstrip())
    if _ROOT_TAG.match(text, begin):
        # This is the first candidate; the rest is searched only if it cannot be read.
        yield begin, Form.XML
    found = [(match.end(), Form.XML) for match in islice(_PROLOG.finditer(text), MAX_ATTEMPTS)]
    found += [(match.start(), Form.XML) for match in islice(_ROOT_TAG.finditer(text, begin + 1), MAX_ATTEMPTS)]
    if "agent:" in text and (match := FRONT_MATTER.search(text)):
        found.append((match.start(), Form.MARKDOWN))
    if any(name in text for name in _NAMES_IN_JSON) and (match := _JSON_OBJECT.search(text)):
        found.append((match.start(), Form.JSON))
    yield from sorted(found)


def _read_at(text: str, start: int, form: Form, notes: Notes) -> AgentResponse:
    if form is Form.JSON:
        return _read_json(text, notes)
    if form is Form.MARKDOWN:
        return read_markdown(text, start, notes)
    response = read_xml(text, start, notes)
    another = _ROOT_TAG.search(text, max(text.find(f"</{ROOT}", start), start + 1))
    if another is not None:
        line = text.count("\n", 0, another.start()) + 1
        notes.remark(RemarkKind.PASSED_OVER, f"line {line}", "perhaps another response; the first one is read")
    return response


def _read_json(text: str, notes: Notes) -> AgentResponse:
    """Return the response in the JSON of a text; of several equally good values, the first."""
    if text.count("{") > MAX_BRACES:
        raise ResponseTooLarge("the text", f"{text.count('{')} opening braces", f"{MAX_BRACES} at most")
    try:
        found = extract_json(text, response_schema(), lenient=True)
    except NoJsonFound as refusal:
        raise NotWellFormed("the text", f"no JSON to read ({refusal})", "one JSON object") from refusal
    value = _first_answer(text, found.value, notes) if found.ambiguous else found.value
    if not isinstance(value, dict):
        raise UnexpectedContent("$", shown(value), "one JSON object")
    if not found.valid and found.source is Source.BARE and not value.keys() >= {"agent", "summary"}:
        raise NotWellFormed("the text", shown(value), "one JSON object with agent and summary")
    for edit in found.edits:
        notes.remark(RemarkKind.REPAIRED, "the text", edit)
    response = response_from_document(value)
    unknown = {(place, name): model for place, name, model in _unknown_names(value, AgentResponse)}
    for (place, name), model in islice(unknown.items(), MAX_NOTES):
        meant = get_close_matches(name[:80], model.model_fields, n=1)
        hint = f"; did you mean {meant[0]!r}?" if meant else ""
        notes.remark(RemarkKind.PASSED_OVER, below(place, name), f"an unknown name{hint}")
    return response


def _first_answer(text: str, last: JsonValue, notes: Notes) -> JsonValue:
    """Return the first of the equally good values, of which extraction chose the last."""
    schema = response_schema()
    is_valid = validity_under(schema)
    readings = [each for each in Reader(text, schema).read_values(survey(text).values) if is_valid(each.value)]
    ranks = {each.rank for each in readings if each.value == last}
    equals = [each for each in readings if each.rank in ranks]
    for other in equals[1:]:
        if other.value != equals[0].value:
            line = text.count("\n", 0, other.start) + 1
            notes.remark(RemarkKind.PASSED_OVER, f"line {line}", "another response; the first one is read")
    return equals[0].value if equals else last


def _unknown_names(
    given: object, model: type[BaseModel], place: str = DOCUMENT
) -> Iterator[tuple[str, str, type[BaseModel]]]:
    """Yield the path of the object, the name, and the model of the object for each unknown name."""
    for item in given if isinstance(given, list) else [given]:
        for name, part in item.items() if isinstance(item, dict) else ():
            if name not in model.model_fields:
                yield place, name, model
            elif name in _PARTS:
                yield from _unknown_names(part, _PARTS[name], f"{place}.{name}{'[*]' * isinstance(part, list)}")
