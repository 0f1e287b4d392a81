"""What every wire document has in common: it is frozen, and what it does not know it ignores (SPEC 3)."""

import json
import re
from collections.abc import Iterable
from typing import Annotated, Final, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

JsonObject: TypeAlias = dict[str, JsonValue]
"""User payload: passed on as it came, never looked into by name."""

Name = Annotated[str, Field(min_length=1)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]

MAX_SHOWN_CHARACTERS: Final = 80

_PLAIN_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


class WireModel(BaseModel):
    """Base of every document and part of a document."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)


def problems_of(error: ValidationError, root: str = "$") -> list[str]:
    """Say of each wrong field where it is, what was expected and what was found: `$.seq: …, found 0`."""
    return [
        f"{path_text(problem['loc'], root)}: {_sentence(problem['msg'])}{_found(problem['type'], problem['input'])}"
        for problem in error.errors(include_url=False, include_context=False)
    ]


def path_text(parts: Iterable[str | int], root: str = "$") -> str:
    """Write a path into a document: `$.issues[0].severity`, and `$["a b"]` where a key is no plain word."""
    written = [root]
    for part in parts:
        if isinstance(part, int):
            written.append(f"[{part}]")
        else:
            written.append(f".{part}" if _PLAIN_KEY.fullmatch(part) else f"[{json.dumps(part)}]")
    return "".join(written)


def _sentence(message: str) -> str:
    message = message.removeprefix("Value error, ")
    return message[:1].lower() + message[1:]


def _found(problem_type: str, value: object) -> str:
    if problem_type in {"missing", "value_error"}:
        return ""
    shown = repr(value)
    return f", found {shown if len(shown) <= MAX_SHOWN_CHARACTERS else shown[:MAX_SHOWN_CHARACTERS] + '…'}"
