"""Verdicts on values by a schema, with jsonschema-rs, and explanations of refusals, with jsonschema.

jsonschema-rs decides. It compiles a schema in microseconds, remembers verdicts inside recursive schemas, matches
patterns in linear time, compares `uniqueItems` by hash and calculates with exact decimals (measured, see
docs/decisions/validation.md). Formats other than those of Draft-7, and content keywords, are annotations. Nothing is
fetched.

jsonschema words the problems of a refused value. Its import takes 75 ms, so it happens only then. Its keyword functions
receive a validator that asks jsonschema-rs and does not descend by itself, so nothing recurses and no valid part is
visited. This module words the problems of keywords that jsonschema evaluates slowly or differently.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import quote, unquote

from ao_protocol.contracts.problems import Problem, listed, shown
from ao_protocol.json_path import below
from ao_protocol.short_text import shorten

if TYPE_CHECKING:
    import jsonschema
    import jsonschema_rs

MAX_BACKTRACKS: Final = 10_000
"""The maximum steps of a pattern with look-around or a back-reference for one string; others are linear."""
MAX_PATTERN_BYTES: Final = 4 * 1024 * 1024
"""The maximum size of a compiled pattern. At this size compiling takes up to 30 ms (measured)."""
MAX_SMALL_PATTERN_BYTES: Final = 256 * 1024
"""The maximum size of a small pattern: compiling takes up to 1 ms, matching up to 2 µs a character (measured)."""
MAX_EXPLAINING_STEPS: Final = 100_000
"""The maximum effort to find the reasons of a refusal: 0.5 s (measured). A step compiles one value of the schema."""
STEPS_OF_A_PART: Final = 20
STEPS_OF_A_CHECK: Final = 0.2
STEPS_OF_A_MEMBER: Final = 0.3
"""Of a keyword's value, when jsonschema goes through it."""
MAX_MESSAGE_CHARACTERS: Final = 1_000

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
        _keyword_engine("pattern", pattern)
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
def _keyword_engine(keyword: str, rule: str | float | bool) -> "jsonschema_rs.Draft7Validator":
    """Return the compiled schema with only this keyword."""
    return _compile({keyword: rule})


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


@dataclass(slots=True)
class _Refused:
    """A value and the part of the schema that refuses it, to be explained next. jsonschema sets `parent`."""

    schema: JSON
    path: str
    value: JSON
    parent: object = None


_Words: TypeAlias = "Iterator[str | _Refused | jsonschema.ValidationError]"


class _TooMuchEffort(Exception):
    """The reasons of a refusal take more than the allowed steps to find."""


class _Effort:
    """The steps of one explanation, whether or not the engine has compiled a part before."""

    def __init__(self) -> None:
        self._left = float(MAX_EXPLAINING_STEPS)
        self._checks: dict[int, Callable[[object], bool]] = {}

    def spend(self, steps: float) -> None:
        self._left -= steps
        if self._left < 0:
            raise _TooMuchEffort

    def accepts(self, engine: Engine, schema: dict[str, Any] | bool, value: object) -> bool:
        """Return whether a part of the engine's document, the same object or a boolean, accepts a value."""
        if isinstance(schema, bool):
            return schema
        check = self._checks.get(id(schema))
        if check is None:
            self.spend(STEPS_OF_A_PART + engine.count_reached(schema))
            check = self._checks[id(schema)] = engine.part(schema).is_valid
        self.spend(STEPS_OF_A_CHECK)
        return check(value)


