"""The check that a schema can be a contract.

It finds every subschema, the values that it applies to, and the target of every `$ref`: by pointer, by `$id` and by an
`$id` that is an anchor (Draft-7 core 8). References are then rewritten as pointers from the root, so that a validator
needs no base URIs. Nothing is fetched (AOX-164).

A reference that leads back to the same value never ends. Alternatives that refer to alternatives double at every level
(measured: 20 levels of two take a million checks). In a recursive schema the engine remembers verdicts, so a reference
back counts once.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from functools import cache, lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import quote, unquote, urldefrag, urljoin, urlsplit

from ao_protocol.contracts.checks import MAX_PROBLEMS, InvalidSchema
from ao_protocol.contracts.explanation import explain
from ao_protocol.contracts.problems import Problem, interoperability_problems, is_interoperable
from ao_protocol.contracts.verdicts import (
    FORMATS_KEYWORD,
    Engine,
    parts_by_pointer,
    pattern_compiles,
    pattern_is_small,
)
from ao_protocol.framing import MAX_DEPTH
from ao_protocol.json_path import ROOT, path_to
from ao_protocol.json_words import shown

MAX_VETTED_SCHEMAS: Final = 64
MAX_SCHEMA_DEPTH: Final = MAX_DEPTH - 2
"""The maximum levels of a schema: it is inside the blueprint, which is inside the invocation."""
MAX_SCHEMA_CHARACTERS: Final = 256 * 1024
MAX_CHECKS: Final = 20_000
"""The maximum number of checks for one value; a large schema of 300 alternatives takes fewer than 1,000."""
MAX_PATTERNS: Final = 100
MAX_LARGE_PATTERNS: Final = 8
"""The maximum number of patterns that compile to more than 256 KiB, which takes up to 30 ms each (measured)."""
METASCHEMA_URI: Final = "http://json-schema.org/draft-07/schema#"
_DRAFT_7: Final = frozenset(
    f"{scheme}://json-schema.org/draft-07/schema{fragment}" for scheme in ("http", "https") for fragment in ("", "#")
)
_LATER_KEYWORDS: Final = frozenset(
    {"$dynamicRef", "$recursiveRef", "dependentRequired", "dependentSchemas", "maxContains", "minContains"}
    | {"prefixItems", "unevaluatedItems", "unevaluatedProperties"}
)
"""Keywords that refuse values in later drafts and that Draft-7 silently ignores."""


@lru_cache(maxsize=MAX_VETTED_SCHEMAS)
def vetted_text(text: str) -> dict[str, Any]:
    """Return `vetted_document` of a schema as JSON, the same object for the same text; nobody changes it."""
    return vetted_document(json.loads(text))


def vetted_document(schema: object, above: str = "") -> dict[str, Any]:
    """Return a private copy of an acceptable schema, in which every reference is a pointer from the root.

    Args:
        schema: Any value; a schema is an object.
        above: The pointer of the schema in the document that will contain it.

    Raises:
        InvalidSchema: The schema is not acceptable, as for `check_schema`.
    """
    if not isinstance(schema, dict):
        raise InvalidSchema((Problem(ROOT, f"{shown(schema)} is not a schema: it must be a JSON object"),))
    if not is_interoperable(schema, MAX_SCHEMA_DEPTH):
        _refuse(interoperability_problems(schema, MAX_SCHEMA_DEPTH))
    text = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
    if len(text) > MAX_SCHEMA_CHARACTERS:
        too_long = f"is {len(text)} characters long as JSON; {MAX_SCHEMA_CHARACTERS} are allowed"
        _refuse([Problem(ROOT, too_long)])
    document: dict[str, Any] = json.loads(text)
    root = Node(document)
    _refuse(_dialect_problems(root))
    _refuse(_metaschema_problems(root))
    catalogue = Catalogue(document)
    _refuse([*catalogue.problems, *_draft_problems(catalogue), *_pattern_problems(catalogue)])
    _refuse(_endless_references(catalogue))
    _refuse(_excessive_cost(catalogue))
    catalogue.write_pointers(above)
    return document


def _refuse(problems: Iterable[Problem]) -> None:
    found = tuple(islice(problems, MAX_PROBLEMS))
    if found:
        raise InvalidSchema(found)


def _dialect_problems(node: "Node") -> Iterator[Problem]:
    """Yield a problem if `$schema` names another draft than Draft-7."""
    dialect = node.schema.get("$schema", METASCHEMA_URI)
    if not isinstance(dialect, str) or dialect not in _DRAFT_7:
        message = f"{shown(dialect)} is not Draft-7: leave it out, or write {shown(METASCHEMA_URI)}"
        yield Problem(node.path("$schema"), message)


def _metaschema_problems(node: "Node") -> Iterator[Problem]:
    """Yield the violations of the Draft-7 metaschema."""
    if _metaschema().accepts(node.schema):
        return iter(())
    return explain(_metaschema(in_words=True), node.path(), node.schema)


@cache
def _metaschema(*, in_words: bool = False) -> Engine:
    """Return the metaschema of jsonschema-rs, or its text, which can explain the problems of each part."""
    document: dict[str, Any] = {"$ref": METASCHEMA_URI}
    if in_words:
        text = Path(__file__).with_name("draft-07.schema.json").read_text(encoding="utf-8")
        document = {name: rule for name, rule in json.loads(text).items() if name not in {"$id", "$schema"}}
    # Patterns and references have their own checks.
    return Engine(document | {FORMATS_KEYWORD: "annotate"})


class Reach(Enum):
    """The values that a subschema applies to, relative to the value of its parent."""

    SAME_VALUE = "the value itself"
    ANY_MEMBER = "members that no name selects"
    ANY_ITEM = "items of an array"
    NOTHING = "nothing until a reference leads to it"


Applied: TypeAlias = Reach | str | int
"""A reach, or a name or an index, if the subschema applies to this member only."""

_OF_A_FRAGMENT: Final = "/?:@!$&'()*+,;="
"""What RFC 3986, 3.5, allows in a fragment besides letters. Some readers of `#/$defs/x` do not decode `%24`."""
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
    """A schema object: its place, its base URI, the target of its `$ref`, and the schemas directly inside it."""

    schema: dict[str, Any]
    pointer: str = ""
    steps: tuple[str | int, ...] = ()
    base_uri: str = ""
    target: str | None = None
    inside: list[tuple[Applied, str]] = field(default_factory=list)

    def path(self, *further: str) -> str:
        """Return the path of the schema object, such as `$.properties.severity`, or of something in it."""
        return path_to((*self.steps, *further))


class Catalogue:
    """The schema objects that a document contains or refers to, by pointer, in the order in which they were found.

    The document satisfies the metaschema. A part that is a schema only because of a reference, such as a member of
    `$defs`, is checked against the metaschema here. `problems` lists the references that lead to no schema.
    """

    def __init__(self, document: dict[str, Any]) -> None:
        self.nodes: Final[dict[str, Node]] = {}
        self.problems: Final[list[Problem]] = []
        self._parts: Final = parts_by_pointer(document)
        self._pointers: Final = {id(part): pointer for pointer, part in self._parts.items()}
        self._resources: Final = {"": ""}
        self._anchors: Final[dict[tuple[str, str], str]] = {}
        self._to_follow: Final[list[Node]] = []
        self._enter(Node(document))
        for node in self._to_follow:  # it grows during the loop
            self.problems.extend(self._follow(node))

    def write_pointers(self, above: str = "") -> None:
        """Rewrite the references as pointers, and remove the identifiers and the content keywords.

        Args:
            above: The pointer of the document itself in the document that will contain it.
        """
        for node in self.nodes.values():
            if node.target is not None:
                node.schema["$ref"] = "#" + quote(above + node.target, safe=_OF_A_FRAGMENT)
            for keyword in ("$id", "$schema", "contentEncoding", "contentMediaType"):
                # If a reference leads to a map of schemas, these keywords are names of schemas in it.
                if isinstance(node.schema.get(keyword), str):
                    del node.schema[keyword]

    def applied(self, node: Node) -> Iterator[tuple[Applied, Node]]:
        """Yield the subschemas that apply to the value or its members. Keywords beside a `$ref` are ignored."""
        if "$ref" not in node.schema:
            for applied, pointer in node.inside:
                if applied is not Reach.NOTHING:
                    yield applied, self.nodes[pointer]
        elif node.target in self.nodes:
            yield Reach.SAME_VALUE, self.nodes[node.target]

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
                pointer = self._pointers[id(schema)]
                node.inside.append((applied, pointer))
                pending.append(Node(schema, pointer, (*node.steps, *steps), node.base_uri))

    def _identify(self, node: Node, identifier: str) -> None:
        if identifier.startswith("#"):
            self._anchors[node.base_uri, identifier[1:]] = node.pointer
            return
        try:
            urlsplit(identifier)
            node.base_uri = urldefrag(urljoin(node.base_uri, identifier)).url
            self._resources[node.base_uri] = node.pointer
        except ValueError:
            self.problems.append(Problem(node.path("$id"), f"{shown(identifier)} is not a URI reference"))

    def _follow(self, node: Node) -> Iterator[Problem]:
        reference: str = node.schema["$ref"]
        place = node.path("$ref")
        target = self._target(node.base_uri, reference)
        if target is None and not reference.startswith("#"):
            leads_out = "leads out of the schema, and nothing is fetched: copy what it names into 'definitions'"
            yield Problem(place, f"{shown(reference)} {leads_out}")
            return
        if target is None or target not in self._parts:
            yield Problem(place, f"{shown(reference)} leads nowhere in this schema")
            return
        schema, node.target = self._parts[target], target
        if isinstance(schema, dict) and target not in self.nodes:
            steps = (token.replace("~1", "/").replace("~0", "~") for token in target.split("/")[1:])
            entered = Node(schema, target, tuple(steps), node.base_uri)
            problems = list(_metaschema_problems(entered))
            if not problems:
                self._enter(entered)
            yield from problems
        elif not isinstance(schema, dict | bool):
            yield Problem(place, f"{shown(reference)} does not lead to a schema")

    def _target(self, base_uri: str, reference: str) -> str | None:
        """Return the pointer, from the root, of a reference's target; None if its URI or anchor is unknown."""
        try:
            joined = f"{base_uri}{reference}" if reference.startswith("#") else urljoin(base_uri, reference)
            uri, fragment = urldefrag(joined)
        except ValueError:
            return None
        if fragment and not fragment.startswith("/"):
            return self._anchors.get((uri, unquote(fragment)))
        resource = self._resources.get(uri)
        return None if resource is None else resource + unquote(fragment)


