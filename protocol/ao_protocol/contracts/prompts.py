"""How a model is asked for the answer that a contract demands, and asked again (SPEC 9.3).

The strategy decides where the demand goes: into the system prompt, into the prompt as its last section, or to the
provider as a schema for its own structured output, with an object at the root and no dialect named.

Asking again was measured on real models: name the reason, at most ten errors with their values cut short, ask for the
answer and not for the schema, and permit to decline, or a model that is pushed invents placeholders that validate.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, assert_never

from pydantic import JsonValue

from ao_protocol.contracts.contract import AgentResponseFormat, JsonFormat, OutputContract, OutputFormat, Strategy
from ao_protocol.contracts.problems import Problem
from ao_protocol.contracts.schema_vetting import vetted_document

if TYPE_CHECKING:
    from pydantic import JsonValue


_HEADING: Final = "## Required Output Format"
_JSON_DEMAND: Final = """\
You MUST provide structured output as JSON conforming to this schema:

{schema}

Your response MUST be valid JSON that matches this schema exactly. Output ONLY the JSON, no additional text."""

_BACKTICKS: Final = re.compile(r"`+")


def enrich(prompt: str | None, demanded: OutputFormat) -> str:
    """Return a prompt with the output format as its last section (AOX-166).

    The prompt itself, the system's or the user's, stays as it is, with two line ends after it; where it is absent or
    blank, the section stands alone. A schema is a JSON document in a fence, indented by two spaces, with non-ASCII
    characters as they are.
    """
    section = f"{_HEADING}\n\n{demand_text(demanded)}"
    if prompt is None or not prompt.strip():
        return section
    return f"{prompt}\n\n{section}"


def demand_text(demanded: OutputFormat) -> str:
    """Return what a model is told of a format."""
    match demanded:
        case JsonFormat(schema):
            return _JSON_DEMAND.format(schema=fenced_schema(schema))
        case AgentResponseFormat(form):
            from ao_protocol.agent_response import Form, instructions_for

            return instructions_for(Form(form))
        case never:
            assert_never(never)


def fenced_schema(schema: Mapping[str, Any]) -> str:
    """Return a schema in a `json` fence that no run of backticks in it can close (CommonMark 4.5)."""
    return fenced(json.dumps(schema, indent=2, ensure_ascii=False), "json")


def fenced(text: str, language: str) -> str:
    """Return a text in a fence that is longer than any run of backticks in it."""
    longest = max(map(len, _BACKTICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


MAX_NATIVE_BYTES: Final = 100_000
"""A provider's client takes the schema as one argument of a program, of which Linux allows 131,072 bytes."""

WRAPPER: Final = "value"
_BELOW: Final = f"/properties/{WRAPPER}"
_NOT_AT_THE_ROOT: Final = frozenset({"$ref", "allOf", "anyOf", "oneOf"})


@dataclass(frozen=True, slots=True)
class NativeOutput:
    """Data that came beside the text: a provider's structured output, or an executor's own."""

    value: "JsonValue"


@dataclass(frozen=True, slots=True)
class NativeSchema:
    """The schema to hand to a provider; where it had to be wrapped, the answer stands in the member `value`."""

    document: dict[str, Any]
    is_wrapped: bool

    def unwrap(self, value: "JsonValue") -> "JsonValue":
        """Return the answer that a provider's value holds; one that is not wrapped as agreed is left as it is."""
        if self.is_wrapped and isinstance(value, dict) and value.keys() == {WRAPPER}:
            return value[WRAPPER]
        return value


def native_schema(schema: Mapping[str, Any]) -> NativeSchema:
    """Return a schema as a provider takes it.

    Measured on the Claude CLI 2.1.330: `$schema` 2020-12 makes it exit, and the tool that carries the answer takes
    objects only; the Messages API takes no `allOf`, `anyOf` or `oneOf` at the root of a tool's schema. So `$schema` and
    `$id` go, references become pointers, and a schema that is not plainly one of an object becomes a member of one.

    Raises:
        InvalidSchema: the schema is not acceptable.
    """
    if schema.get("type") == "object" and _NOT_AT_THE_ROOT.isdisjoint(schema):
        return NativeSchema(vetted_document(schema), is_wrapped=False)
    inner = vetted_document(schema, _BELOW)
    document = {
        "type": "object",
        "required": [WRAPPER],
        "additionalProperties": False,
        "properties": {WRAPPER: inner},
    }
    return NativeSchema(document, is_wrapped=True)


def fits_natively(schema: Mapping[str, Any]) -> bool:
    """Tell whether a schema is short enough to be handed to a provider."""
    return len(json.dumps(native_schema(schema).document).encode()) <= MAX_NATIVE_BYTES


USUAL: Final = Strategy.SYSTEM_PROMPT
STANDS_IN_INSTRUCTIONS: Final = frozenset({Strategy.PROMPT, Strategy.SYSTEM_PROMPT})
"""The strategies that tell the model the whole demand in words."""


@dataclass(eq=False)
class StrategyNotOffered(ValueError):
    """The run wants a strategy that its executor does not have."""

    wanted: str
    offered: tuple[str, ...]

    def __str__(self) -> str:
        return f"strategy {str(self.wanted)!r} is not available for this contract; use {' or '.join(self.offered)}"


