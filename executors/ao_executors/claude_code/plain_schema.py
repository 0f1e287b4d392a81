"""A schema for the Claude CLI, whose validator refuses more than Draft-7 does.

Measured on the Claude CLI 2.1.330, which ends at an unknown keyword, at two enumerated values that are equal in
JavaScript, and at a pattern that is no regular expression in Unicode mode. What is left out says nothing to a
validator, or is said in words; the answer is judged by the whole schema.
"""

import json
import re
from typing import Any, Final

from ao_protocol.contracts.schema_vetting import Catalogue
from ao_protocol.contracts.verdicts import pointer_below

_KNOWN: Final = frozenset(
    {"$comment", "$defs", "$ref", "additionalItems", "additionalProperties", "allOf", "anyOf", "const"}
    | {"contains", "default", "definitions", "dependencies", "description", "else", "enum", "examples"}
    | {"exclusiveMaximum", "exclusiveMinimum", "format", "if", "items", "maxItems", "maxLength", "maxProperties"}
    | {"maximum", "minItems", "minLength", "minProperties", "minimum", "multipleOf", "not", "oneOf", "pattern"}
    | {"patternProperties", "properties", "propertyNames", "readOnly", "required", "then", "title", "type"}
    | {"uniqueItems", "writeOnly"}
)
_PORTABLE_PATTERN: Final = re.compile(
    r"""(?: [^\\{}\[\]]                                            # a character, a group, an alternative
          | \\[dDwWsSbBnrtfv^$\\.*+?()\[\]{}|/]                     # an escape that Unicode mode has, too
          | \{\d+(?:,\d*)?\}                                        # a number of times
          | \[\^?(?:[^\\\[\]]|\\[dDwWsSnrtfv^$\\.*+?()\[\]{}|/-])+\]  # one of several characters
        )*""",
    re.VERBOSE,
)


def write_plainly(document: dict[str, Any]) -> dict[str, Any]:
    """Take out of a native schema, in place, what the CLI would refuse, and return it."""
    catalogue = Catalogue(document)
    occupied = {pointer[:end] for pointer in catalogue.nodes for end in _ends(pointer)}
    for node in catalogue.nodes.values():
        for keyword in node.schema.keys() - _KNOWN:
            if pointer_below(node.pointer, keyword) not in occupied:
                del node.schema[keyword]
        _write_enum(node.schema)
        _write_pattern(node.schema)
    return document


def _ends(pointer: str) -> list[int]:
    return [*(place.start() for place in re.finditer("/", pointer)), len(pointer)]


def _write_enum(schema: dict[str, Any]) -> None:
    values = schema.get("enum")
    if isinstance(values, list):
        different: dict[str, object] = {}
        for value in values:
            different.setdefault(_as_javascript_sees(value), value)
        schema["enum"] = list(different.values())


def _as_javascript_sees(value: object) -> str:
    return json.dumps(_numbers_alike(value), sort_keys=True)


def _numbers_alike(value: object) -> object:
    match value:
        case dict():
            return {name: _numbers_alike(member) for name, member in value.items()}
        case list():
            return [_numbers_alike(item) for item in value]
        case float() if value.is_integer():
            return int(value)
        case _:
            return value


def _write_pattern(schema: dict[str, Any]) -> None:
    pattern = schema.get("pattern")
    if isinstance(pattern, str) and not _PORTABLE_PATTERN.fullmatch(pattern):
        del schema["pattern"]
        said = schema.get("description")
        in_words = f"Matches the regular expression {pattern}"
        schema["description"] = f"{said} {in_words}" if isinstance(said, str) and said else in_words
