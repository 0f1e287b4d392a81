"""What the model is told of a contract: the demand, and the problems of an answer (SPEC 9.3, 9.5)."""

import json
import re
from typing import Any

from contracts import Contract

DEMAND = """\
## Required Output Format

You MUST provide structured output as JSON conforming to this schema:

{schema}

Your response MUST be valid JSON that matches this schema exactly. Output ONLY the JSON, no additional text."""
MAX_LISTED_PROBLEMS = 10
MAX_PROBLEM_CHARACTERS = 400
MAX_ANSWER_CHARACTERS = 2000
CLOSING_TAG = re.compile(r"<(?=/output-validation-error)", re.IGNORECASE)


def with_demand(prompt: str | None, schema: dict[str, Any]) -> str:
    """Return a prompt with the demand as its last section."""
    demand = DEMAND.format(schema=fenced(json.dumps(schema, indent=2, ensure_ascii=False)))
    if prompt is None or not prompt.strip():
        return demand
    return f"{prompt}\n\n{demand}"


def fenced(text: str) -> str:
    """Return a text in a `json` fence that nothing in it can close."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}json\n{text}\n{fence}"


def asked_again(contract: Contract, problems: list[str], answer: str) -> str:
    """Return the message that asks again for an answer."""
    listed = [f"- {_one_line(problem)}" for problem in problems[:MAX_LISTED_PROBLEMS]]
    if len(problems) > len(listed):
        listed.append(f"- and {len(problems) - len(listed)} more")
    parts = ["Your answer does not fit the required schema.", "\n".join(listed)]
    if contract.source != "blueprint":
        shown = answer.strip()[:MAX_ANSWER_CHARACTERS]
        parts += [f"Your answer began:\n{shown}", f"The schema:\n{fenced(json.dumps(contract.schema, indent=2))}"]
    parts.append(
        "Answer again with the JSON only, and not with the schema. "
        "If you cannot answer in this form, do not invent anything: say that you cannot."
    )
    body = CLOSING_TAG.sub("&lt;", "\n\n".join(parts))
    return f"<output-validation-error>\n{body}\n</output-validation-error>"


def _one_line(problem: str) -> str:
    return " ".join(problem.split())[:MAX_PROBLEM_CHARACTERS]
