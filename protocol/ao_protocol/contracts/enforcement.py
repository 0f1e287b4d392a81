"""Enforcement of an output contract: the demand, the assessment of answers, and retries (SPEC 9.6).

Only this module counts attempts. The owner of the model session sends `AskAgain.prompt` in it and brings the next
answer. The result's `output` reports how the contract was met.

The prompts of retries were measured on real models. They name the reason and at most ten errors with shortened values,
ask for the answer and not for the schema, and allow the model to decline. Otherwise a model invents placeholders that
validate.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ao_protocol.contracts.checks import validate
from ao_protocol.contracts.contract import (
    AgentResponseFormat,
    Ambiguity,
    JsonFormat,
    NativeSchema,
    OutputContract,
    OutputFormat,
    ResponseForm,
    Strategy,
    ValidationMode,
    native_schema,
)
from ao_protocol.contracts.problems import Problem
from ao_protocol.errors import ErrorType
from ao_protocol.json_path import ROOT
from ao_protocol.json_words import shown
from ao_protocol.short_text import shorten, shorten_line

if TYPE_CHECKING:
    from pydantic import JsonValue

    from ao_protocol.events import OutputSummary

MAX_LISTED_PROBLEMS: Final = 10
MAX_PROBLEM_CHARACTERS: Final = 400
MAX_ERROR_BYTES: Final = 4096
MAX_SCHEMA_BYTES: Final = 8192
"""A larger schema is not repeated if it is already in the instructions of the model."""
MAX_ANSWER_CHARACTERS: Final = 2000

_JSON_DEMAND: Final = """\
You MUST provide structured output as JSON conforming to this schema:

{schema}

Your response MUST be valid JSON that matches this schema exactly. Output ONLY the JSON, no additional text."""
_FRAME: Final = """\
<output-validation-error>
{reason}

{sections}

