"""The only module that imports jsonschema-rs, which gives every verdict.

It compiles a schema in microseconds, remembers verdicts inside recursive schemas, matches patterns in linear time,
compares `uniqueItems` by hash and calculates with exact decimals (measured, see docs/decisions/validation.md). Formats
other than those of Draft-7, and content keywords, are annotations. Nothing is ever fetched.
"""

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote

if TYPE_CHECKING:
    import jsonschema_rs

MAX_BACKTRACKS: Final = 10_000
"""Steps that a pattern with look-around or a back-reference gets for one string; every other pattern is linear."""

MAX_PATTERN_BYTES: Final = 4 * 1024 * 1024
"""Size of a compiled pattern, at which compiling takes up to 30 ms (measured)."""

FORMATS_KEYWORD: Final = "x-formats"
"""`"annotate"` at the root of a schema leaves its formats unchecked."""

DRAFT_7_FORMATS: Final = frozenset(
    {"date", "date-time", "email", "hostname", "idn-email", "idn-hostname", "ipv4", "ipv6", "iri", "iri-reference"}
    | {"json-pointer", "regex", "relative-json-pointer", "time", "uri", "uri-reference", "uri-template"}
)

_DOCUMENT: Final = "urn:contract"


class Engine:
    """Verdicts on any part of one schema, whose references are pointers; each part is compiled on first use."""

    def __init__(self, document: dict[str, Any]) -> None:
        import jsonschema_rs

        self.document: Final = document
        self.checks_formats: Final = document.get(FORMATS_KEYWORD) != "annotate"
        self._registry: Final = jsonschema_rs.Registry([(_DOCUMENT, document)], draft=jsonschema_rs.Draft7)
        self._root: Final = self._compiled("")
        self._schemas: dict[str, Any] = {}
        self._pointers: dict[int, str] = {}
        self._parts: dict[int, jsonschema_rs.Draft7Validator] = {}

    def accepts(self, value: object) -> bool:
        """Tell whether the schema accepts a value."""
        return self._root.is_valid(value)

    def part_accepts(self, schema: dict[str, Any] | bool, value: object) -> bool:
        """Tell whether a part of the document, the very object or a boolean, accepts a value."""
        if isinstance(schema, bool):
            return schema
        part = self._parts.get(id(schema))
        if part is None:
            self._locate_parts()
            part = self._parts[id(schema)] = self._compiled(self._pointers[id(schema)])
        return part.is_valid(value)

    def dereferenced(self, schema: Any) -> Any:  # noqa: ANN401  # booleans, too
        """Return the part of the document that a schema refers to, or the schema itself without a reference."""
        while isinstance(schema, dict) and "$ref" in schema:
            self._locate_parts()
            schema = self._schemas[unquote(schema["$ref"].removeprefix("#"))]
        return schema

    def _locate_parts(self) -> None:
        if not self._schemas:
            self._schemas = parts_by_pointer(self.document)
            self._pointers = {id(part): pointer for pointer, part in self._schemas.items()}

    def _compiled(self, pointer: str) -> "jsonschema_rs.Draft7Validator":
        return _compile({"$ref": f"{_DOCUMENT}#{quote(pointer)}"}, self._registry, self.checks_formats)


@lru_cache(maxsize=256)
def keyword_engine(keyword: str, rule: str | float | bool) -> "jsonschema_rs.Draft7Validator":
    """Return the compiled schema that has one keyword only.

    Raises:
        jsonschema_rs.ValidationError: the keyword is `pattern`, and the rule is no ECMA-262 regular expression.
    """
    return _compile({keyword: rule})


def matches(pattern: str, text: str) -> bool:
    """Tell whether a pattern is found in a text. A match that takes too many steps is no match."""
    return keyword_engine("pattern", pattern).is_valid(text)


def gives_up_on(pattern: str, text: str) -> bool:
    """Tell whether the bound on backtracking ended a match."""
    from jsonschema_rs import ValidationErrorKind

    errors = keyword_engine("pattern", pattern).iter_errors(text)
    return any(isinstance(error.kind, ValidationErrorKind.BacktrackLimitExceeded) for error in errors)


def pattern_compiles(pattern: str) -> bool:
    """Tell whether a pattern is an ECMA-262 regular expression of a size that can be matched."""
    from jsonschema_rs import ValidationError

    try:
        keyword_engine("pattern", pattern)
    except ValidationError:
        return False
    return True


def parts_by_pointer(document: object) -> dict[str, Any]:
    """Return a document and everything in it, each by its JSON pointer from the root."""
    parts: dict[str, Any] = {}
    pending: list[tuple[str, Any]] = [("", document)]
    while pending:
        pointer, part = pending.pop()
        parts[pointer] = part
        members = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
        pending.extend((pointer_below(pointer, step), member) for step, member in members)
    return parts


def pointer_below(pointer: str, step: str | int) -> str:
    """Return the JSON pointer (RFC 6901) one step further down."""
    return f"{pointer}/{str(step).replace('~', '~0').replace('/', '~1')}"


def _compile(
    schema: dict[str, Any], registry: "jsonschema_rs.Registry | None" = None, checks_formats: bool = True
) -> "jsonschema_rs.Draft7Validator":
    import jsonschema_rs

    return jsonschema_rs.Draft7Validator(
        schema,
        registry=registry,
        offline=True,
        validate_formats=checks_formats,
        pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=MAX_BACKTRACKS, size_limit=MAX_PATTERN_BYTES),
    )