def _subschemas(schema: dict[str, Any]) -> Iterator[tuple[Applied, tuple[str | int, ...], dict[str, Any]]]:
    """Yield each schema object directly inside a schema, after what it applies to and the steps that lead to it.

    Draft-7 ignores every keyword beside a `$ref`, but a reference can still lead to it.
    """
    for keyword in [keyword for keyword in schema if keyword in _APPLIED]:
        reach, rule = _APPLIED[keyword], schema[keyword]
        found: list[tuple[Applied, tuple[str | int, ...], Any]]
        if keyword in _MAPS:
            found = [(reach or name, (keyword, name), member) for name, member in rule.items()]
        elif isinstance(rule, list):
            found = [(index if reach is None else reach, (keyword, index), item) for index, item in enumerate(rule)]
        else:
            found = [(reach or Reach.ANY_ITEM, (keyword,), rule)]
        yield from (each for each in found if isinstance(each[2], dict))


def _draft_problems(catalogue: Catalogue) -> Iterator[Problem]:
    """Yield a problem for each schema that is written for another draft, by its `$schema` or its keywords."""
    for node in catalogue.nodes.values():
        yield from _dialect_problems(node)
        for keyword in sorted(_LATER_KEYWORDS.intersection(node.schema)):
            message = f"{shown(keyword)} is not in Draft-7, which would ignore it: say it in Draft-7"
            yield Problem(node.path(keyword), message)