{request}
If what was asked cannot be answered in this form, do not invent values: say in plain words why it cannot.
</output-validation-error>"""
_ONLY_JSON: Final = "Answer again with only the JSON: no other text, and not the schema itself."
_ONLY_THE_FORM: Final = "Answer again, with only the corrected answer in the required form."
_ABOVE: Final = 'The required {what} is the one under "Required Output Format" in your instructions.'
_BACKTICKS: Final = re.compile(r"`+")
_CALL_AGAIN: Final = "Submit the corrected answer with the tool submit_answer."
_OF_THE_TOOL: Final = "The required schema is that of the input of the tool submit_answer."
_NO_CALL: Final = "Do not call submit_answer again."
_IN_WORDS: Final = "in_words"
_CALLS_BEFORE_WORDS: Final = 2
"""After so many answers that do not fit, a model is asked for its answer as text and not for a call."""
_CLOSING_TAG: Final = re.compile(r"<(?=/output-validation-error)", re.IGNORECASE)


def enrich(prompt: str | None, demanded: OutputFormat) -> str:
    """Return a prompt with the output format as its last section (AOX-166).

    The prompt itself, system or user, is unchanged, with two line ends after it. If it is absent or blank, the section
    is alone. A schema is a JSON document in a fence, indented by two spaces, with non-ASCII characters unescaped.
    """
    section = f"## Required Output Format\n\n{_demand_text(demanded)}"
    return section if prompt is None or not prompt.strip() else f"{prompt}\n\n{section}"


def _demand_text(demanded: OutputFormat) -> str:
    if isinstance(demanded, JsonFormat):
        return _JSON_DEMAND.format(schema=_fenced_schema(demanded.schema))
    from ao_protocol.agent_response import Form, instructions_for

    return instructions_for(Form(demanded.form))


def _fenced_schema(schema: Mapping[str, Any]) -> str:
    return _fenced(json.dumps(schema, indent=2, ensure_ascii=False), "json")


def _fenced(text: str, language: str) -> str:
    """Return a text in a fence that no run of backticks in it can close (CommonMark 4.5)."""
    fence = "`" * max(3, max(map(len, _BACKTICKS.findall(text)), default=0) + 1)
    return f"{fence}{language}\n{text}\n{fence}"


@dataclass(frozen=True, slots=True)
class NativeOutput:
    """Data beside the text: structured output of a provider or of an executor."""

    value: "JsonValue"


@dataclass(frozen=True, slots=True)
class Assessment:
    """The verdict on an answer: its value if it fits the contract, otherwise problems and the prompt to ask again."""

    value: "JsonValue" = None
    is_native: bool = False
    ambiguous: bool = False
    edits: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    prompt: str = ""
    is_cut_off: bool = False
    """Whether the model stopped at its output limit. Then nothing is asked again: the same limit would apply."""


CUT_OFF: Final = Assessment(problems=(Problem(ROOT, "the answer was cut off at the output limit"),), is_cut_off=True)


def assess(text: str, native: NativeOutput | None, contract: OutputContract) -> Assessment:
    """Return the assessment of an answer: of the provider's structured output if present, otherwise of the text.

    Raises:
        InvalidSchema: The contract was created by hand, with a schema that is not acceptable.
    """
    demanded = contract.format
    if native is not None:
        value = native.value
        if isinstance(demanded, JsonFormat) and contract.strategy is Strategy.NATIVE:
            value = native_schema(demanded.schema).unwrap(value)
        return _judged(value, contract, text, is_native=True)
    if isinstance(demanded, AgentResponseFormat):
        return _assess_response(text, contract, demanded.form)
    from ao_protocol.extraction import NoJsonFound, Source, extract_json  # no run needs it before its first answer

    try:
        extraction = extract_json(text, demanded.schema, lenient=contract.validation_mode is ValidationMode.LENIENT)
    except NoJsonFound as error:
        return not_assessed(str(error), contract, text, error.near)
    if extraction.source is not Source.WHOLE and (contract.strict_json_only or not contract.extract_json):
        from ao_protocol.extraction.damage import refusal_at
        from ao_protocol.extraction.strict_json import Reason, skim_container

        at = len(text) - len(text.lstrip())
        at = skim_container(text, at).end if text.startswith(("{", "["), at) else at
        refusal = refusal_at(Reason.NOT_ONLY_JSON, text, at)
        return not_assessed(str(refusal), contract, text, refusal.near)
    if extraction.ambiguous and contract.ambiguous is Ambiguity.REFUSE:
        other = shown(extraction.others[0]) if extraction.others else "one that breaks off"
        found = f"found {shown(extraction.value)} and {other}"
        two = Problem(ROOT, "two values may be meant; answer with one and no other JSON", excerpt=found)
        return _broken((two,), contract, text)
    return _judged(extraction.value, contract, text, ambiguous=extraction.ambiguous, edits=extraction.edits)


def submission_schema(schema: Mapping[str, Any]) -> NativeSchema:
    """Return the input schema of the tool `submit_answer` (SPEC 9.9)."""
    return native_schema(schema, "answer")


def problems_of_data(value: "JsonValue", demanded: OutputFormat) -> Sequence[Problem]:
    """Return the problems of a `result_data` under a format.

    Raises:
        InvalidSchema: The schema is not acceptable.
    """
    if isinstance(demanded, JsonFormat):
        return validate(value, demanded.schema)
    from ao_protocol.agent_response import response_schema

    return validate(value, response_schema())


def _judged(
    value: "JsonValue",
    contract: OutputContract,
    text: str,
    **found: Any,  # noqa: ANN401  # fields of an assessment about how the value was found
) -> Assessment:
    problems = tuple(problems_of_data(value, contract.format))
    return _broken(problems, contract, text) if problems else Assessment(value=value, **found)


def _assess_response(text: str, contract: OutputContract, form: ResponseForm) -> Assessment:
    """Return the assessment of a response in the required form only. The edits list its repairs."""
    from ao_protocol.agent_response import AgentResponseError, Form, NoResponseFound, RemarkKind, examine_response

    try:
        reading = examine_response(text, form=Form(form))
    except NoResponseFound as error:
        return not_assessed(str(error), contract, text)
    except AgentResponseError as error:
        found = [(each.place, f"found {each.found}, expected {each.expected}") for each in error.problems]
    else:
        found = [(each.place, each.message) for each in reading.remarks if each.kind is RemarkKind.OLDER]
        if not found:
            value = reading.response.model_dump(mode="json", exclude_none=True)
            repairs = tuple(str(each) for each in reading.remarks if each.kind is RemarkKind.REPAIRED)
            return Assessment(value=value, edits=repairs)
    # A problem needs a path (SPEC 6.3), so a line of the text is named in the message.
    problems = (Problem(*each) if each[0].startswith(ROOT) else Problem(ROOT, ": ".join(each)) for each in found)
    return _broken(tuple(problems), contract, text)


def not_assessed(reason: str, contract: OutputContract, text: str, near: str = "") -> Assessment:
    """Return the assessment of an answer that cannot be read or validated. It is rejected for this reason."""
    problem = Problem(ROOT, reason, excerpt=f"near {near}" if near else "")
    return Assessment(problems=(problem,), prompt=missing_answer_feedback(problem, contract, text))


def _broken(problems: tuple[Problem, ...], contract: OutputContract, text: str) -> Assessment:
    return Assessment(problems=problems, prompt=validation_feedback(problems, contract, text))


def validation_feedback(problems: Sequence[Problem], contract: OutputContract, answer: str) -> str:
    """Return the prompt that asks again after an answer that does not fit its contract.

    The errors take about 4 KB at most. The first one is always listed, and the number of omitted ones is given. Under a
    caller's contract the prompt also has the answer, shortened. No quotation can close the `<output-validation-error>`
    around it.
    """
    what = "schema" if isinstance(contract.format, JsonFormat) else "form"
    return _framed(f"Your output did not match the required {what}.", problems, contract, answer)


def missing_answer_feedback(problem: Problem, contract: OutputContract, answer: str) -> str:
    """Return the prompt that asks again after a text without a readable answer, with the reason."""
    what = "as the required JSON" if isinstance(contract.format, JsonFormat) else "in the required form"
    return _framed(f"Your output could not be read {what}.", [problem], contract, answer)


def _framed(reason: str, problems: Sequence[Problem], contract: OutputContract, answer: str) -> str:
    sections = ["\n".join(["## Validation Errors", *map(_enclosed, _error_lines(problems))])]
    answer = answer.strip()
    if contract.is_callers and answer:
        more = len(answer) - MAX_ANSWER_CHARACTERS
        shown = shorten(answer, MAX_ANSWER_CHARACTERS) + (f"\n({more} more characters)" if more > 0 else "")
        sections.append(f"## Your Previous Answer\n{_enclosed(_fenced(shown, 'text'))}")
    sections.append(_demand_again(contract))
    request = _ONLY_JSON if isinstance(contract.format, JsonFormat) else _ONLY_THE_FORM
    if contract.strategy is Strategy.TOOL:
        request = _CALL_AGAIN
    elif contract.strategy == _IN_WORDS:
        request = f"{_NO_CALL} {request}"
    return _FRAME.format(reason=reason, sections="\n\n".join(sections), request=request)


def _error_lines(problems: Sequence[Problem]) -> Iterator[str]:
    room = MAX_ERROR_BYTES
    listed = 0
    for problem in problems[:MAX_LISTED_PROBLEMS]:
        excerpt = f" ({problem.excerpt})" if problem.excerpt else ""
        line = shorten_line(f"- {problem}{excerpt}", MAX_PROBLEM_CHARACTERS)
        room -= len(line.encode(errors="replace")) + 1
        if listed and room < 0:
            break
        listed += 1
        yield line
    if len(problems) > listed:
        yield f"- and {len(problems) - listed} more"


def _demand_again(contract: OutputContract) -> str:
    if contract.strategy is Strategy.TOOL:
        return _OF_THE_TOOL
    stands_above = contract.strategy in {Strategy.PROMPT, Strategy.SYSTEM_PROMPT}
    if isinstance(contract.format, JsonFormat):
        schema = _fenced_schema(contract.format.schema)
        if stands_above and len(schema.encode()) > MAX_SCHEMA_BYTES:
            return _ABOVE.format(what="schema")
        return f"## Required Schema\n{_enclosed(schema)}"
    if stands_above:
        return _ABOVE.format(what="form")
    return f"## Required Form\n{_enclosed(_demand_text(contract.format))}"


def _enclosed(text: str) -> str:
    # In JSON `<\/` is `</`, so the schema has the same meaning.
    return _CLOSING_TAG.sub(r"<\\", text)


@dataclass(frozen=True, slots=True)
class Accepted:
    """The answer fits the contract. `value` is for `result_data`, the other fields are for `result.output`.

    `ambiguous` is true if the answer has other valid values, too. `edits` are the repairs of lenient reading.
    `is_native` is true if the value is structured output of the provider and was not read from the text, `is_submitted`
    if it is the input of a call of `submit_answer`. `rejected_calls` are the retries that were no request in words.
    """

    value: "JsonValue"
    retry_count: int
    ambiguous: bool
    edits: tuple[str, ...] = ()
    is_native: bool = False
    is_submitted: bool = False
    rejected_calls: int = 0


@dataclass(frozen=True, slots=True)
class AskAgain:
    """The answer was rejected: send `prompt` in the same model session. `attempt` counts answers from 1."""

    prompt: str
    problems: tuple[Problem, ...]
    retries_left: int
    attempt: int


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The run fails: a `failure` with this `error_type`, and the problems as `validation_errors`."""

    problems: tuple[Problem, ...]
    attempt: int
    error_type: ErrorType

    @property
    def message(self) -> str:
        """The `error.message` of the failure."""
        if self.error_type is ErrorType.OUTPUT_TRUNCATED:
            return "Output was cut off at the output limit; asking again would end at the same limit"
        retries = self.attempt - 1
        return f"Output did not match schema after {retries} {'retry' if retries == 1 else 'retries'}"


