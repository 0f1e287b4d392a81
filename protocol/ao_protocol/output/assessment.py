"""What one answer is worth under an output contract: a value where it is kept, problems where it is broken."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, assert_never

from ao_protocol.json_path import ROOT
from ao_protocol.output.contract import AgentResponseFormat, JsonFormat, OutputContract, ResponseForm
from ao_protocol.output.extraction import NoJsonFound, Source, extract_json
from ao_protocol.output.feedback import missing_answer_feedback, validation_feedback
from ao_protocol.output.native import NativeOutput, native_schema
from ao_protocol.output.options import Strategy, ValidationMode
from ao_protocol.output.problems import Problem
from ao_protocol.output.validation import validate

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
            from ao_protocol.output.agent_response import response_schema

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
    from ao_protocol.output.agent_response import (
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
