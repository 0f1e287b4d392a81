"""Attempts: what happens with each answer to an output contract. Text in; accept, ask again or give up out.

The one place that counts. Whoever owns the model session sends `AskAgain.prompt` in it and brings the next answer.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias, assert_never

from ao_protocol.errors import ErrorType
from ao_protocol.output.assessment import CUT_OFF, Assessment, Finding, assess
from ao_protocol.output.contract import OutputContract
from ao_protocol.output.native import NativeOutput
from ao_protocol.output.problems import Problem

if TYPE_CHECKING:
    from pydantic import JsonValue


@dataclass(frozen=True, slots=True)
class Accepted:
    """The answer keeps the contract. `value` is for `result_data`, the rest for `result.output`.

    `ambiguous` tells that the answer held other valid values too; `edits` what lenient reading read over; `is_native`
    that the value is the provider's structured output and not read from text.
    """

    value: "JsonValue"
    retry_count: int
    ambiguous: bool
    edits: tuple[str, ...] = ()
    is_native: bool = False


@dataclass(frozen=True, slots=True)
class AskAgain:
    """The answer was refused: send `prompt` in the same model session. `attempt` counts answers from 1."""

    prompt: str
    problems: tuple[Problem, ...]
    retries_left: int
    attempt: int


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The contract will not be kept: a `failure` with this `error_type` and the problems as `validation_errors`."""

    problems: tuple[Problem, ...]
    attempt: int
    error_type: ErrorType

    @property
    def message(self) -> str:
        """Return the failure's sentence."""
        if self.error_type is ErrorType.OUTPUT_TRUNCATED:
            return "Output was cut off at the output limit; asking again would end at the same limit"
        retries = self.attempt - 1
        return f"Output did not match schema after {retries} {'retry' if retries == 1 else 'retries'}"


Outcome: TypeAlias = Accepted | AskAgain | GiveUp


class Budget(Enum):
    """Whether the model may be asked again."""

    LEFT = "retries left"
    SPENT = "no retry left"


class Move(Enum):
    """What happens next."""

    ACCEPT = "accept"
    ASK_AGAIN = "ask again"
    GIVE_UP = "give up"


MOVES: Final[Mapping[tuple[Finding, Budget], Move]] = MappingProxyType(
    {
        (Finding.KEPT, Budget.LEFT): Move.ACCEPT,
        (Finding.KEPT, Budget.SPENT): Move.ACCEPT,
        (Finding.BROKEN, Budget.LEFT): Move.ASK_AGAIN,
        (Finding.BROKEN, Budget.SPENT): Move.GIVE_UP,
        # The same limit fails the same way again.
        (Finding.CUT_OFF, Budget.LEFT): Move.GIVE_UP,
        (Finding.CUT_OFF, Budget.SPENT): Move.GIVE_UP,
    }
)


@dataclass(eq=False)
class AlreadyDecided(RuntimeError):
    """An answer was brought after the contract had been kept or given up."""

    attempt: int

    def __str__(self) -> str:
        return f"attempt {self.attempt} has settled the contract; a new run needs a new Enforcement"


class Enforcement:
    """One run's attempts to keep its output contract; a new run, a resume as well, starts a new one."""

    def __init__(self, contract: OutputContract) -> None:
        self._contract = contract
        self._attempt = 0
        self._decided = False

    def judge(self, text: str, *, truncated: bool = False, native: NativeOutput | None = None) -> Outcome:
        """Take the model's whole answer to the last prompt and say what happens next.

        `truncated` tells that the model stopped at its output limit, whatever the text looks like. `native` is the
        provider's structured output, where it gave any; without it the text is the answer, whatever the strategy was.

        Raises:
            AlreadyDecided: an earlier answer was accepted or given up on.
            InvalidSchema: the contract was made by hand, with a schema that cannot be enforced.
        """
        if self._decided:
            raise AlreadyDecided(self._attempt)
        return self.decide(CUT_OFF if truncated else assess(text, native, self._contract))

    def decide(self, assessment: Assessment) -> Outcome:
        """Take what the next answer was found to be worth, and say what happens next.

        Raises:
            AlreadyDecided: an earlier answer was accepted or given up on.
        """
        if self._decided:
            raise AlreadyDecided(self._attempt)
        self._attempt += 1
        move = MOVES[assessment.finding, self._budget]
        self._decided = move is not Move.ASK_AGAIN
        return self._outcome(move, assessment)

    @property
    def _retries_left(self) -> int:
        return self._contract.max_retries - self._attempt + 1

    @property
    def _budget(self) -> Budget:
        return Budget.LEFT if self._retries_left > 0 else Budget.SPENT

    def _outcome(self, move: Move, assessment: Assessment) -> Outcome:
        match move:
            case Move.ACCEPT:
                return Accepted(
                    assessment.value,
                    self._attempt - 1,
                    assessment.ambiguous,
                    assessment.edits,
                    is_native=assessment.is_native,
                )
            case Move.ASK_AGAIN:
                return AskAgain(assessment.prompt, assessment.problems, self._retries_left, self._attempt)
            case Move.GIVE_UP:
                is_cut_off = assessment.finding is Finding.CUT_OFF
                error_type = ErrorType.OUTPUT_TRUNCATED if is_cut_off else self._contract.error_type
                return GiveUp(assessment.problems, self._attempt, error_type)
            case never:
                assert_never(never)
