"""The JSON form: what the published JSON Schema describes, written and read."""

from typing import Final

from ao_protocol.output.agent_response.model import AgentResponse, response_from_document
from ao_protocol.output.agent_response.plain_text import json_text
from ao_protocol.output.agent_response.published import response_schema
from ao_protocol.output.agent_response.refusals import NotWellFormed, UnexpectedContent
from ao_protocol.output.extraction import NoJsonFound, extract_json
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


def write_json(response: AgentResponse) -> str:
    """Return the response as indented JSON, without what it does not have."""
    document = response.model_dump(mode="json", exclude={"agent_specific"}, exclude_none=True)
    if not response.findings:
        del document["findings"]
    if response.agent_specific is not None:
        document["agent_specific"] = response.agent_specific
    return json_text(document)


def read_json(text: str) -> AgentResponse:
    """Return the response that the JSON in a text describes.

    Raises:
        NotWellFormed: the text gives no JSON value.
        UnexpectedContent: the value is no object.
        UnsupportedResponseVersion, InvalidResponse: as `response_from_document` says.
    """
    try:
        value = extract_json(text, response_schema()).value
    except NoJsonFound as refusal:
        raise NotWellFormed("the text", f"no JSON to read ({refusal})", "one JSON object") from refusal
    if not isinstance(value, dict):
        raise UnexpectedContent("$", shown(value), "one JSON object")
    return response_from_document(value)
