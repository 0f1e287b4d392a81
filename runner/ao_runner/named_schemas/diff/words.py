"""What a schema asks for, in few words: `string`, `one of "low", "high"`, `array of issue`, `string or null`."""

import json
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias
from urllib.parse import unquote

from pydantic import JsonValue

Schema: TypeAlias = dict[str, Any]

MAX_SHOWN_CHARACTERS: Final = 60
MAX_ALTERNATIVES: Final = 4


def words_for(schema: Any) -> str:  # noqa: ANN401  # an object or a boolean
    """Return in words which values a schema asks for; details such as bounds are left out."""
    if isinstance(schema, bool):
        return "any value" if schema else "nothing"
    speaking = (words for keyword, words in _WORDS.items() if keyword in schema)
    return next(speaking, _silence)(schema)


def _silence(schema: Schema) -> str:
    return as_json(schema) if schema else "any value"


def _reference(schema: Schema) -> str:
    name = unquote(schema["$ref"]).rsplit("/", 1)[-1].replace("~1", "/").replace("~0", "~")
    return "the whole again" if name in {"", "#"} else name


def _enum(schema: Schema) -> str:
    values = schema["enum"]
    return as_json(values[0]) if len(values) == 1 else f"one of {listed(values)}" if values else "nothing"


def _type(schema: Schema) -> str:
    if isinstance(schema["type"], list):
        return _joined(schema["type"], " or ")
    if schema["type"] == "array" and isinstance(items := schema.get("items"), dict) and items:
        return f"array of {words_for(items)}"
    return str(schema["type"])


_WORDS: Final[Mapping[str, Callable[[Schema], str]]] = MappingProxyType(
    {
        "$ref": _reference,
        "const": lambda schema: as_json(schema["const"]),
        "enum": _enum,
        "anyOf": lambda schema: _joined(map(words_for, schema["anyOf"]), " or "),
        "oneOf": lambda schema: _joined(map(words_for, schema["oneOf"]), " or "),
        "type": _type,
        "allOf": lambda schema: _joined(map(words_for, schema["allOf"]), " and "),
    }
)
"""The keyword that says most comes first."""


def listed(values: Iterable[JsonValue]) -> str:
    """Return values as JSON, one after the other."""
    return _cut(", ".join(map(as_json, values)), 3 * MAX_SHOWN_CHARACTERS)


def as_json(value: JsonValue) -> str:
    """Return a value as JSON on one line, cut where it gets long."""
    return _cut(json.dumps(value, ensure_ascii=False), MAX_SHOWN_CHARACTERS)


def _joined(words: Iterable[str], between: str) -> str:
    different = list(dict.fromkeys(words))
    more = [f"{len(different) - MAX_ALTERNATIVES} more"] if len(different) > MAX_ALTERNATIVES else []
    return between.join([*different[:MAX_ALTERNATIVES], *more])


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
