"""Where in a document something is wrong: `$.issues[0].severity` (SPEC 6.3)."""

import json
import re

PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


def below(path: str, key: str | int) -> str:
    """Return the path one step further down."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    return f"{path}.{key}" if PLAIN_KEY.fullmatch(key) else f"{path}[{json.dumps(key)}]"


def problem_at(path: str, message: str) -> str:
    """Return a validation error as the wire has it."""
    return f"{path}: {message}"