def _pattern_problems(catalogue: Catalogue) -> Iterator[Problem]:
    """Yield a problem for each pattern that is not an ECMA-262 regular expression, or for too many patterns."""
    placed: list[tuple[Node, tuple[str, ...], str]] = []
    for node in catalogue.nodes.values():
        if "pattern" in node.schema:
            placed.append((node, ("pattern",), node.schema["pattern"]))
        of_names = node.schema.get("patternProperties", {})
        placed.extend((node, ("patternProperties", pattern), pattern) for pattern in of_names)
    different = len({pattern for *_, pattern in placed})
    if different > MAX_PATTERNS:
        yield Problem(ROOT, f"has {different} different patterns; {MAX_PATTERNS} are allowed")
        return
    large: set[str] = set()
    for node, steps, pattern in placed:
        if pattern_is_small(pattern):
            continue
        large.add(pattern)
        if len(large) > MAX_LARGE_PATTERNS:
            most = f"more than {MAX_LARGE_PATTERNS} patterns that cannot be matched or take over 256 KiB compiled"
            yield Problem(node.path(*steps), f"{shown(pattern)} is one of {most}: use simpler patterns")
            return
        if not pattern_compiles(pattern):
            yield Problem(
                node.path(*steps), f"{shown(pattern)} is not an ECMA-262 regular expression that can be matched"
            )


