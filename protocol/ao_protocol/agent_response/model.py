"""The model of an agent's response for all forms, its published schemas, and the errors of its readers.

All texts are canonical, because XML 1.0 cannot represent most control characters and reads every line end as a line
feed. Line ends are line feeds. A character that XML cannot represent (a control character, a lone surrogate, U+FFFE,
U+FFFF) is U+FFFD. No blank (space, tab, line feed) is at either end. So each of the three forms returns what was
written.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files
from itertools import islice
from typing import Annotated, Final, Literal, TypeAlias, cast

from pydantic import BeforeValidator, Field, JsonValue, ValidationError, field_validator, model_validator

from ao_protocol.contracts.problems import interoperability_problems
from ao_protocol.json_words import shown
from ao_protocol.published import CURRENT_SCHEMAS
from ao_protocol.short_text import shorten
from ao_protocol.wire import JsonObject, WireModel, WrongField, wrong_fields

CURRENT_VERSION: Final = "1.0"
UNKNOWN_AGENT: Final = "unknown"
"""The name of an agent whose answer, in an older format, has no name."""
MAX_SPECIFIC_DEPTH: Final = 60
"""The maximum levels of `agent_specific`, so that a response fits into an event of 64 levels (SPEC 3)."""
BLANKS: Final = " \t\n"

Priority: TypeAlias = Literal["P1", "P2", "P3"]
PRIORITIES: Final[tuple[Priority, ...]] = ("P1", "P2", "P3")

PUBLISHED: Final = files("ao_protocol") / "schemas" / CURRENT_SCHEMAS / "agent_response"
"""The published schemas and instructions of the three forms (SPEC 9.8)."""
_UNWRITABLE: Final = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ESCAPED_IN_JSON: Final = re.compile("[\x7f-\x9f\u2028\u2029\ufffe\uffff]")
_VERSION: Final = re.compile(r"(0|[1-9][0-9]{0,5})\.(0|[1-9][0-9]{0,5})")
_EXPECTED: Final = {
    "value_error": "a value that every receiver reads alike",
    "string_too_short": "a text that is not blank",
    "string_type": "a text",
    "list_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
}
"""What is expected in the place of a wrong value, by pydantic's type of the problem."""

MAX_NOTES: Final = 50
"""The maximum number of problems and of remarks. A text of megabytes may have a problem in every line."""
MAX_PROBLEMS_IN_A_SENTENCE: Final = 10
MAX_SHOWN_CHARACTERS: Final = 80


class Form(StrEnum):
    """The form of a response."""

    XML = "xml"
    JSON = "json"
    MARKDOWN = "markdown"


@dataclass(eq=False)
class AgentResponseError(ValueError):
    """Base class of all refusals. `place` is a line of the text, an element, or a path such as `$.findings[0].issue`.

    `further` has the other problems of the same text, if reading could continue after the first.
    """

    place: str
    found: str
    expected: str
    further: tuple["AgentResponseError", ...] = ()

    @property
    def problems(self) -> tuple["AgentResponseError", ...]:
        """All problems of the text, this one first."""
        return (self, *self.further)

    @property
    def sentence(self) -> str:
        """This problem alone, as a sentence."""
        return f"{self.place}: found {self.found}, expected {self.expected}"

    def __str__(self) -> str:
        shown = [problem.sentence for problem in self.problems[:MAX_PROBLEMS_IN_A_SENTENCE]]
        more = len(self.problems) - len(shown)
        return "; ".join([*shown, f"and {more} more"] if more else shown)


class NoResponseFound(AgentResponseError):
    """The text contains no response in any known form."""


class NotWellFormed(AgentResponseError):
    """The text begins like a response but violates the grammar of its form."""


class UnexpectedContent(AgentResponseError):
    """The text is well-formed, but a part of it is missing, duplicated or not allowed."""


class InvalidResponse(AgentResponseError):
    """The values do not fit the model."""


class UnsupportedResponseVersion(AgentResponseError):
    """The response has another major version, or its version is malformed."""


class UnsafeXml(AgentResponseError):
    """The XML declares a document type or an entity, or contains a processing instruction. Nothing was followed."""


class ResponseTooLarge(AgentResponseError):
    """The text is longer, or has more elements, than the reader accepts."""


class ResponseTooDeep(AgentResponseError):
    """The XML is nested deeper than the reader accepts."""


class RemarkKind(StrEnum):
    """The reason for a remark on a part of a response."""

    REPAIRED = "repaired"
    """The part is not JSON, and was read with its only possible meaning."""
    OLDER = "older"
    """The part is in an older format."""
    PASSED_OVER = "passed_over"
    """The part was not read."""


@dataclass(frozen=True, slots=True)
class Remark:
    """A remark on a response for its author."""

    kind: RemarkKind
    place: str
    message: str

    def __str__(self) -> str:
        return f"{self.place}: {self.message}"


