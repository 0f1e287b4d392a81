"""Every schema inside a schema, what each is applied to, and where every `$ref` leads. Nothing is ever fetched.

References by pointer, by `$id` and by an `$id` that is an anchor are followed (Draft-7 core 8), and then written as
pointers from the root, so that a validator needs no base URIs.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import Any, Final, TypeAlias
from urllib.parse import quote, unquote, urldefrag, urljoin, urlsplit

from ao_protocol.json_path import ROOT, below
from ao_protocol.output.problems import Problem, shown
from ao_protocol.output.verdicts import FORMATS_KEYWORD, Engine, parts_by_pointer, pointer_below

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
    from ao_protocol.output.validation_errors import explain

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
