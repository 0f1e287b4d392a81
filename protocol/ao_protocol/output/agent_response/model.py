"""The response of an agent, whatever form it was written in.

A receiver takes any minor version of the major it knows and ignores what it does not know; another major is refused.
Texts are canonical (see `plain_text`), so that each of the three forms gives back what was written.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import BeforeValidator, Field, ValidationError, field_validator, model_validator

from ao_protocol.output.agent_response.notes import MAX_NOTES
from ao_protocol.output.agent_response.plain_text import canonical_line, canonical_optional_text, canonical_text
from ao_protocol.output.agent_response.refusals import InvalidResponse, UnsupportedResponseVersion
from ao_protocol.output.json_values import interoperability_problems
from ao_protocol.output.problems import shown
from ao_protocol.wire import JsonObject, WireModel, problems_of

CURRENT_VERSION: Final = "1.0"
UNKNOWN_AGENT: Final = "unknown"
"""The name of an agent whose answer, in an older format, does not give it."""
MAX_SPECIFIC_DEPTH: Final = 60
"""So that a response fits into an event, which has 64 levels (SPEC 3)."""

Priority: TypeAlias = Literal["P1", "P2", "P3"]
PRIORITIES: Final[tuple[Priority, ...]] = ("P1", "P2", "P3")


class Form(StrEnum):
    """How a response is written."""

    XML = "xml"
    JSON = "json"
    MARKDOWN = "markdown"


Text = Annotated[str, BeforeValidator(canonical_text)]
FilledText = Annotated[str, Field(min_length=1), BeforeValidator(canonical_text)]
OptionalText = Annotated[str | None, BeforeValidator(canonical_optional_text)]
Line = Annotated[str, BeforeValidator(canonical_line)]
FilledLine = Annotated[str, Field(min_length=1), BeforeValidator(canonical_line)]
ResponseVersion = Annotated[str, Field(pattern=r"^1\.(0|[1-9][0-9]{0,5})$")]

_VERSION: Final = re.compile(r"(0|[1-9][0-9]{0,5})\.(0|[1-9][0-9]{0,5})")
_KNOWN_MAJOR: Final = 1
_JSON_WORDS: Final = {"a valid string": "a text", "a valid list": "a list", "a valid dictionary": "an object"}


class Finding(WireModel):
    """Something that the agent found wrong. P1 weighs most; `location` is `file:line`, or empty where there is none."""

    priority: Priority
    location: Line
    issue: FilledText
    rationale: Text
    suggestion: OptionalText = None


class RelevantFile(WireModel):
    """A file that bears on the question, and how. A text alone is its path."""

    path: FilledLine
    relevance: Text = ""

    @model_validator(mode="before")
    @classmethod
    def _path_alone(cls, value: object) -> object:
        return {"path": value} if isinstance(value, str) else value


class Results(WireModel):
    """What was found out: files and a direct answer."""

    files: list[RelevantFile] = []
    answer: OptionalText = None


class AgentResponse(WireModel):
    """The response of an agent. `agent_specific` is the agent's own, any JSON object; `error` says why it failed."""

    agent: FilledLine
    version: ResponseVersion = CURRENT_VERSION
    summary: FilledText
    findings: list[Finding] = []
    results: Results | None = None
    error: OptionalText = None
    agent_specific: JsonObject | None = None

    @field_validator("agent_specific")
    @classmethod
    def _is_json_for_every_receiver(cls, value: JsonObject | None) -> JsonObject | None:
        for problem in interoperability_problems(value, MAX_SPECIFIC_DEPTH):
            raise ValueError(str(problem))
        return value


def response_from_document(document: Mapping[str, object]) -> AgentResponse:
    """Return the response that a document of JSON's types describes; its version is looked at first.

    Raises:
        UnsupportedResponseVersion: the version is none, or its major is another than 1.
        InvalidResponse: naming each value that does not fit.
    """
    check_version(document.get("version", CURRENT_VERSION), "$.version")
    try:
        return AgentResponse.model_validate(document)
    except ValidationError as error:
        first, *others = map(_refusal, problems_of(error, document)[:MAX_NOTES])
        first.further = tuple(others)
        raise first from error


def _refusal(problem: str) -> InvalidResponse:
    place, sentence = problem.split(": ", 1)
    rule, _, found = sentence.partition(", found ")
    if rule == "field required":
        return InvalidResponse(place, "nothing", "a value")
    if not found:
        return InvalidResponse(place, rule, "a value that every receiver reads alike")
    if rule.startswith("string should have at least 1"):
        return InvalidResponse(place, found, "a text that is not blank")
    rule = rule.removeprefix("input should be ")
    return InvalidResponse(place, found, _JSON_WORDS.get(rule, rule))


def check_version(version: object, place: str) -> None:
    """Let any minor of the known major pass.

    Raises:
        UnsupportedResponseVersion: what it is instead.
    """
    written = _VERSION.fullmatch(version) if isinstance(version, str) else None
    if written is None:
        raise UnsupportedResponseVersion(place, shown(version), f"a version as text, such as {CURRENT_VERSION!r}")
    if int(written[1]) != _KNOWN_MAJOR:
        raise UnsupportedResponseVersion(
            place, f"version {written[0]}", f"version {_KNOWN_MAJOR}.x, the only major version that is read here"
        )


def is_newer_minor(version: str) -> bool:
    """Tell whether a version that passed `check_version` may hold what is not known here."""
    return version != CURRENT_VERSION
