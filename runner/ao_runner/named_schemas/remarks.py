"""What is odd about a schema that is acceptable: it says less than it seems to say."""

import difflib
import json
import math
from collections.abc import Iterable, Iterator
from typing import Any, Final

from ao_protocol.contracts import InvalidSchema, check_schema
from ao_protocol.contracts.verdicts import DRAFT_7_FORMATS, FORMATS_KEYWORD
from ao_protocol.json_path import ROOT, below
from ao_protocol.wire import JsonObject

MAX_CHARACTERS_BESIDE_RUNS: Final = 64 * 1024
"""Of a schema that a worker looks at: 200,000 hold up its other runs for 80 ms, also from a thread."""

# A property may be called `$ref`, and a default may look like a schema: neither is one.
SINGLE: Final = frozenset(
    {"additionalItems", "additionalProperties", "contains", "else", "if", "items", "not", "propertyNames", "then"}
)
LISTS: Final = frozenset({"allOf", "anyOf", "items", "oneOf", "prefixItems"})
MAPS: Final = frozenset({"$defs", "definitions", "dependencies", "patternProperties", "properties"})

_JUDGING: Final = (SINGLE | LISTS | MAPS) - {"prefixItems"} | {
    *("$ref", "const", "enum", "multipleOf", "pattern", "required", "type", "uniqueItems"),
    *("exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum"),
    *("maxItems", "maxLength", "maxProperties", "minItems", "minLength", "minProperties"),
}
_DESCRIBING: Final = frozenset(
    {"$comment", "$id", "$schema", "contentEncoding", "contentMediaType", "default", "deprecated", "description"}
    | {"examples", "format", "readOnly", "title", "writeOnly"}
    | {FORMATS_KEYWORD}
)


def remarks_on(schema: JsonObject) -> list[str]:
    """Return what somebody who wrote an acceptable schema may not expect of it, each with its place."""
    references = " ".join(str(inside["$ref"]) for _, inside in walk(schema) if "$ref" in inside)
    return [f"{place}: {remark}" for at, inside in walk(schema) for place, remark in _remarks(at, inside, references)]


def remarks_below(
    document: JsonObject, fields: Iterable[str], place: str, max_characters: float = math.inf
) -> list[str]:
    """Return the same of the schemas in some fields of a document; those not acceptable or too long are left out."""
    return [
        f"{below(place, name)}{remark.removeprefix(ROOT)}"
        for name in fields
        if isinstance(schema := document.get(name), dict)
        and len(json.dumps(schema)) <= max_characters
        and _is_acceptable(schema)
        for remark in remarks_on(schema)
    ]


def _is_acceptable(schema: JsonObject) -> bool:
    try:
        check_schema(schema)
    except InvalidSchema:
        return False
    return True


def _remarks(place: str, schema: dict[str, Any], references: str) -> Iterator[tuple[str, str]]:
    for keyword in schema:
        if "$ref" in schema and keyword in _JUDGING - {"$ref", "$defs", "definitions"}:
            yield below(place, keyword), "ignored beside $ref; put both into an allOf"
        # What a reference leads to is read, under whatever name it stands.
        if keyword not in _JUDGING | _DESCRIBING and f"/{keyword}" not in references:
            close = difflib.get_close_matches(keyword, _JUDGING, n=1)
            meant = f"; did you mean {close[0]!r}?" if close else ""
            yield below(place, keyword), f"unknown keyword, ignored{meant}"
    if (written := schema.get("format")) is not None and written not in DRAFT_7_FORMATS:
        close = difflib.get_close_matches(written, DRAFT_7_FORMATS, n=1)
        meant = f"did you mean {close[0]!r}?" if close else "use a pattern to check it"
        yield below(place, "format"), f"{written!r} is no format of Draft-7, so it is not checked; {meant}"
    if schema.get(FORMATS_KEYWORD, "annotate") != "annotate" or (FORMATS_KEYWORD in schema and place != ROOT):
        yield below(place, FORMATS_KEYWORD), "ignored; only 'annotate' at the root of the schema counts"
    if schema.get("additionalProperties") is False and "patternProperties" not in schema:
        for name in schema.get("required", []):
            if name not in schema.get("properties", {}):
                yield below(place, "required"), f"{name!r} must be there, and additionalProperties refuses it"


def walk(schema: Any, place: str = ROOT) -> Iterator[tuple[str, dict[str, Any]]]:  # noqa: ANN401  # booleans, too
    """Yield every schema object with its place, such as `$.properties.severity`, the outermost first."""
    if not isinstance(schema, dict):
        return
    yield place, schema
    for keyword, rule in schema.items():
        under = below(place, keyword)
        if keyword in LISTS and isinstance(rule, list):
            for index, item in enumerate(rule):
                yield from walk(item, below(under, index))
        elif keyword in MAPS and isinstance(rule, dict):
            for name, member in rule.items():
                yield from walk(member, below(under, name))
        elif keyword in SINGLE:
            yield from walk(rule, under)