def explain(engine: Engine, path: str, value: object) -> Iterator[Problem]:
    """Yield the problems of a value that the engine's schema refuses, lazily, at least one.

    The order is that of the schema's keywords and of the value's members. A part of a schema is explained once for each
    value and place. If the reasons take more than 100,000 steps to find, the last problem is the part that was reached.
    """
    # A key is validated at the path of its object, so the path alone does not identify the value.
    visited: set[tuple[int, str, int]] = set()
    effort = _Effort()
    start = _Refused(engine.dereferenced(engine.document), path, value)
    stack: list[tuple[_Refused, Iterator[Problem | _Refused]]] = [(start, iter([start]))]
    while stack:
        refused, steps = stack[-1]
        try:
            step = next(steps, None)
        except _TooMuchEffort:
            yield Problem(refused.path, f"{_not_valid(refused)}, for reasons that take too many steps to find")
            return
        if step is None:
            stack.pop()
        elif isinstance(step, Problem):
            yield step
        elif (site := (id(step.schema), step.path, id(step.value))) not in visited:
            visited.add(site)
            stack.append((step, _explain_refused(engine, step, effort)))


def _not_valid(refused: _Refused) -> str:
    return f"{shown(refused.value)} is not valid under {shown(refused.schema)}"


def _explain_refused(engine: Engine, refused: _Refused, effort: _Effort) -> Iterator[Problem | _Refused]:
    if refused.schema is False:
        yield Problem(refused.path, f"False schema does not allow {shown(refused.value)}")
        return
    asking = _Asking(engine, refused.path, refused.value, _shortened(refused.value), effort)
    words = _words()
    explained = False
    for keyword in [keyword for keyword in refused.schema if keyword in words]:
        rule = _shortened(refused.schema[keyword])
        effort.spend(STEPS_OF_A_MEMBER * len(rule) if isinstance(rule, dict | list) else STEPS_OF_A_CHECK)
        for error in words[keyword](asking, rule, asking.shown, refused.schema):
            explained = True
            if isinstance(error, _Refused):
                yield error
                continue
            message = error if isinstance(error, str) else error.message
            yield Problem(refused.path, shorten(message, MAX_MESSAGE_CHARACTERS), keyword)
            alternatives: Any = () if isinstance(error, str) else error.context or ()
            effort.spend(STEPS_OF_A_PART * len(alternatives))
            meant = [each for each in alternatives if _may_be_meant(engine, each)]
            yield from meant if len(meant) == 1 else ()
    if not explained:
        yield Problem(refused.path, _not_valid(refused))


@dataclass(slots=True)
class _Asking:
    """The validator that jsonschema's keyword functions receive. `shown` is the value with a short `repr`."""

    engine: Engine
    path: str
    value: JSON
    shown: JSON
    effort: _Effort
    schema: JSON = None

    def is_type(self, instance: object, name: str) -> bool:
        from jsonschema import Draft7Validator

        return bool(Draft7Validator.TYPE_CHECKER.is_type(instance, name))

    def evolve(self, schema: object) -> "_Asking":
        self.schema = schema
        return self

    def is_valid(self, instance: object) -> bool:
        return not self.descend(instance, self.schema)

    def descend(
        self, instance: object, schema: JSON, path: str | int | None = None, schema_path: object = None
    ) -> tuple[_Refused, ...]:
        value = self.value if instance is self.shown else instance
        schema = self.engine.dereferenced(getattr(schema, "whole", schema))
        if self.effort.accepts(self.engine, schema, value):
            return ()
        return (_Refused(schema, self.path if path is None else below(self.path, path), value),)


_SHORTENED: Final[dict[type, Any]] = {
    kind: type(kind.__name__, (kind,), {"__repr__": lambda short: shown(short.whole)}) for kind in (dict, list, str)
}


def _shortened(value: JSON) -> JSON:
    """Return a copy of a value for messages of jsonschema: its `repr` is cut, at a cost independent of its size."""
    if type(value) not in _SHORTENED:
        return value
    copy = _SHORTENED[type(value)](value)
    copy.whole = value
    return copy


def _may_be_meant(engine: Engine, alternative: JSON) -> bool:
    """Return whether the value has the type that an alternative requires, and its identifying constants."""
    schema, value = alternative.schema, alternative.value
    if not isinstance(schema, dict) or not _agrees(schema, value, "type"):
        return False
    members = value if isinstance(value, dict) else {}
    declared = {name: engine.dereferenced(member) for name, member in schema.get("properties", {}).items()}
    return all(_agrees(declared[name], members[name], "const", "enum") for name in declared if name in members)