Outcome: TypeAlias = Accepted | AskAgain | GiveUp


class AlreadyDecided(RuntimeError):
    """An answer was brought after the contract had been met or given up."""


class Enforcement:
    """The attempts of one run to fit its output contract. Each run, also a resume, needs a new one."""

    def __init__(self, contract: OutputContract) -> None:
        self._contract = contract
        self._attempt = 0
        self._rejected_calls = 0
        self._decided = False

    def judge(self, text: str, *, truncated: bool = False, native: NativeOutput | None = None) -> Outcome:
        """Return the next step after the model's whole answer to the last prompt.

        Args:
            text: The text of the answer.
            truncated: Whether the model stopped at its output limit, whatever the text looks like.
            native: The provider's structured output, if any. Without it the text is the answer, under every strategy.

        Raises:
            AlreadyDecided: An earlier answer was accepted or given up.
            InvalidSchema: The contract was created by hand, with a schema that is not acceptable.
        """
        self._check_undecided()
        return self.decide(CUT_OFF if truncated else assess(text, native, self._asked))

    def submit(self, given: "JsonValue") -> Outcome:
        """Return the next step after a call of `submit_answer` with the input `given` (SPEC 9.9).

        Raises:
            AlreadyDecided: An earlier answer was accepted or given up.
            InvalidSchema: The contract was created by hand, with a schema that is not acceptable.
        """
        assert isinstance(self._contract.format, JsonFormat), "the strategy `tool` has a schema"  # noqa: S101
        value = submission_schema(self._contract.format.schema).unwrap(given)
        return self._submitted(_judged(value, self._asked, json.dumps(value, ensure_ascii=False)))

    def refuse(self, reason: str) -> Outcome:
        """Return the next step after a call of `submit_answer` that the agent itself has refused.

        Raises:
            AlreadyDecided: An earlier answer was accepted or given up.
        """
        return self._submitted(not_assessed(shorten_line(reason, MAX_PROBLEM_CHARACTERS), self._asked, ""))

    def _submitted(self, assessment: Assessment) -> Outcome:
        outcome = self.decide(assessment)
        if isinstance(outcome, Accepted):
            return replace(outcome, is_submitted=True)
        self._rejected_calls += 1
        return outcome

    @property
    def _asked(self) -> OutputContract:
        """The contract as the model is asked again to meet it: after calls in vain, in words."""
        in_words = self._contract.strategy is Strategy.TOOL and self._attempt + 1 >= _CALLS_BEFORE_WORDS
        return replace(self._contract, strategy=_IN_WORDS) if in_words else self._contract

    def decide(self, assessment: Assessment) -> Outcome:
        """Return the next step after the assessment of the next answer.

        Raises:
            AlreadyDecided: An earlier answer was accepted or given up.
        """
        self._check_undecided()
        given, problems = assessment, assessment.problems
        self._attempt += 1
        retries_left = self._contract.max_retries - self._attempt + 1
        if problems and not given.is_cut_off and retries_left > 0:
            return AskAgain(given.prompt, problems, retries_left, self._attempt)
        self._decided = True
        if not problems:
            accepted = Accepted(given.value, self._attempt - 1, given.ambiguous, given.edits, is_native=given.is_native)
            return replace(accepted, rejected_calls=self._rejected_calls)
        error_type = ErrorType.OUTPUT_TRUNCATED if given.is_cut_off else self._contract.error_type
        return GiveUp(problems, self._attempt, error_type)

    def _check_undecided(self) -> None:
        if self._decided:
            raise AlreadyDecided(f"attempt {self._attempt} has settled the contract; a new run needs a new Enforcement")


def summary_of(contract: OutputContract, outcome: Accepted) -> "OutputSummary":
    """Return `result.output` for an accepted answer. The strategy of the contract has been chosen."""
    from ao_protocol.events import OutputSummary  # no model of an event is needed before the first answer

    strategy = contract.strategy or Strategy.SYSTEM_PROMPT
    asked_again = outcome.retry_count - outcome.rejected_calls
    return OutputSummary(
        schema_source=contract.source,
        retry_count=outcome.retry_count,
        ambiguous=outcome.ambiguous,
        strategy=strategy,
        sent=["nothing" if strategy is Strategy.EXTRACT else strategy, *["re_prompt"] * asked_again],
        delivered_by="tool" if outcome.is_submitted else "native" if outcome.is_native else "text",
        edits=list(outcome.edits) or None,
    )
