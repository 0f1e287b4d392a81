"""Verdicts on values by a schema, with jsonschema-rs.

It compiles a schema in microseconds, remembers verdicts inside recursive schemas, matches patterns in linear time,
compares `uniqueItems` by hash and calculates with exact decimals (measured, see docs/decisions/validation.md). Formats
other than those of Draft-7, and content keywords, are annotations. Nothing is fetched.
"""

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import quote, unquote

if TYPE_CHECKING:
    import jsonschema_rs

MAX_BACKTRACKS: Final = 10_000
"""The maximum steps of a pattern with look-around or a back-reference for one string; others are linear."""
MAX_PATTERN_BYTES: Final = 4 * 1024 * 1024
"""The maximum size of a compiled pattern. At this size compiling takes up to 30 ms (measured)."""
MAX_SMALL_PATTERN_BYTES: Final = 256 * 1024
"""The maximum size of a small pattern: compiling takes up to 1 ms, matching up to 2 µs a character (measured)."""

FORMATS_KEYWORD: Final = "x-formats"
"""The keyword at the root of a schema whose value `"annotate"` makes all formats annotations."""
DRAFT_7_FORMATS: Final = frozenset(
    {"date", "date-time", "email", "hostname", "idn-email", "idn-hostname", "ipv4", "ipv6", "iri", "iri-reference"}
    | {"json-pointer", "regex", "relative-json-pointer", "time", "uri", "uri-reference", "uri-template"}
)

_DOCUMENT: Final = "urn:contract"

JSON: TypeAlias = Any
"""A value or a part of a schema."""


class Engine:
    """Verdicts on any part of one schema, whose references are pointers. Each part is compiled at its first use."""

    def __init__(self, document: dict[str, Any]) -> None:
        import jsonschema_rs

        self.document: Final = document
        self.checks_formats: Final = document.get(FORMATS_KEYWORD) != "annotate"
        self._registry: Final = jsonschema_rs.Registry([(_DOCUMENT, document)], draft=jsonschema_rs.Draft7)
        self._root: Final = self._compiled("")
        self._schemas: dict[str, Any] = {}
        self._pointers: dict[int, str] = {}
        self._parts: dict[int, jsonschema_rs.Draft7Validator] = {}
        self._keywords: dict[tuple[int, str], jsonschema_rs.Draft7Validator] = {}
        self._counts: dict[int, int] = {}

    def accepts(self, value: object) -> bool:
        """Return whether the schema accepts a value."""
        return self._root.is_valid(value)

    def part(self, schema: dict[str, Any]) -> "jsonschema_rs.Draft7Validator":
        """Return the validator of a part of the document, which is the same object."""
        part = self._parts.get(id(schema))
        if part is None:
            self._locate_parts()
            part = self._parts[id(schema)] = self._compiled(self._pointers[id(schema)])
        return part

    def keyword_accepts(self, schema: dict[str, Any], keyword: str, value: object) -> bool:
        """Return whether one keyword of a part of the document, which asserts something, accepts a value."""
        if keyword == "format" and not self.checks_formats:
            return True
        check = self._keywords.get((id(schema), keyword))
        if check is None:
            check = self._keywords[id(schema), keyword] = _compile({keyword: schema[keyword]})
        return check.is_valid(value)

    def dereferenced(self, schema: JSON) -> JSON:
        """Return the part of the document that a schema refers to, or the schema itself without a reference."""
        while isinstance(schema, dict) and "$ref" in schema:
            self._locate_parts()
            schema = self._schemas[unquote(schema["$ref"].removeprefix("#"))]
        return schema

    def count_reached(self, schema: JSON) -> int:
        """Return the number of values in a part of the document and in what it refers to."""
        if (known := self._counts.get(id(schema))) is not None:
            return known
        self._locate_parts()
        pending, reached = [schema], {id(schema)}
        while pending:
            part = pending.pop()
            members = list(part.values() if isinstance(part, dict) else part if isinstance(part, list) else ())
            if isinstance(part, dict) and isinstance(reference := part.get("$ref"), str):
                members.append(self._schemas.get(unquote(reference.removeprefix("#"))))
            pending += (member for member in members if id(member) not in reached)
            reached.update(map(id, members))
        return self._counts.setdefault(id(schema), len(reached))

    def _locate_parts(self) -> None:
        if not self._schemas:
            self._schemas = parts_by_pointer(self.document)
            self._pointers = {id(part): pointer for pointer, part in self._schemas.items()}

    def _compiled(self, pointer: str) -> "jsonschema_rs.Draft7Validator":
        return _compile({"$ref": f"{_DOCUMENT}#{quote(pointer)}"}, self._registry, self.checks_formats)


def parts_by_pointer(document: object) -> dict[str, Any]:
    """Return a document and all parts of it, each by its JSON pointer from the root."""
    parts: dict[str, Any] = {}
    pending: list[tuple[str, Any]] = [("", document)]
    while pending:
        pointer, part = pending.pop()
        parts[pointer] = part
        members = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
        pending.extend((pointer_below(pointer, step), member) for step, member in members)
    return parts


def pointer_below(pointer: str, step: str | int) -> str:
    """Return the JSON pointer (RFC 6901) of an item or a member of the value at a pointer."""
    return f"{pointer}/{str(step).replace('~', '~0').replace('/', '~1')}"


def pattern_compiles(pattern: str) -> bool:
    """Return whether a pattern is an ECMA-262 regular expression of an acceptable size."""
    from jsonschema_rs import ValidationError

    try:
        pattern_engine(pattern)
    except ValidationError:
        return False
    return True


@lru_cache(maxsize=256)
def pattern_is_small(pattern: str, *, may_backtrack: bool = True) -> bool:
    """Return whether a pattern compiles to at most 256 KiB, and to an automaton unless it may backtrack."""
    import jsonschema_rs

    kind = jsonschema_rs.FancyRegexOptions if may_backtrack else jsonschema_rs.RegexOptions
    try:
        jsonschema_rs.Draft7Validator({"pattern": pattern}, pattern_options=kind(size_limit=MAX_SMALL_PATTERN_BYTES))
    except jsonschema_rs.ValidationError:
        return False
    return True


def seconds_a_character(rules: dict[str, Any]) -> float:
    """Return the most time that a schema may take, without those inside it, for a character of a value (measured)."""
    patterns = [*([rules["pattern"]] if "pattern" in rules else []), *rules.get("patternProperties", {})]
    compared = sum(len(rules[keyword]) for keyword in ("dependencies", "enum", "required") if keyword in rules)
    seconds = 1e-7 + 5e-8 * compared + (4e-6 if "multipleOf" in rules else 0)
    for pattern in patterns:
        if pattern_is_small(pattern, may_backtrack=False):
            seconds += 2e-6
        else:
            seconds += 4e-5 if pattern_is_small(pattern) else 1.2e-4
    return seconds


@lru_cache(maxsize=256)
def pattern_engine(pattern: str) -> "jsonschema_rs.Draft7Validator":
    """Return the compiled schema with only this pattern."""
    return _compile({"pattern": pattern})


def search_failure(pattern: str, value: object) -> bool | None:
    """Return whether a search took too many steps; None if the value has a match or is no text."""
    from jsonschema_rs import ValidationErrorKind

    for error in pattern_engine(pattern).iter_errors(value):
        return isinstance(error.kind, ValidationErrorKind.BacktrackLimitExceeded)
    return None


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
