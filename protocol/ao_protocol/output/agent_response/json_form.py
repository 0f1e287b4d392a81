"""The JSON form: what the published JSON Schema describes, written and read."""

from typing import Final

from pydantic import JsonValue

from ao_protocol.output.agent_response.model import AgentResponse, response_from_document
from ao_protocol.output.agent_response.notes import Notes, RemarkKind
from ao_protocol.output.agent_response.plain_text import json_text
from ao_protocol.output.agent_response.published import response_schema
from ao_protocol.output.agent_response.refusals import NotWellFormed, ResponseTooLarge, UnexpectedContent
from ao_protocol.output.agent_response.unknown_names import remark_unknown_names
from ao_protocol.output.extraction import NoJsonFound, Source, extract_json
from ao_protocol.output.extraction.readings import Reader, validity_under
from ao_protocol.output.extraction.survey import survey
from ao_protocol.output.problems import shown

JSON_INSTRUCTIONS: Final = """\
Answer with one JSON object and nothing else, in this form:

{
  "agent": "your-name",
  "version": "1.0",
  "summary": "What you did, in one sentence",
  "findings": [
    {
      "priority": "P1",
      "location": "src/file.py:12",
      "issue": "What is wrong",
      "rationale": "Why it matters",
      "suggestion": "How to mend it"
    }
  ],
  "results": {
    "files": [{"path": "src/file.py", "relevance": "Why this file matters"}],
    "answer": "The direct answer to the question"
  },
  "error": "Why you could not do what was asked",
  "agent_specific": {"anything": "What only you have to say"}
}

Only agent and summary are required; leave out what does not apply. A priority is P1 (most important), P2 or P3."""

MAX_BRACES: Final = 1_000_000
"""Bounds time: each is looked at as the beginning of an object, and millions of them begin none."""


def write_json(response: AgentResponse) -> str:
    """Return the response as indented JSON, without what it does not have."""
    document = response.model_dump(mode="json", exclude={"agent_specific"}, exclude_none=True)
    if not response.findings:
        del document["findings"]
    if response.agent_specific is not None:
        document["agent_specific"] = response.agent_specific
    return json_text(document)


def read_json(text: str, notes: Notes) -> AgentResponse:
    """Return the response that the JSON in a text describes; of several that equally may be the answer, the first.

    Damage that leaves one reading only is mended, after strict reading has found nothing, and remarked.

    Raises:
        NotWellFormed: the text gives no JSON value, or in passing an object that is no response at all.
        UnexpectedContent: the value is no object.
        ResponseTooLarge: there are more than `MAX_BRACES` opening braces.
        UnsupportedResponseVersion, InvalidResponse: as `response_from_document` says.
    """
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
    remark_unknown_names(value, notes)
    return response


def _first_answer(text: str, last: JsonValue, notes: Notes) -> JsonValue:
    """Return the first of the values that extraction, which takes the last, found as good as that."""
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
