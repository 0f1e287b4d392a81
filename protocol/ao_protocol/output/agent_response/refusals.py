"""Why a text is refused as an agent's response: each says where, what was found and what was expected."""

from dataclasses import dataclass
from typing import Final

MAX_SHOWN_CHARACTERS: Final = 80
MAX_PROBLEMS_IN_A_SENTENCE: Final = 10


@dataclass(eq=False)
class AgentResponseError(ValueError):
    """Base of every refusal. `place` is a line of the text, an element, or a path such as `$.findings[0].issue`.

    `further` are the other problems of the same text, where reading could go on behind the first.
    """

    place: str
    found: str
    expected: str
    further: tuple["AgentResponseError", ...] = ()

    @property
    def problems(self) -> tuple["AgentResponseError", ...]:
        """All that is wrong, this one first."""
        return (self, *self.further)

    @property
    def sentence(self) -> str:
        """This problem alone, in words."""
        return f"{self.place}: found {self.found}, expected {self.expected}"

    def __str__(self) -> str:
        told = [problem.sentence for problem in self.problems[:MAX_PROBLEMS_IN_A_SENTENCE]]
        more = len(self.problems) - len(told)
        return "; ".join([*told, f"and {more} more"] if more else told)


class NoResponseFound(AgentResponseError):
    """The text holds a response in no form that is known."""


class NotWellFormed(AgentResponseError):
    """Something begins like a response and breaks the grammar of its form."""


class UnexpectedContent(AgentResponseError):
    """The text is well-formed, and something in it has no place there or is missing."""


class InvalidResponse(AgentResponseError):
    """The response was read, and its values do not fit the model."""


class UnsupportedResponseVersion(AgentResponseError):
    """The response is of a major version that is not read here, or its version is none."""


class UnsafeXml(AgentResponseError):
    """The XML declares a document type or an entity, or holds a processing instruction. Nothing of it was followed."""


class ResponseTooLarge(AgentResponseError):
    """The text is longer, or has more elements, than is read."""


class ResponseTooDeep(AgentResponseError):
    """The XML is nested deeper than is read."""


def excerpt(text: str) -> str:
    """Return a text in quotes, cut short."""
    return repr(text if len(text) <= MAX_SHOWN_CHARACTERS else text[:MAX_SHOWN_CHARACTERS] + "…")
