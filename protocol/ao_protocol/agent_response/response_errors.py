"""Why a text is refused as a response, and what its author should know about a response that was read."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

MAX_NOTES: Final = 50
"""Problems of one text, and remarks: a text of megabytes may be wrong in every line."""
MAX_PROBLEMS_IN_A_SENTENCE: Final = 10
MAX_SHOWN_CHARACTERS: Final = 80


@dataclass(eq=False)
class AgentResponseError(ValueError):
    """Base of all refusals. `place` is a line of the text, an element, or a path such as `$.findings[0].issue`.

    `further` are the other problems of the same text, if reading could continue after the first.
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
        """This problem alone, in words."""
        return f"{self.place}: found {self.found}, expected {self.expected}"

    def __str__(self) -> str:
        shown = [problem.sentence for problem in self.problems[:MAX_PROBLEMS_IN_A_SENTENCE]]
        more = len(self.problems) - len(shown)
        return "; ".join([*shown, f"and {more} more"] if more else shown)


class NoResponseFound(AgentResponseError):
    """The text contains no response in any known form."""


class NotWellFormed(AgentResponseError):
    """The text begins like a response and violates the grammar of its form."""


class UnexpectedContent(AgentResponseError):
    """The text is well-formed, but something is missing, duplicated or not allowed there."""


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
    """Why a part of a response deserves a remark."""

    REPAIRED = "repaired"
    """It is not JSON, and was read in the only way that it can be meant."""
    OLDER = "older"
    """It is in an older format."""
    PASSED_OVER = "passed_over"
    """It was not read."""


@dataclass(frozen=True, slots=True)
class Remark:
    """Something in a response that its author should know."""

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
        """Keep a problem; raise them all when there are `MAX_NOTES`."""
        self._problems.append(problem)
        if len(self._problems) >= MAX_NOTES:
            self.settle()

    def settle(self) -> None:
        """Raise the first problem, with the others as its `further`, unless there is none."""
        if self._problems:
            first, *others = self._problems
            first.further = tuple(others)
            raise first

    def remark(self, kind: RemarkKind, place: str, message: str) -> None:
        """Keep a remark, unless there are `MAX_NOTES` already."""
        if len(self.remarks) < MAX_NOTES:
            self.remarks.append(Remark(kind, place, message))


def excerpt(text: str) -> str:
    """Return a text in quotes, cut short."""
    return repr(text if len(text) <= MAX_SHOWN_CHARACTERS else text[:MAX_SHOWN_CHARACTERS] + "…")
