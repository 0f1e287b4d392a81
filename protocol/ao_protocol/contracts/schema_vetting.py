"""Whether a schema can be a contract: the questions, in the order in which they can be asked. Nothing is ever fetched.

Every schema inside a schema is found, what each is applied to, and where every `$ref` leads: by pointer, by `$id` and
by an `$id` that is an anchor (Draft-7 core 8). References are then written as pointers from the root, so that a
validator needs no base URIs.

A reference that comes back to the same value never ends. Alternatives that refer to alternatives double at every level
(measured: 20 levels of two take a million checks). Inside a recursive schema the engine remembers verdicts, so a way
back counts once.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from itertools import islice
from typing import Any, Final, TypeAlias
from urllib.parse import quote, unquote, urldefrag, urljoin, urlsplit

from ao_protocol.contracts.problems import Problem, interoperability_problems, is_interoperable, shown
from ao_protocol.contracts.verdicts import FORMATS_KEYWORD, Engine, parts_by_pointer, pattern_compiles, pointer_below
from ao_protocol.framing import MAX_DEPTH
from ao_protocol.json_path import ROOT, below

METASCHEMA_URI: Final = "http://json-schema.org/draft-07/schema#"
_FORMATS_LEFT_OPEN: Final = {FORMATS_KEYWORD: "annotate"}
"""Vetting judges patterns and references itself."""
_LEADS_NOWHERE: Final = "leads nowhere in this schema"
_LEADS_OUT: Final = "leads out of the schema, and nothing is fetched: copy what it names into 'definitions'"


class Reach(Enum):
    """What a subschema is applied to, seen from the value that its parent judges."""

    SAME_VALUE = "the value itself"
    ANY_MEMBER = "members that no name selects"
    ANY_ITEM = "items of an array"
    NOTHING = "nothing until a reference leads to it"


Applied: TypeAlias = Reach | str | int
"""A name or an index: applied to this member only."""

_MAPS: Final = frozenset({"definitions", "dependencies", "patternProperties", "properties"})
_APPLIED: Final[dict[str, Reach | None]] = {
    **dict.fromkeys(("allOf", "anyOf", "dependencies", "else", "if", "not", "oneOf", "then"), Reach.SAME_VALUE),
    **dict.fromkeys(("additionalProperties", "patternProperties", "propertyNames"), Reach.ANY_MEMBER),
    **dict.fromkeys(("additionalItems", "contains"), Reach.ANY_ITEM),
    "definitions": Reach.NOTHING,
    "items": None,
    "properties": None,
}


@dataclass(slots=True)
class Node:
    """A schema object: where it stands, its base URI, where its `$ref` leads, and the schemas directly inside it."""

    schema: dict[str, Any]
    pointer: str
    path: str
    base_uri: str
    target: str | None = None
    inside: list[tuple[Applied, str]] = field(default_factory=list)


class Catalogue:
    """Every schema object that a document holds or refers to, by pointer, in the order in which they were found.

    The document satisfies the metaschema. What only a reference makes a schema, such as a member of `$defs`, is
    checked against it here. `problems` lists the references that lead to no schema.
    """

    def __init__(self, document: dict[str, Any]) -> None:
        self.document: Final = document
        self.nodes: Final[dict[str, Node]] = {}
        self.problems: Final[list[Problem]] = []
        self._parts: Final = parts_by_pointer(document)
        self._resources: Final = {"": ""}
        self._anchors: Final[dict[tuple[str, str], str]] = {}
        self._to_follow: Final[list[Node]] = []
        self._enter(Node(document, "", ROOT, ""))
        for node in self._to_follow:  # it grows meanwhile
            self.problems.extend(self._follow(node))

    def write_pointers(self, above: str = "") -> None:
        """Rewrite the references as pointers, and drop the identifiers and the content keywords.

        Args:
            above: the pointer at which the document itself will stand.
        """
        for node in self.nodes.values():
            if node.target is not None:
                node.schema["$ref"] = "#" + quote(above + node.target)
            for keyword in ("$id", "$schema", "contentEncoding", "contentMediaType"):
                # Where a reference takes a map of schemas for a schema, these are names in it and stand for schemas.
                if isinstance(node.schema.get(keyword), str):
                    del node.schema[keyword]

    def _enter(self, entered: Node) -> None:
        pending = [entered]
        while pending:
            node = pending.pop()
            if node.pointer in self.nodes:
                continue
            self.nodes[node.pointer] = node
            if "$ref" in node.schema:
                self._to_follow.append(node)
            elif isinstance(node.schema.get("$id"), str):
                self._identify(node, node.schema["$id"])
            for applied, steps, schema in _subschemas(node.schema):
                pointer, path = node.pointer, node.path
                for step in steps:
                    pointer, path = pointer_below(pointer, step), below(path, step)
                node.inside.append((applied, pointer))
                pending.append(Node(schema, pointer, path, node.base_uri))

    def _identify(self, node: Node, identifier: str) -> None:
        if identifier.startswith("#"):
            self._anchors[node.base_uri, identifier[1:]] = node.pointer
            return
        try:
            urlsplit(identifier)
            node.base_uri = urldefrag(urljoin(node.base_uri, identifier)).url
            self._resources[node.base_uri] = node.pointer
        except ValueError:
            self.problems.append(Problem(below(node.path, "$id"), f"{shown(identifier)} is not a URI reference"))

    def _follow(self, node: Node) -> Iterator[Problem]:
        reference: str = node.schema["$ref"]
        place = below(node.path, "$ref")
        target = self._target(node.base_uri, reference)
        if target is None or target not in self._parts:
            leads_out = target is None and not reference.startswith("#")
            yield Problem(place, f"{shown(reference)} {_LEADS_OUT if leads_out else _LEADS_NOWHERE}")
            return
        schema, node.target = self._parts[target], target
        if isinstance(schema, dict) and target not in self.nodes:
            path = _path_of(target)
            problems = list(metaschema_problems(schema, path))
            if not problems:
                self._enter(Node(schema, target, path, node.base_uri))
            yield from problems
        elif not isinstance(schema, dict | bool):
            yield Problem(place, f"{shown(reference)} does not lead to a schema")

    def _target(self, base_uri: str, reference: str) -> str | None:
        """Return the pointer, from the root, to which a reference leads, or None when no URI or anchor is known."""
        try:
            joined = f"{base_uri}{reference}" if reference.startswith("#") else urljoin(base_uri, reference)
            uri, fragment = urldefrag(joined)
        except ValueError:
            return None
        if fragment and not fragment.startswith("/"):
            return self._anchors.get((uri, unquote(fragment)))
        resource = self._resources.get(uri)
        return None if resource is None else resource + unquote(fragment)


def metaschema_problems(schema: object, path: str) -> Iterator[Problem]:
    """Yield where a schema breaks the Draft-7 metaschema; `path` is the place of the schema itself."""
    if _quick_metaschema().accepts(schema):
        return iter(())
    from ao_protocol.contracts.validation_errors import explain

    return explain(_worded_metaschema(), path, schema)


@lru_cache(maxsize=1)
def _quick_metaschema() -> Engine:
    return Engine({"$ref": METASCHEMA_URI, **_FORMATS_LEFT_OPEN})


@lru_cache(maxsize=1)
def _worded_metaschema() -> Engine:
    from jsonschema import Draft7Validator

    kept = {keyword: rule for keyword, rule in Draft7Validator.META_SCHEMA.items() if keyword not in {"$id", "$schema"}}
    return Engine(kept | _FORMATS_LEFT_OPEN)


def _subschemas(schema: dict[str, Any]) -> Iterator[tuple[Applied, tuple[str | int, ...], dict[str, Any]]]:
    """Yield what each schema object directly inside a schema is applied to, the steps that lead to it, and itself.

    Beside a `$ref` Draft-7 ignores every keyword; what stands there can still be referred to.
    """
    for keyword, rule in schema.items():
        if keyword not in _APPLIED:
            continue
        reach = _APPLIED[keyword]
        found: list[tuple[Applied, tuple[str | int, ...], Any]]
        if keyword in _MAPS:
            found = [(reach or name, (keyword, name), member) for name, member in rule.items()]
        elif isinstance(rule, list):
            found = [(index if reach is None else reach, (keyword, index), item) for index, item in enumerate(rule)]
        else:
            found = [(reach or Reach.ANY_ITEM, (keyword,), rule)]
        yield from (each for each in found if isinstance(each[2], dict))


def _path_of(pointer: str) -> str:
    path = ROOT
    for token in pointer.split("/")[1:]:
        path = below(path, token.replace("~1", "/").replace("~0", "~"))
    return path


MAX_CHECKS: Final = 20_000
"""The most checks that one value may take; a large schema of 300 alternatives takes under 1,000."""


def endless_references(catalogue: Catalogue) -> Iterator[Problem]:
    """Yield each reference by which a schema comes back to itself without going on to a smaller value."""

    def same_value(node: Node) -> list[Node]:
        return [target for applied, target in _applied(catalogue, node) if applied is Reach.SAME_VALUE]

    for node, way_back in _depth_first(list(catalogue.nodes.values()), same_value):
        if way_back is not None:
            place = below(node.path, "$ref") if node.target is not None else node.path
            yield Problem(place, f"comes back to {way_back.path} for the same value, without end")


def excessive_cost(catalogue: Catalogue) -> Iterator[Problem]:
    """Yield the innermost schema that may take more than `MAX_CHECKS` checks for one value, if there is one.

    Call it only where nothing is endless.
    """
    costs: dict[str, int] = {}

    def applied_to_any(node: Node) -> list[Node]:
        return [target for _, target in _applied(catalogue, node)]

    for node, way_back in _depth_first([catalogue.nodes[""]], applied_to_any):
        if way_back is None:
            costs[node.pointer] = _cost(catalogue, node, costs)
            if costs[node.pointer] > MAX_CHECKS:
                yield Problem(node.path, f"one value may take more than {MAX_CHECKS} checks: use fewer alternatives")
                return


def _cost(catalogue: Catalogue, node: Node, costs: dict[str, int]) -> int:
    """Return the checks for the value itself and for whichever of its members takes most."""
    by_reach: dict[Applied, int] = {}
    for applied, target in _applied(catalogue, node):
        by_reach[applied] = by_reach.get(applied, 0) + costs.get(target.pointer, 1)
    named = max((cost for applied, cost in by_reach.items() if not isinstance(applied, Reach)), default=0)
    return 1 + named + sum(cost for applied, cost in by_reach.items() if isinstance(applied, Reach))


def _applied(catalogue: Catalogue, node: Node) -> Iterator[tuple[Applied, Node]]:
    """Yield what a schema applies to the value or its members; beside a `$ref` everything is ignored."""
    if "$ref" not in node.schema:
        for applied, pointer in node.inside:
            if applied is not Reach.NOTHING:
                yield applied, catalogue.nodes[pointer]
    elif node.target in catalogue.nodes:
        yield Reach.SAME_VALUE, catalogue.nodes[node.target]


def _depth_first(starts: list[Node], neighbours: Callable[[Node], list[Node]]) -> Iterator[tuple[Node, Node | None]]:
    """Yield every node after its neighbours, and before that each way from it back to a node still open."""
    is_open: dict[str, bool] = {}
    for start in starts:
        if start.pointer in is_open:
            continue
        is_open[start.pointer] = True
        stack = [(start, iter(neighbours(start)))]
        while stack:
            node, remaining = stack[-1]
            neighbour = next(remaining, None)
            if neighbour is None:
                stack.pop()
                is_open[node.pointer] = False
                yield node, None
            elif neighbour.pointer not in is_open:
                is_open[neighbour.pointer] = True
                stack.append((neighbour, iter(neighbours(neighbour))))
            elif is_open[neighbour.pointer]:
                yield node, neighbour


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
