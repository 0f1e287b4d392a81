"""Base class and field types of wire documents: models are frozen and ignore unknown fields (SPEC 2.2, 3)."""

import re
from collections.abc import Callable, Iterator
from typing import Annotated, Final, NamedTuple, TypeAlias

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, ValidationError
from pydantic_core import ErrorDetails

from ao_protocol.framing import MAX_IDENTIFIER_BYTES, MAX_IDENTIFIER_CHARACTERS, MAX_SAFE_INTEGER, fits_in_events
from ao_protocol.json_path import path_to
from ao_protocol.json_words import missing, shown
from ao_protocol.short_text import shorten

JsonObject: TypeAlias = dict[str, JsonValue]
"""A JSON object, such as a payload that is passed on unchanged."""


def map_texts(document: JsonValue, change: Callable[[str], JsonValue]) -> JsonValue:
    """Return a copy of a JSON value with each text in it replaced by what `change` returns. Names of members stay."""
    match document:
        case str():
            return change(document)
        case dict():
            return {name: map_texts(member, change) for name, member in document.items()}
        case list():
            return [map_texts(item, change) for item in document]
        case _:
            return document


def _integral(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value


def _fitting(name: str) -> str:
    if not fits_in_events(name):
        raise ValueError(f"expected a name of at most {MAX_IDENTIFIER_BYTES} bytes as JSON")
    return name


Name = Annotated[str, Field(min_length=1)]
Identifier = Annotated[str, Field(min_length=1, max_length=MAX_IDENTIFIER_CHARACTERS), AfterValidator(_fitting)]
VersionText = Annotated[str, Field(pattern=r"^(0|[1-9][0-9]{0,5})\.(0|[1-9][0-9]{0,5})$")]
Integer = Annotated[int, Field(le=MAX_SAFE_INTEGER), BeforeValidator(_integral)]
"""An integer. A number with a zero fraction, such as 1.0, is accepted (SPEC 3, AOX-033)."""
Count = Annotated[int, Field(ge=0, le=MAX_SAFE_INTEGER), BeforeValidator(_integral)]
PositiveCount = Annotated[int, Field(ge=1, le=MAX_SAFE_INTEGER), BeforeValidator(_integral)]
EventBytes = Annotated[int, Field(ge=4096, le=MAX_SAFE_INTEGER), BeforeValidator(_integral)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]

MAX_SHOWN_CHARACTERS: Final = 80

_PYTHON_CLASS: Final = re.compile(r" or instance of \w+")
_IN_SINGLE_QUOTES: Final = re.compile(r"'([^'\"]*)'")


class WireModel(BaseModel):
    """Base of every document and part of a document."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, defer_build=True)


class ExecutorIdentity(WireModel):
    """Which program speaks."""

    name: Name
    version: Name


class InvalidDocument(ValueError):
    """A document of a known kind that is invalid, or a line that is not a JSON object.

    `problems` has the path and the message of each problem. `kind` is the name of the document for people.
    """

    kind = "document"

    def __init__(self, problems: list[str]) -> None:
        super().__init__(problems)
        self.problems = problems

    def __str__(self) -> str:
        return f"invalid {self.kind}: {'; '.join(self.problems)}"


class WrongField(NamedTuple):
    """An invalid field: its path, pydantic's type of the problem, what it should be, and the value if there is one.

    `missing` is the name of a field that the object at the path lacks.
    """

    path: str
    type: str
    message: str
    found: str = ""
    missing: str | None = None

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" + (f", found {self.found}" if self.found else "")


def problems_of(error: ValidationError, document: object) -> list[str]:
    """Return the path and the message of each invalid field: `$.seq: input should be …, found 0`."""
    return list(map(str, wrong_fields(error, document)))


def wrong_fields(error: ValidationError, document: object) -> Iterator[WrongField]:
    """Yield each invalid field of a document."""
    for problem in error.errors(include_url=False, include_context=False):
        path = path_to(_place(problem, document))
        message = _PYTHON_CLASS.sub("", problem["msg"]).removeprefix("Value error, ")
        if problem["type"] == "missing":
            name = str(problem["loc"][-1])
            yield WrongField(path, problem["type"], missing(name), missing=name)
            continue
        found = ""
        if problem["type"] != "value_error":
            message = _IN_SINGLE_QUOTES.sub(r'"\1"', message)
            found = shorten(shown(problem["input"]), MAX_SHOWN_CHARACTERS)
        yield WrongField(path, problem["type"], message[:1].lower() + message[1:], found)


def _place(problem: ErrorDetails, document: object) -> Iterator[str | int]:
    """Yield the parts of pydantic's location that exist in the document, without names of union alternatives.

    The place of a missing field is that of the object that lacks it (SPEC 6.3).
    """
    *above, last = problem["loc"] or ("",)
    for part in above:
        if _is_there(document, part):
            document = document[part]  # type: ignore[index]  # checked by _is_there
            yield part
    if _is_there(document, last):
        yield last


def _is_there(document: object, part: str | int) -> bool:
    if isinstance(document, list):
        return isinstance(part, int) and part < len(document)
    return isinstance(document, dict) and part in document
