"""The JSON form: what the published JSON Schema describes, written and read."""

from collections.abc import Iterator
from difflib import get_close_matches
from itertools import islice
from typing import Final

from pydantic import BaseModel, JsonValue

from ao_protocol.agent_response.model import (
    AgentResponse,
    Finding,
    RelevantFile,
    Results,
    json_text,
    response_from_document,
    response_schema,
)
from ao_protocol.agent_response.response_errors import (
    MAX_NOTES,
    Notes,
    NotWellFormed,
    RemarkKind,
    ResponseTooLarge,
    UnexpectedContent,
)
from ao_protocol.contracts.problems import shown
from ao_protocol.extraction import NoJsonFound, Source, extract_json
from ao_protocol.extraction.extract import Reader, validity_under
from ao_protocol.extraction.survey import survey
from ao_protocol.json_path import ROOT, below

MAX_BRACES: Final = 1_000_000
"""Bounds time: each is looked at as the beginning of an object."""

_PARTS: Final[dict[str, type[BaseModel]]] = {"findings": Finding, "results": Results, "files": RelevantFile}


def write_json(response: AgentResponse) -> str:
    """Return the response as indented JSON, without empty fields."""
    document = response.model_dump(mode="json", exclude={"agent_specific"}, exclude_none=True)
    if not response.findings:
        del document["findings"]
    if response.agent_specific is not None:
        document["agent_specific"] = response.agent_specific
    return json_text(document)


def read_json(text: str, notes: Notes) -> AgentResponse:
    """Return the response that the JSON in a text describes; of several equally good values, the first."""
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
    """Return the first of the values among which extraction chose the last."""
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
    given: object, model: type[BaseModel], place: str = ROOT
) -> Iterator[tuple[str, str, type[BaseModel]]]:
    """Yield each name that is not read, after the place of its object and before the model of it."""
    fields = model.model_fields
    for item in given if isinstance(given, list) else [given]:
        for name, part in item.items() if isinstance(item, dict) else ():
            if name not in fields:
                yield place, name, model
            elif name in _PARTS:
                yield from _unknown_names(part, _PARTS[name], f"{place}.{name}{'[*]' * isinstance(part, list)}")
