"""Asking again: what the model is told about an answer that was refused (SPEC 9.5).

Measured on real models: name the reason, at most ten errors with their values cut short, ask for the answer and not for
the schema, and permit to decline, or a model that is pushed invents placeholders that validate.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final, assert_never

from ao_protocol.output.contract import AgentResponseFormat, JsonFormat, OutputContract
from ao_protocol.output.enrichment import demand_text, fenced, fenced_schema
from ao_protocol.output.problems import Problem
from ao_protocol.output.strategies import STANDS_IN_INSTRUCTIONS

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
