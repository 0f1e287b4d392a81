"""Attempts: what happens with each answer to an output contract. Text in; accept, ask again or give up out.

The one place that counts. Whoever owns the model session sends `AskAgain.prompt` in it and brings the next answer.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias, assert_never

from ao_protocol.errors import ErrorType
from ao_protocol.output.contract import OutputContract, ValidationMode
from ao_protocol.output.extraction import Extraction, NoJsonFound, Source, extract_json
from ao_protocol.output.feedback import missing_answer_feedback, validation_feedback
from ao_protocol.output.problems import Problem
from ao_protocol.output.validation import validate
from ao_protocol.places import ROOT

if TYPE_CHECKING:
    from pydantic import JsonValue


@dataclass(frozen=True, slots=True)
class Accepted:
    """The answer keeps the contract. `value` is for `result_data`, the rest for `result.output`.

    `ambiguous` tells that the answer held other valid values too; `edits` what lenient reading read over.
    """

    value: "JsonValue"
    retry_count: int
    ambiguous: bool
    edits: tuple[str, ...] = ()


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


class Finding(Enum):
    """What is found out about one answer."""

    KEPT = "keeps the contract"
    BROKEN = "breaks the contract"
    CUT_OFF = "was cut off at the output limit"


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

    def judge(self, text: str, *, truncated: bool = False) -> Outcome:
        """Take the model's whole answer to the last prompt and say what happens next.

        `truncated` tells that the model stopped at its output limit, whatever the text looks like.

        Raises:
            AlreadyDecided: an earlier answer was accepted or given up on.
            InvalidSchema: the contract was made by hand, with a schema that cannot be enforced.
        """
        if self._decided:
            raise AlreadyDecided(self._attempt)
        self._attempt += 1
        assessment = _CUT_OFF if truncated else _assess(text, self._contract)
        move = MOVES[assessment.finding, self._budget]
        self._decided = move is not Move.ASK_AGAIN
        return self._outcome(move, assessment)

    @property
    def _retries_left(self) -> int:
        return self._contract.max_retries - self._attempt + 1

    @property
    def _budget(self) -> Budget:
        return Budget.LEFT if self._retries_left > 0 else Budget.SPENT

    def _outcome(self, move: Move, assessment: "_Assessment") -> Outcome:
        match move:
            case Move.ACCEPT:
                return Accepted(assessment.value, self._attempt - 1, assessment.ambiguous, assessment.edits)
            case Move.ASK_AGAIN:
                return AskAgain(assessment.prompt, assessment.problems, self._retries_left, self._attempt)
            case Move.GIVE_UP:
                is_cut_off = assessment.finding is Finding.CUT_OFF
                error_type = ErrorType.OUTPUT_TRUNCATED if is_cut_off else self._contract.error_type
                return GiveUp(assessment.problems, self._attempt, error_type)
            case never:
                assert_never(never)


@dataclass(frozen=True, slots=True)
class _Assessment:
    """What one answer is worth: a value where the contract is kept, problems and a prompt where it is broken."""

    finding: Finding
    value: "JsonValue" = None
    ambiguous: bool = False
    edits: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    prompt: str = ""


_CUT_OFF: Final = _Assessment(Finding.CUT_OFF, problems=(Problem(ROOT, "the answer was cut off at the output limit"),))


def _assess(text: str, contract: OutputContract) -> _Assessment:
    try:
        extraction = extract_json(text, contract.schema, lenient=contract.validation_mode is ValidationMode.LENIENT)
    except NoJsonFound as error:
        return _unreadable(str(error), contract)
    if extraction.source is not Source.WHOLE and (contract.strict_json_only or not contract.extract_json):
        return _unreadable("The answer holds other text than JSON, and only JSON is wanted", contract)
    return _assess_value(extraction, contract)


def _assess_value(extraction: Extraction, contract: OutputContract) -> _Assessment:
    problems = tuple(validate(extraction.value, contract.schema))
    if problems:
        return _Assessment(Finding.BROKEN, problems=problems, prompt=validation_feedback(problems, contract.schema))
    return _Assessment(Finding.KEPT, value=extraction.value, ambiguous=extraction.ambiguous, edits=extraction.edits)


def _unreadable(reason: str, contract: OutputContract) -> _Assessment:
    return _Assessment(
        Finding.BROKEN,
        problems=(Problem(ROOT, reason),),
        prompt=missing_answer_feedback(reason, contract.schema),
    )
