"""Attempts: what happens with each answer to an output contract. Text in; accept, ask again or give up out.

The one place that counts. Whoever owns the model session sends `AskAgain.prompt` in it and brings the next answer. The
result's `output` then says how the contract was met (SPEC 9.6).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias, assert_never

from ao_protocol.contracts.contract import (
    AgentResponseFormat,
    JsonFormat,
    OutputContract,
    ResponseForm,
    Strategy,
    ValidationMode,
)
from ao_protocol.contracts.problems import Problem
from ao_protocol.contracts.prompts import NativeOutput, missing_answer_feedback, native_schema, validation_feedback
from ao_protocol.contracts.validation import validate
from ao_protocol.errors import ErrorType
from ao_protocol.events import OutputSummary
from ao_protocol.extraction import NoJsonFound, Source, extract_json
from ao_protocol.json_path import ROOT

if TYPE_CHECKING:
    from pydantic import JsonValue


class Finding(Enum):
    """What is found out about one answer."""

    KEPT = "keeps the contract"
    BROKEN = "breaks the contract"
    CUT_OFF = "was cut off at the output limit"


@dataclass(frozen=True, slots=True)
class Assessment:
    """The finding, and what belongs to it: a value where the contract is kept, problems and a prompt otherwise."""

    finding: Finding
    value: "JsonValue" = None
    is_native: bool = False
    ambiguous: bool = False
    edits: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    prompt: str = ""


CUT_OFF: Final = Assessment(Finding.CUT_OFF, problems=(Problem(ROOT, "the answer was cut off at the output limit"),))


def assess(text: str, native: NativeOutput | None, contract: OutputContract) -> Assessment:
    """Judge an answer: the provider's structured output where there is one, else the text.

    Raises:
        InvalidSchema: the contract was made by hand, with a schema that cannot be enforced.
    """
    match contract.format:
        case JsonFormat(schema) if native is not None:
            is_wrapped = contract.strategy is Strategy.NATIVE
            value = native_schema(schema).unwrap(native.value) if is_wrapped else native.value
            return _judged(value, contract, schema, text, is_native=True)
        case JsonFormat(schema):
            return _assess_json(text, contract, schema)
        case AgentResponseFormat() if native is not None:
            problems = tuple(problems_of_data(native.value, contract.format))
            if problems:
                return _broken(problems, contract, text)
            return Assessment(Finding.KEPT, value=native.value, is_native=True)
        case AgentResponseFormat(form):
            return _assess_response(text, contract, form)
        case never:
            assert_never(never)


def not_assessed(reason: str, contract: OutputContract, text: str) -> Assessment:
    """Return what an answer is worth that nobody could judge: it is refused for that reason."""
    return _unreadable(reason, contract, text)


def problems_of_data(value: "JsonValue", demanded: JsonFormat | AgentResponseFormat) -> Sequence[Problem]:
    """Return what is wrong with a `result_data` under a format.

    Raises:
        InvalidSchema: the schema cannot be enforced.
    """
    match demanded:
        case JsonFormat(schema):
            return validate(value, schema)
        case AgentResponseFormat():
            from ao_protocol.agent_response import response_schema

            return validate(value, response_schema())
        case never:
            assert_never(never)


def _assess_json(text: str, contract: OutputContract, schema: Mapping[str, Any]) -> Assessment:
    try:
        extraction = extract_json(text, schema, lenient=contract.validation_mode is ValidationMode.LENIENT)
    except NoJsonFound as error:
        return _unreadable(str(error), contract, text)
    if extraction.source is not Source.WHOLE and (contract.strict_json_only or not contract.extract_json):
        return _unreadable("The answer holds other text than JSON, and only JSON is wanted", contract, text)
    return _judged(extraction.value, contract, schema, text, ambiguous=extraction.ambiguous, edits=extraction.edits)


def _judged(
    value: "JsonValue",
    contract: OutputContract,
    schema: Mapping[str, Any],
    text: str,
    **found: Any,  # noqa: ANN401  # the fields of an assessment that say how the value was found
) -> Assessment:
    problems = tuple(validate(value, schema))
    if problems:
        return _broken(problems, contract, text)
    return Assessment(Finding.KEPT, value=value, **found)


def _assess_response(text: str, contract: OutputContract, form: ResponseForm) -> Assessment:
    """Read the answer in the form that was asked for, and in no older one; what was repaired is told."""
    from ao_protocol.agent_response import (
        AgentResponseError,
        Form,
        NoResponseFound,
        RemarkKind,
        examine_response,
    )

    try:
        reading = examine_response(text, form=Form(form))
    except NoResponseFound as error:
        return _unreadable(str(error), contract, text)
    except AgentResponseError as error:
        problems = (_at(each.place, f"found {each.found}, expected {each.expected}") for each in error.problems)
        return _broken(tuple(problems), contract, text)
    older = tuple(_at(each.place, each.message) for each in reading.remarks if each.kind is RemarkKind.OLDER)
    if older:
        return _broken(older, contract, text)
    repairs = tuple(str(each) for each in reading.remarks if each.kind is RemarkKind.REPAIRED)
    return Assessment(Finding.KEPT, value=reading.response.model_dump(mode="json", exclude_none=True), edits=repairs)


def _at(place: str, message: str) -> Problem:
    """Return a problem whose path is one (SPEC 6.3); a line of the text is named in words."""
    return Problem(place, message) if place.startswith(ROOT) else Problem(ROOT, f"{place}: {message}")


def _unreadable(reason: str, contract: OutputContract, text: str) -> Assessment:
    return Assessment(
        Finding.BROKEN, problems=(Problem(ROOT, reason),), prompt=missing_answer_feedback(reason, contract, text)
    )


def _broken(problems: tuple[Problem, ...], contract: OutputContract, text: str) -> Assessment:
    return Assessment(Finding.BROKEN, problems=problems, prompt=validation_feedback(problems, contract, text))


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


RE_PROMPT: Final = "re_prompt"
FIRST_SENT: Final = MappingProxyType(
    {
        Strategy.PROMPT: "prompt",
        Strategy.SYSTEM_PROMPT: "system_prompt",
        Strategy.NATIVE: "native",
        Strategy.EXTRACT: "nothing",
    }
)
"""Where the demand stands when the model is asked for the first time."""


def summary_of(contract: OutputContract, outcome: Accepted) -> OutputSummary:
    """Return `result.output` for an answer that was accepted under a contract whose strategy has been chosen."""
    strategy = contract.strategy or Strategy.SYSTEM_PROMPT
    return OutputSummary(
        schema_source=contract.source,
        retry_count=outcome.retry_count,
        ambiguous=outcome.ambiguous,
        strategy=strategy,
        sent=[FIRST_SENT[strategy], *[RE_PROMPT] * outcome.retry_count],
        delivered_by="native" if outcome.is_native else "text",
        edits=list(outcome.edits) or None,
    )
