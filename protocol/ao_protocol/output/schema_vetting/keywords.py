"""What is asked of single keywords beyond the metaschema: that they are Draft-7, and that patterns can be matched."""

from collections.abc import Iterator
from typing import Any, Final

from ao_protocol.json_path import ROOT, below
from ao_protocol.output.problems import Problem, shown
from ao_protocol.output.schema_vetting.metaschema import METASCHEMA_URI
from ao_protocol.output.schema_vetting.references import Catalogue, Node
from ao_protocol.output.verdicts import pattern_compiles

MAX_PATTERNS: Final = 100
"""Compiling one pattern takes up to 30 ms (measured)."""

DRAFT_7: Final = frozenset(
    f"{scheme}://json-schema.org/draft-07/schema{fragment}" for scheme in ("http", "https") for fragment in ("", "#")
)

LATER_KEYWORDS: Final = frozenset(
    {
        "$dynamicRef",
        "$recursiveRef",
        "dependentRequired",
        "dependentSchemas",
        "maxContains",
        "minContains",
        "prefixItems",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
"""Keywords that refuse values in later drafts and that Draft-7 ignores without a word."""


def draft_problems(catalogue: Catalogue) -> Iterator[Problem]:
    """Yield each schema that is written for another draft, by its `$schema` or by its keywords."""
    for node in catalogue.nodes.values():
        yield from dialect_problems(node.schema, node.path)
        for keyword in sorted(LATER_KEYWORDS.intersection(node.schema)):
            yield Problem(
                below(node.path, keyword), f"{keyword!r} is not in Draft-7, which would ignore it: say it in Draft-7"
            )


def dialect_problems(schema: dict[str, Any], path: str) -> Iterator[Problem]:
    """Yield that `$schema` names another draft than Draft-7, if it does."""
    dialect = schema.get("$schema", METASCHEMA_URI)
    if not isinstance(dialect, str) or dialect not in DRAFT_7:
        yield Problem(
            below(path, "$schema"), f"{shown(dialect)} is not Draft-7: leave it out, or write {METASCHEMA_URI!r}"
        )


def pattern_problems(catalogue: Catalogue) -> Iterator[Problem]:
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
