"""The one door to jsonschema-rs, which gives every verdict.

It compiles a schema in microseconds, remembers what it already decided inside recursive schemas, matches patterns
in linear time, compares `uniqueItems` by hash and does decimal arithmetic exactly (all measured, see
docs/decisions/validation.md). The formats of Draft-7 are checked unless the root says `"x-formats": "annotate"`;
other formats and content keywords are annotations. Nothing is ever fetched.
"""

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

if TYPE_CHECKING:
    import jsonschema_rs

MAX_BACKTRACKS: Final = 10_000
"""Steps that a pattern with look-around or a back-reference gets for one string; every other pattern is linear."""

MAX_PATTERN_BYTES: Final = 4 * 1024 * 1024
"""Size of a compiled pattern, at which compiling takes up to 30 ms (measured)."""

MAX_COMPILED_PATTERNS: Final = 256

FORMATS_KEYWORD: Final = "x-formats"
"""`"annotate"` at the root of a schema leaves its formats unchecked."""

_DOCUMENT: Final = "urn:contract"


class Engine:
    """Verdicts on any part of one vetted schema, each part compiled when it is first asked for."""

    def __init__(self, document: dict[str, Any]) -> None:
        import jsonschema_rs

        self.document: Final = document
        self._checks_formats: Final = document.get(FORMATS_KEYWORD) != "annotate"
        self._registry = jsonschema_rs.Registry([(_DOCUMENT, document)], draft=jsonschema_rs.Draft7)
        self._parts: dict[str, jsonschema_rs.Draft7Validator] = {}
        self._keywords: dict[tuple[str, str], jsonschema_rs.Draft7Validator] = {}

    def accepts(self, pointer: str, value: object) -> bool:
        """Tell whether the schema at a pointer (`""`, `/properties/a`) accepts a value."""
        return self._part(pointer).is_valid(value)

    def accepts_an_item(self, pointer: str, items: list[object]) -> bool:
        """Tell whether the schema at a pointer accepts at least one of the items."""
        validator = self._keywords.get((pointer, "contains"))
        if validator is None:
            validator = self._judge({"contains": _reference(pointer)})
            self._keywords[pointer, "contains"] = validator
        return validator.is_valid(items)

    def keyword_accepts(self, pointer: str, keyword: str, rule: object, value: object) -> bool:
        """Tell whether one keyword of the schema at a pointer, taken alone, accepts a value."""
        validator = self._keywords.get((pointer, keyword))
        if validator is None:
            validator = _compiled({keyword: rule}, None, self._checks_formats)
            self._keywords[pointer, keyword] = validator
        return validator.is_valid(value)

    def _part(self, pointer: str) -> "jsonschema_rs.Draft7Validator":
        validator = self._parts.get(pointer)
        if validator is None:
            validator = self._judge(_reference(pointer))
            self._parts[pointer] = validator
        return validator

    def _judge(self, schema: dict[str, Any]) -> "jsonschema_rs.Draft7Validator":
        return _compiled(schema, self._registry, self._checks_formats)


def _reference(pointer: str) -> dict[str, Any]:
    return {"$ref": f"{_DOCUMENT}#{quote(pointer)}"}


def matches(pattern: str, text: str) -> bool:
    """Tell whether a pattern is found in a text. A match that takes too many steps is no match."""
    return _pattern(pattern).is_valid(text)


def gives_up_on(pattern: str, text: str) -> bool:
    """Tell whether it was the bound on backtracking that ended a match."""
    from jsonschema_rs import ValidationErrorKind

    errors = _pattern(pattern).iter_errors(text)
    return any(isinstance(error.kind, ValidationErrorKind.BacktrackLimitExceeded) for error in errors)


def pattern_compiles(pattern: str) -> bool:
    """Tell whether a pattern is an ECMA-262 regular expression of a size that can be matched."""
    from jsonschema_rs import ValidationError

    try:
        _pattern(pattern)
    except ValidationError:
        return False
    return True


@lru_cache(maxsize=MAX_COMPILED_PATTERNS)
def _pattern(pattern: str) -> "jsonschema_rs.Draft7Validator":
    return _compiled({"pattern": pattern})


def _compiled(
    schema: dict[str, Any], registry: "jsonschema_rs.Registry | None" = None, checks_formats: bool = False
) -> "jsonschema_rs.Draft7Validator":
    import jsonschema_rs

    return jsonschema_rs.Draft7Validator(
        schema,
        registry=registry,
        offline=True,
        validate_formats=checks_formats,
        pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=MAX_BACKTRACKS, size_limit=MAX_PATTERN_BYTES),
    )
