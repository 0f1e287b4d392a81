"""Check that a schema can be an output contract, and remark on parts of an acceptable one that have no effect."""

import difflib
import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, TypeAlias

from ao_protocol.contracts import InvalidSchema, Problem, check_schema
from ao_protocol.contracts.checks import MAX_PROBLEMS
from ao_protocol.contracts.verdicts import DRAFT_7_FORMATS, FORMATS_KEYWORD
from ao_protocol.framing import MAX_SAFE_INTEGER
from ao_protocol.json_path import ROOT, below, path_to
from ao_protocol.wire import JsonObject
from ao_runner.errors import RunnerError

Steps: TypeAlias = tuple[str | int, ...]
"""The names and indices that lead from a document to a part of it."""
MAX_CHARACTERS_BESIDE_RUNS: Final = 64 * 1024
"""Maximum size of a schema that a worker checks: 200,000 delay its other runs for 80 ms, even from a thread."""

# A property may be named `$ref`, and a default may look like a schema; neither is one.
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
_IDENTIFIER: Final = re.compile(r"(?:(?:^|_)ids?|[a-z]Ids?|^ID)$")
_LONG_INTEGERS: Final = frozenset({"int64", "uint64"})


@dataclass(eq=False)
class UnacceptableSchema(RunnerError):
    """A schema that cannot be an output contract. `what` identifies it: a file or a name."""

    what: str
    problems: Sequence[Problem]

    def __str__(self) -> str:
        lines = (f"  {problem}" for problem in self.problems)
        return "\n".join([f"{self.what} cannot be used as an output schema:", *lines])


def vet(what: str, schema: object) -> None:
    """Check that answers can be validated against a schema.

    Raises:
        UnacceptableSchema: They cannot; the error lists every problem with its place.
    """
    try:
        check_schema(schema)
    except InvalidSchema as error:
        raise UnacceptableSchema(what, error.problems) from error


def remarks_on(schema: JsonObject) -> list[str]:
    """Return remarks on parts of an acceptable schema that may surprise its author, each with its place, at most 50."""
    schemas = list(_schemas_in(schema))
    references = " ".join(str(inside["$ref"]) for _, inside in schemas if "$ref" in inside)
    remarks = (one for steps, inside in schemas for one in _remarks(steps, inside, references))
    return [f"{path_to(steps)}: {remark}" for steps, remark in islice(remarks, MAX_PROBLEMS)]


def remarks_below(
    document: JsonObject, fields: Iterable[str], place: str, max_characters: float = math.inf
) -> list[str]:
    """Return such remarks for the schemas in fields of a document, except unacceptable or too long ones."""
    remarks: list[str] = []
    for name in fields:
        schema = document.get(name)
        if isinstance(schema, dict) and len(json.dumps(schema)) <= max_characters:
            with suppress(InvalidSchema):
                check_schema(schema)
                remarks += (f"{below(place, name)}{remark.removeprefix(ROOT)}" for remark in remarks_on(schema))
    return remarks


def _remarks(place: Steps, schema: dict[str, Any], references: str) -> Iterator[tuple[Steps, str]]:
    for keyword in schema:
        if "$ref" in schema and keyword in _JUDGING - {"$ref", "$defs", "definitions"}:
            yield (*place, keyword), "ignored beside $ref; put both into an allOf"
        # The target of a reference is read, whatever keyword it is under.
        if keyword not in _JUDGING | _DESCRIBING and f"/{keyword}" not in references:
            close = difflib.get_close_matches(keyword, _JUDGING, n=1)
            meant = f"; did you mean {close[0]!r}?" if close else ""
            yield (*place, keyword), f"unknown keyword, ignored{meant}"
    if (written := schema.get("format")) is not None and written not in DRAFT_7_FORMATS:
        close = difflib.get_close_matches(written, DRAFT_7_FORMATS, n=1)
        meant = f"did you mean {close[0]!r}?" if close else "use a pattern to check it"
        yield (*place, "format"), f"{written!r} is no format of Draft-7, so it is not checked; {meant}"
    if _may_lose_digits(place, schema):
        lost = f"integers beyond ±{MAX_SAFE_INTEGER} lose digits at receivers and are refused"
        yield (*place, "type"), f"{lost}; ask for a string if they occur, else give a maximum"
    if schema.get(FORMATS_KEYWORD, "annotate") != "annotate" or (FORMATS_KEYWORD in schema and place):
        yield (*place, FORMATS_KEYWORD), "ignored; only 'annotate' at the root of the schema counts"
    if schema.get("additionalProperties") is False and "patternProperties" not in schema:
        for name in schema.get("required", []):
            if name not in schema.get("properties", {}):
                yield (*place, "required"), f"{name!r} must be there, and additionalProperties refuses it"


def _may_lose_digits(place: Steps, schema: dict[str, Any]) -> bool:
    """Return whether a schema asks for an id, or an integer of 64 bits, as a number without a maximum."""
    kinds = schema.get("type", ())
    is_named_so = any(_IDENTIFIER.search(str(step)) for step in place[-2:]) or schema.get("format") in _LONG_INTEGERS
    return is_named_so and "integer" in kinds and "string" not in kinds and "maximum" not in schema


def _schemas_in(schema: Any, place: Steps = ()) -> Iterator[tuple[Steps, dict[str, Any]]]:  # noqa: ANN401  # booleans
    """Yield every schema object with the steps to it, such as `properties` and `severity`, the outermost first."""
    if not isinstance(schema, dict):
        return
    yield place, schema
    for keyword, rule in schema.items():
        under = (*place, keyword)
        if keyword in LISTS and isinstance(rule, list):
            for index, item in enumerate(rule):
                yield from _schemas_in(item, (*under, index))
        elif keyword in MAPS and isinstance(rule, dict):
            for name, member in rule.items():
                yield from _schemas_in(member, (*under, name))
        elif keyword in SINGLE:
            yield from _schemas_in(rule, under)
