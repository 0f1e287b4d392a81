"""Whether a schema can be a contract: the questions, in the order in which they can be asked."""

import json
from collections.abc import Iterable
from itertools import islice
from typing import Any, Final

from ao_protocol.ijson import MAX_DEPTH
from ao_protocol.json_path import ROOT
from ao_protocol.output.json_values import interoperability_problems, is_interoperable
from ao_protocol.output.problems import Problem, shown
from ao_protocol.output.schema_vetting.cost import endless_references, excessive_cost
from ao_protocol.output.schema_vetting.invalid_schema import InvalidSchema
from ao_protocol.output.schema_vetting.keywords import dialect_problems, draft_problems, pattern_problems
from ao_protocol.output.schema_vetting.metaschema import metaschema_problems
from ao_protocol.output.schema_vetting.plain import write_plainly
from ao_protocol.output.schema_vetting.references import Catalogue, resolve_references, write_pointers

MAX_SCHEMA_CHARACTERS: Final = 256 * 1024
MAX_REPORTED: Final = 50
MAX_SCHEMA_DEPTH: Final = MAX_DEPTH - 2
"""A blueprint's schema travels inside the blueprint, inside the invocation."""


def check_schema(schema: object) -> None:
    """Accept a schema as a contract, or say everything that is wrong with it.

    Accepted is a JSON object that satisfies the Draft-7 metaschema, of at most 262,144 characters and 62 levels,
    with references that stay inside and come to an end, patterns that can be matched, and no more than 20,000
    checks for one value. `$schema` is absent or Draft-7's.

    Raises:
        InvalidSchema: with every problem that the first failing question found, at most 50.
    """
    vetted_document(schema)


def vetted_document(schema: object) -> dict[str, Any]:
    """Return a private copy of an acceptable schema, in which every reference is a pointer from the root.

    Raises:
        InvalidSchema: as `check_schema` does.
    """
    catalogue = _vetted(schema)
    write_pointers(catalogue, "")
    return catalogue.document


def plain_document(schema: object, below: str) -> dict[str, Any]:
    """Return such a copy as stricter readers take it, see `schema_vetting.plain`; it accepts what the schema accepts.

    `below` is the pointer at which it will stand in a larger document.

    Raises:
        InvalidSchema: as `check_schema` does.
    """
    catalogue = _vetted(schema)
    write_plainly(catalogue)
    write_pointers(catalogue, below)
    return catalogue.document


def _vetted(schema: object) -> Catalogue:
    if not isinstance(schema, dict):
        raise InvalidSchema((Problem(ROOT, f"{shown(schema)} is not a schema: it must be a JSON object"),))
    document = _copied(schema)
    _refuse(dialect_problems(document, ROOT))
    _refuse(metaschema_problems(document, ROOT))
    catalogue, reference_problems = resolve_references(document)
    _refuse([*reference_problems, *draft_problems(catalogue), *pattern_problems(catalogue)])
    _refuse(endless_references(catalogue))
    _refuse(excessive_cost(catalogue))
    return catalogue


def _copied(schema: dict[Any, Any]) -> dict[str, Any]:
    if not is_interoperable(schema, MAX_SCHEMA_DEPTH):
        _refuse(interoperability_problems(schema, MAX_SCHEMA_DEPTH))
    text = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
    if len(text) > MAX_SCHEMA_CHARACTERS:
        too_long = f"is {len(text)} characters long as JSON; {MAX_SCHEMA_CHARACTERS} are allowed"
        raise InvalidSchema((Problem(ROOT, too_long),))
    document: dict[str, Any] = json.loads(text)
    return document


def _refuse(problems: Iterable[Problem]) -> None:
    found = tuple(islice(problems, MAX_REPORTED))
    if found:
        raise InvalidSchema(found)