def with_strategy(
    contract: OutputContract, offered: Collection[str], *, is_resume: bool = False, usual: Strategy = USUAL
) -> OutputContract:
    """Return the contract with the strategy that is used.

    Nothing said means `usual`, or the first that is offered where that is not. `auto` means `native` where it
    is offered and the schema can be handed to a provider, else what nothing said means. In a resume `system_prompt`
    gives way to `prompt` where that is offered: a session may keep the system prompt that it began with.

    Raises:
        StrategyNotOffered: the run wants one that is not offered, or `native` for a contract that cannot be put so.
    """
    usual = usual if usual in offered else Strategy(next(iter(offered)))
    is_asked_for = contract.strategy in {Strategy.NATIVE, Strategy.AUTO}
    can_be_native = is_asked_for and Strategy.NATIVE in offered and _can_be_native(contract)
    match contract.strategy:
        case None:
            chosen = usual
        case Strategy.AUTO:
            chosen = Strategy.NATIVE if can_be_native else usual
        case Strategy.NATIVE if not can_be_native:
            raise StrategyNotOffered(contract.strategy, tuple(name for name in offered if name != Strategy.NATIVE))
        case wanted if wanted not in offered:
            raise StrategyNotOffered(wanted, tuple(offered))
        case wanted:
            chosen = wanted
    if is_resume and chosen is Strategy.SYSTEM_PROMPT and Strategy.PROMPT in offered:
        chosen = Strategy.PROMPT
    return replace(contract, strategy=chosen)


def _can_be_native(contract: OutputContract) -> bool:
    return isinstance(contract.format, JsonFormat) and fits_natively(contract.format.schema)


MAX_LISTED_PROBLEMS: Final = 10
MAX_PROBLEM_CHARACTERS: Final = 400
MAX_ERROR_BYTES: Final = 4096
MAX_SCHEMA_BYTES: Final = 8192
"""A larger schema is not repeated where the model has it in words already."""
MAX_ANSWER_CHARACTERS: Final = 2000

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

_CLOSING_TAG: Final = re.compile(r"<(?=/output-validation-error)", re.IGNORECASE)


def validation_feedback(problems: Sequence[Problem], contract: OutputContract, answer: str) -> str:
    """Return the prompt that asks again for an answer that broke its contract.

    The errors take about 4 KB at most, of which the first one always stands there; how many are left out is said.
    Under a caller's contract the answer stands there, too, cut short. Nothing that is quoted can close the
    `<output-validation-error>` around it.
    """
    what = "schema" if isinstance(contract.format, JsonFormat) else "form"
    return _framed(f"Your output did not match the required {what}.", problems, contract, answer)


def missing_answer_feedback(reason: str, contract: OutputContract, answer: str) -> str:
    """Return the prompt that asks again where no answer could be read at all, and says why."""
    what = "as the required JSON" if isinstance(contract.format, JsonFormat) else "in the required form"
    return _framed(f"Your output could not be read {what}.", [Problem("$", reason)], contract, answer)


def _framed(reason: str, problems: Sequence[Problem], contract: OutputContract, answer: str) -> str:
    return _FRAME.format(
        reason=reason,
        sections="\n\n".join(_sections(problems, contract, answer)),
        request=_ONLY_JSON if isinstance(contract.format, JsonFormat) else _ONLY_THE_FORM,
    )


def _sections(problems: Sequence[Problem], contract: OutputContract, answer: str) -> Iterator[str]:
    yield "\n".join(["## Validation Errors", *map(_enclosed, _error_lines(problems))])
    if contract.is_callers and answer.strip():
        yield f"## Your Previous Answer\n{_enclosed(fenced(_cut(answer.strip()), 'text'))}"
    yield _demand(contract)


def _demand(contract: OutputContract) -> str:
    stands_above = contract.strategy in STANDS_IN_INSTRUCTIONS
    match contract.format:
        case JsonFormat(schema):
            text = fenced_schema(schema)
            if stands_above and len(text.encode()) > MAX_SCHEMA_BYTES:
                return _ABOVE.format(what="schema")
            return f"## Required Schema\n{_enclosed(text)}"
        case AgentResponseFormat() as demanded:
            if stands_above:
                return _ABOVE.format(what="form")
            return f"## Required Form\n{_enclosed(demand_text(demanded))}"
        case never:
            assert_never(never)


def _error_lines(problems: Sequence[Problem]) -> list[str]:
    lines: list[str] = []
    room = MAX_ERROR_BYTES
    for problem in problems[:MAX_LISTED_PROBLEMS]:
        line = _one_line(f"- {problem}")
        room -= len(line.encode(errors="replace")) + 1
        if lines and room < 0:
            break
        lines.append(line)
    if len(problems) > len(lines):
        lines.append(f"- and {len(problems) - len(lines)} more")
    return lines


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_PROBLEM_CHARACTERS else line[:MAX_PROBLEM_CHARACTERS] + "…"


def _cut(answer: str) -> str:
    if len(answer) <= MAX_ANSWER_CHARACTERS:
        return answer
    return f"{answer[:MAX_ANSWER_CHARACTERS]}…\n({len(answer) - MAX_ANSWER_CHARACTERS} more characters)"


def _enclosed(text: str) -> str:
    # In JSON `<\/` is `</`, so the schema stays what it was.
    return _CLOSING_TAG.sub(r"<\\", text)