def _endless_references(catalogue: Catalogue) -> Iterator[Problem]:
    """Yield a problem for each reference by which a schema leads back to itself for the same value."""

    def same_value(node: Node) -> list[Node]:
        return [target for applied, target in catalogue.applied(node) if applied is Reach.SAME_VALUE]

    for node, way_back in _depth_first(list(catalogue.nodes.values()), same_value):
        if way_back is not None:
            place = node.path("$ref") if node.target is not None else node.path()
            yield Problem(place, f"comes back to {way_back.path()} for the same value, without end")


def _excessive_cost(catalogue: Catalogue) -> Iterator[Problem]:
    """Yield a problem for the innermost schema that may take more than `MAX_CHECKS` checks for one value, if any."""
    for node, checks in costs_of(catalogue, lambda _: 1):
        if checks > MAX_CHECKS:
            yield Problem(node.path(), f"one value may take more than {MAX_CHECKS} checks: use fewer alternatives")
            return


def costs_of(catalogue: Catalogue, own: Callable[[Node], float]) -> Iterator[tuple[Node, float]]:
    """Yield the schemas with what each may cost for one value, the innermost first and the whole schema last.

    A schema has its own cost for the value itself, and the costs that apply to its most expensive member. Call this
    only if no reference is endless.
    """
    costs: dict[str, float] = {}

    def applied_to_any(node: Node) -> list[Node]:
        return [target for _, target in catalogue.applied(node)]

    for node, way_back in _depth_first([catalogue.nodes[""]], applied_to_any):
        if way_back is not None:
            continue
        by_reach: dict[Applied, float] = {}
        for applied, target in catalogue.applied(node):
            by_reach[applied] = by_reach.get(applied, 0) + (costs.get(target.pointer) or own(target))
        named = max((cost for applied, cost in by_reach.items() if not isinstance(applied, Reach)), default=0)
        any_of_them = sum(cost for applied, cost in by_reach.items() if isinstance(applied, Reach))
        costs[node.pointer] = own(node) + named + any_of_them
        yield node, costs[node.pointer]


def _depth_first(starts: list[Node], neighbours: Callable[[Node], list[Node]]) -> Iterator[tuple[Node, Node | None]]:
    """Yield every node after its neighbours, and before that each edge from it back to a node still open."""
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