def _agrees(schema: JSON, value: object, *keywords: str) -> bool:
    from jsonschema import Draft7Validator

    judged = [keyword for keyword in keywords if isinstance(schema, dict) and keyword in schema]
    judge = Draft7Validator({})
    return not any([*_words()[keyword](judge, schema[keyword], _shortened(value), schema)] for keyword in judged)


@cache
def _words() -> Mapping[str, Callable[..., _Words]]:
    """Return the function for each keyword's problems: that of jsonschema, or one that asks jsonschema-rs."""
    from jsonschema import Draft7Validator

    additional_items = Draft7Validator.VALIDATORS["additionalItems"]

    def additional_items_beside_list(asking: _Asking, rule: JSON, instance: JSON, schema: dict[str, Any]) -> _Words:
        # jsonschema fails if `items` is a boolean.
        return additional_items(asking, rule, instance, schema) if isinstance(schema.get("items"), list) else iter(())

    return {
        **Draft7Validator.VALIDATORS,
        "additionalItems": additional_items_beside_list,
        "additionalProperties": _additional_properties,
        "format": _format,
        "multipleOf": _answered("multipleOf", "{0!r} is not a multiple of {1!r}"),
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "uniqueItems": _answered("uniqueItems", "{0!r} has non-unique elements"),
    }


def _answered(keyword: str, words: str) -> Callable[..., _Words]:
    """Return a keyword function that asks jsonschema-rs whether the keyword accepts the value."""

    def explain_keyword(asking: _Asking, rule: JSON, instance: JSON, schema: dict[str, Any]) -> _Words:
        if not _keyword_engine(keyword, schema[keyword]).is_valid(asking.value):
            yield words.format(instance, rule)

    return explain_keyword


def _pattern(asking: _Asking, rule: JSON, instance: JSON, schema: dict[str, Any]) -> _Words:
    from jsonschema_rs import ValidationErrorKind

    errors = _keyword_engine("pattern", schema["pattern"]).iter_errors(asking.value)
    kinds = [isinstance(error.kind, ValidationErrorKind.BacktrackLimitExceeded) for error in errors]
    if any(kinds):
        yield f"{instance!r} could not be matched with {rule!r} in {MAX_BACKTRACKS} steps"
    elif kinds:
        yield f"{instance!r} does not match {rule!r}"


def _format(asking: _Asking, rule: JSON, instance: JSON, schema: dict[str, Any]) -> _Words:
    if asking.engine.checks_formats:
        yield from _answered("format", "{0!r} is not a {1!r}")(asking, rule, instance, schema)


def _pattern_properties(asking: _Asking, rule: JSON, instance: JSON, _schema: dict[str, Any]) -> _Words:
    for pattern, below_pattern in rule.items() if isinstance(instance, dict) else ():
        for name in instance:
            if _matches(asking, pattern, name):
                yield from asking.descend(instance[name], below_pattern, path=name)


def _additional_properties(asking: _Asking, rule: JSON, instance: JSON, schema: dict[str, Any]) -> _Words:
    if not isinstance(instance, dict):
        return
    declared, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    extra = (
        name for name in instance if name not in declared and not any(_matches(asking, each, name) for each in patterns)
    )
    if rule is not False:
        for name in extra:
            yield from asking.descend(instance[name], rule, path=name)
        return
    names = sorted(extra)
    if names and patterns:
        verb = "does" if len(names) == 1 else "do"
        yield f"{listed(names)} {verb} not match any of the regexes: {listed(sorted(patterns))}"
    elif names:
        verb = "was" if len(names) == 1 else "were"
        yield f"Additional properties are not allowed ({listed(names)} {verb} unexpected)"


def _matches(asking: _Asking, pattern: str, text: str) -> bool:
    """Return whether a pattern is found in a text. A search that takes too many steps finds nothing."""
    asking.effort.spend(STEPS_OF_A_CHECK)
    return _keyword_engine("pattern", pattern).is_valid(text)
