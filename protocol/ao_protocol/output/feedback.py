"""Asking again: what the model is told about an answer that was refused (SPEC 9.5).

Measured on real models: name the reason, at most ten errors with their values cut short, ask for the JSON and not for
the schema, and permit to decline, or a model that is pushed invents placeholders that validate.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ao_protocol.output.enrichment import fenced_schema
from ao_protocol.output.problems import Problem

MAX_LISTED_PROBLEMS: Final = 10
MAX_PROBLEM_CHARACTERS: Final = 400
MAX_ERROR_BYTES: Final = 4096
MAX_SCHEMA_BYTES: Final = 8192
"""A larger schema is not repeated; it still stands in the system prompt."""

_FRAME: Final = """\
<output-validation-error>
{reason}

## Validation Errors
{errors}

{schema}

Answer again with only the JSON: no other text, and not the schema itself.
If what was asked cannot be answered in this form, do not invent values: say in plain words why it cannot.
</output-validation-error>"""

_SCHEMA_BELOW: Final = "## Required Schema\n{schema}"
_SCHEMA_ABOVE: Final = 'The required schema is the one under "Required Output Format" in your instructions.'

_CLOSING_TAG: Final = re.compile(r"<(?=/output-validation-error)", re.IGNORECASE)


def validation_feedback(problems: Sequence[Problem], schema: Mapping[str, Any]) -> str:
    """Return the prompt that asks again for an answer that broke its schema.

    The errors take about 4 KB at most, of which the first one always stands there; how many are left out is said.
    Nothing that is quoted can close the `<output-validation-error>` around it.
    """
    return _framed("Your output did not match the required schema.", problems, schema)


def missing_answer_feedback(reason: str, schema: Mapping[str, Any]) -> str:
    """Return the prompt that asks again where no JSON value could be taken for the answer, and says why."""
    return _framed("Your output could not be read as the required JSON.", [Problem("$", reason)], schema)


def _framed(reason: str, problems: Sequence[Problem], schema: Mapping[str, Any]) -> str:
    fenced = fenced_schema(schema)
    is_small = len(fenced.encode()) <= MAX_SCHEMA_BYTES
    return _FRAME.format(
        reason=reason,
        errors="\n".join(map(_enclosed, _error_lines(problems))),
        schema=_SCHEMA_BELOW.format(schema=_enclosed(fenced)) if is_small else _SCHEMA_ABOVE,
    )


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


def _enclosed(text: str) -> str:
    # In JSON `<\/` is `</`, so the schema stays what it was.
    return _CLOSING_TAG.sub(r"<\\", text)
