"""Whether a schema can be a contract: the questions, in the order in which they can be asked."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from ao_protocol.ijson import MAX_DEPTH
from ao_protocol.json_path import ROOT, below
from ao_protocol.output.json_values import interoperability_problems, is_interoperable
from ao_protocol.output.problems import Problem, shown
from ao_protocol.output.schema_cost import endless_references, excessive_cost
from ao_protocol.output.schema_references import METASCHEMA_URI, Catalogue, Node, metaschema_problems
from ao_protocol.output.verdicts import pattern_compiles

MAX_SCHEMA_CHARACTERS: Final = 256 * 1024
MAX_REPORTED: Final = 50
MAX_SCHEMA_DEPTH: Final = MAX_DEPTH - 2
"""A blueprint's schema travels inside the blueprint, inside the invocation."""
MAX_PATTERNS: Final = 100
"""Compiling one pattern takes up to 30 ms (measured)."""

DRAFT_7: Final = frozenset(
    f"{scheme}://json-schema.org/draft-07/schema{fragment}" for scheme in ("http", "https") for fragment in ("", "#")
)

LATER_KEYWORDS: Final = frozenset(
    {"$dynamicRef", "$recursiveRef", "dependentRequired", "dependentSchemas", "maxContains", "minContains"}
    | {"prefixItems", "unevaluatedItems", "unevaluatedProperties"}
)
"""Keywords that refuse values in later drafts and that Draft-7 ignores without a word."""


@dataclass(eq=False)
class InvalidSchema(ValueError):
    """A schema cannot be a contract: it is no Draft-7 schema, or judging by it might not end.

    `problems` holds every reason, at least one; `path` and `message` are those of the first, the path being a
    place in the schema such as `$.properties.severity.type`.
    """

    problems: tuple[Problem, ...]

    @property
    def path(self) -> str:
        """Return the place of the first problem."""
        return self.problems[0].path

    @property
    def message(self) -> str:
        """Return the sentence of the first problem."""
        return self.problems[0].message

    def __str__(self) -> str:
        return "; ".join(map(str, self.problems))


def check_schema(schema: object) -> None:
    """Accept a schema as a contract, or say everything that is wrong with it.

    Accepted is a JSON object that satisfies the Draft-7 metaschema, of at most 262,144 characters and 62 levels,
    with references that stay inside and come to an end, patterns that can be matched, and no more than 20,000
    checks for one value. `$schema` is absent or Draft-7's.

    Args:
        schema: Any value; a schema is an object.

    Raises:
        InvalidSchema: with every problem that the first failing question found, at most 50.
    """
    vetted_document(schema)


def vetted_document(schema: object, above: str = "") -> dict[str, Any]:
    """Return a private copy of an acceptable schema, in which every reference is a pointer from the root.

    `above` is the pointer at which it will stand in a larger document.

    Raises:
        InvalidSchema: as `check_schema` does.
    """
    if not isinstance(schema, dict):
        raise InvalidSchema((Problem(ROOT, f"{shown(schema)} is not a schema: it must be a JSON object"),))
    document = _copied(schema)
    _refuse(_dialect_problems(document, ROOT))
    _refuse(metaschema_problems(document, ROOT))
    catalogue = Catalogue(document)
    _refuse([*catalogue.problems, *_draft_problems(catalogue), *_pattern_problems(catalogue)])
    _refuse(endless_references(catalogue))
    _refuse(excessive_cost(catalogue))
    catalogue.write_pointers(above)
    return document


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


def _draft_problems(catalogue: Catalogue) -> Iterator[Problem]:
    """Yield each schema that is written for another draft, by its `$schema` or by its keywords."""
    for node in catalogue.nodes.values():
        yield from _dialect_problems(node.schema, node.path)
        for keyword in sorted(LATER_KEYWORDS.intersection(node.schema)):
            yield Problem(
                below(node.path, keyword), f"{keyword!r} is not in Draft-7, which would ignore it: say it in Draft-7"
            )


def _dialect_problems(schema: dict[str, Any], path: str) -> Iterator[Problem]:
    """Yield that `$schema` names another draft than Draft-7, if it does."""
    dialect = schema.get("$schema", METASCHEMA_URI)
    if not isinstance(dialect, str) or dialect not in DRAFT_7:
        yield Problem(
            below(path, "$schema"), f"{shown(dialect)} is not Draft-7: leave it out, or write {METASCHEMA_URI!r}"
        )


def _pattern_problems(catalogue: Catalogue) -> Iterator[Problem]:
    """Yield each pattern that is no ECMA-262 regular expression, or that there are too many of them."""
    placed = [each for node in catalogue.nodes.values() for each in _patterns(node)]
    different = len({pattern for _, pattern in placed})
    if different > MAX_PATTERNS:
        yield Problem(ROOT, f"has {different} different patterns; {MAX_PATTERNS} are allowed")
        return
    for path, pattern in placed:
        if not pattern_compiles(pattern):
            yield Problem(path, f"{shown(pattern)} is not an ECMA-262 regular expression that can be matched")


def _patterns(node: Node) -> Iterator[tuple[str, str]]:
    if "pattern" in node.schema:
        yield below(node.path, "pattern"), node.schema["pattern"]
    for pattern in node.schema.get("patternProperties", {}):
        yield below(below(node.path, "patternProperties"), pattern), pattern
