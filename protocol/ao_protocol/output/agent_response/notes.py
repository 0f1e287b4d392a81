"""What reading a response brings up: problems, which are told all at once, and remarks, which hinder nothing."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ao_protocol.output.agent_response.refusals import AgentResponseError

MAX_NOTES: Final = 50
"""Of each kind; a text of megabytes may be wrong in every line."""


class RemarkKind(StrEnum):
    """Why something is worth a remark."""

    REPAIRED = "repaired"
    """It breaks the grammar of its form and was read as the text that it can only be."""
    OLDER = "older"
    """It stands in a format that is no longer written."""
    PASSED_OVER = "passed_over"
    """It was not read."""


@dataclass(frozen=True, slots=True)
class Remark:
    """Something in a text that was read, and that its author should know."""

    kind: RemarkKind
    place: str
    message: str

    def __str__(self) -> str:
        return f"{self.place}: {self.message}"


class Notes:
    """Collects problems and remarks while a text is read; a reader goes on behind a problem where it can."""

    def __init__(self) -> None:
        self._problems: list[AgentResponseError] = []
        self._remarks: list[Remark] = []
        self._untold: dict[RemarkKind, int] = {}

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """The remarks as they came, and of each kind how many were too many to be kept."""
        more = (Remark(kind, "the text", f"{count} more are {kind}") for kind, count in self._untold.items())
        return (*self._remarks, *more)

    def refuse(self, problem: AgentResponseError) -> None:
        """Keep a problem.

        Raises:
            AgentResponseError: this is one more than are told.
        """
        self._problems.append(problem)
        if len(self._problems) >= MAX_NOTES:
            self.settle()

    def settle(self) -> None:
        """Let a text without problems pass.

        Raises:
            AgentResponseError: the first problem, with the others as its `further`.
        """
        if self._problems:
            first, *others = self._problems
            first.further = tuple(others)
            raise first

    def remark(self, kind: RemarkKind, place: str, message: str, count: int = 1) -> None:
        """Keep a remark, which stands for `count` of its kind."""
        if len(self._remarks) >= MAX_NOTES:
            self._untold[kind] = self._untold.get(kind, 0) + count
            return
        self._remarks.append(Remark(kind, place, message))
        if count > 1:
            self._untold[kind] = self._untold.get(kind, 0) + count - 1