class Notes:
    """Collects problems and remarks while a text is read, so that reading continues after a problem."""

    def __init__(self) -> None:
        self.remarks: list[Remark] = []
        self._problems: list[AgentResponseError] = []

    def refuse(self, problem: AgentResponseError) -> None:
        """Add a problem, and raise all problems once they are `MAX_NOTES`."""
        self._problems.append(problem)
        if len(self._problems) >= MAX_NOTES:
            self.settle()

    def settle(self) -> None:
        """Raise the first problem, with the others as its `further`, if any."""
        if self._problems:
            first, *others = self._problems
            first.further = tuple(others)
            raise first

    def remark(self, kind: RemarkKind, place: str, message: str) -> None:
        """Add a remark, unless `MAX_NOTES` have been added."""
        if len(self.remarks) < MAX_NOTES:
            self.remarks.append(Remark(kind, place, message))


def excerpt(text: str) -> str:
    """Return a text in quotes, shortened."""
    return shown(shorten(text, MAX_SHOWN_CHARACTERS))


def readable(text: str) -> str:
    """Return a text with line feeds for line ends and U+FFFD for characters that XML cannot represent."""
    if text.isprintable():
        return text
    return _UNWRITABLE.sub("\ufffd", text.replace("\r\n", "\n").replace("\r", "\n"))


def json_text(value: JsonValue) -> str:
    """Return indented JSON with only those characters that XML and Markdown can represent."""
    text = json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False)
    return _ESCAPED_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _text(value: object) -> object:
    return readable(value).strip(BLANKS) if isinstance(value, str) else value


def _optional_text(value: object) -> object:
    return _text(value) or None if isinstance(value, str) else value


def _line(value: object) -> object:
    if not isinstance(value, str):
        return value
    lines = (line.strip(BLANKS) for line in readable(value).split("\n"))
    return " ".join(line for line in lines if line)


Text = Annotated[str, BeforeValidator(_text)]
FilledText = Annotated[str, Field(min_length=1), BeforeValidator(_text)]
OptionalText = Annotated[str | None, BeforeValidator(_optional_text)]
Line = Annotated[str, BeforeValidator(_line)]
FilledLine = Annotated[str, Field(min_length=1), BeforeValidator(_line)]
ResponseVersion = Annotated[str, Field(pattern=r"^1\.(0|[1-9][0-9]{0,5})$")]


class Finding(WireModel):
    """A problem that the agent found. P1 is the highest priority; `location` is `file:line`, or empty."""

    priority: Priority
    location: Line
    issue: FilledText
    rationale: Text
    suggestion: OptionalText = None


class RelevantFile(WireModel):
    """A file that matters to the question, with the reason. A string instead of an object is its path."""

    path: FilledLine
    relevance: Text = ""

    @model_validator(mode="before")
    @classmethod
    def _path_alone(cls, value: object) -> object:
        return {"path": value} if isinstance(value, str) else value


class Results(WireModel):
    """Files and a direct answer."""

    files: list[RelevantFile] = []
    answer: OptionalText = None


class AgentResponse(WireModel):
    """The response of an agent, which defines `agent_specific`, any JSON object. `error` is why the agent failed."""

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
    """Return the response that a JSON document describes.

    Raises:
        UnsupportedResponseVersion: The version is malformed, or its major version is not 1.
        InvalidResponse: A value does not fit. `problems` has one for each such value.
    """
    check_version(document.get("version", CURRENT_VERSION), "$.version")
    try:
        return AgentResponse.model_validate(document)
    except ValidationError as error:
        first, *others = map(_refusal, islice(wrong_fields(error, document), MAX_NOTES))
        first.further = tuple(others)
        raise first from error


def _refusal(field: WrongField) -> InvalidResponse:
    if field.missing is not None:
        return InvalidResponse(field.path, "nothing", f"{shown(field.missing)}, a required property")
    found = field.found or field.message
    return InvalidResponse(field.path, found, _EXPECTED.get(field.type, field.message.removeprefix("input should be ")))


def check_version(version: object, place: str) -> None:
    """Check that a version is any minor version of major version 1.

    Raises:
        UnsupportedResponseVersion: The version is malformed, or its major version is not 1.
    """
    written = _VERSION.fullmatch(version) if isinstance(version, str) else None
    if written is None:
        raise UnsupportedResponseVersion(place, shown(version), f"a version as text, such as {shown(CURRENT_VERSION)}")
    if written[1] != "1":
        expected = "version 1.x, the only major version that is read here"
        raise UnsupportedResponseVersion(place, f"version {written[0]}", expected)


def response_schema() -> JsonObject:
    """Return a copy of the JSON Schema (Draft 7) of the JSON form."""
    return cast("JsonObject", json.loads(_schema_text()))  # the published file is an object; a test reads it


def response_xsd() -> str:
    """Return the XML Schema (1.0) of the XML form, version 1.0."""
    return (PUBLISHED / "agent_response.xsd").read_text(encoding="utf-8")


@cache
def _schema_text() -> str:
    return (PUBLISHED / "agent_response.schema.json").read_text(encoding="utf-8")
