"""Where every `$ref` leads. A reference stays inside its schema; nothing is ever fetched.

References by pointer, by `$id` and by an `$id` that is an anchor are followed (Draft-7 core 8), and then written
as pointers, so that whoever judges needs no base URIs.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, unquote, urldefrag, urljoin

from ao_protocol.json_path import ROOT, below
from ao_protocol.output.problems import Problem, shown
from ao_protocol.output.schema_vetting.metaschema import metaschema_problems
from ao_protocol.output.schema_vetting.subschemas import subschemas
from ao_protocol.output.verdicts import pointer_below

_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,8}")
_LEADS_NOWHERE: Final = "leads nowhere in this schema"
_LEADS_OUT: Final = "leads out of the schema, and nothing is fetched: copy what it names into 'definitions'"


@dataclass(slots=True)
class Node:
    """A schema object of the document: where it stands, against which URI it resolves, where its `$ref` leads."""

    schema: dict[str, Any]
    pointer: str
    path: str
    base_uri: str
    target: str | None = None


@dataclass(slots=True)
class Catalogue:
    """Every schema object that a document holds or refers to, by pointer, and what has an `$id`."""

    document: dict[str, Any]
    nodes: dict[str, Node] = field(default_factory=dict)
    resources: dict[str, str] = field(default_factory=dict)
    anchors: dict[tuple[str, str], str] = field(default_factory=dict)

    def enter(self, node: Node) -> None:
        """Record a schema and all that are inside it."""
        pending = [node]
        while pending:
            node = pending.pop()
            if node.pointer in self.nodes:
                continue
            self._identify(node)
            self.nodes[node.pointer] = node
            pending.extend(self._inside(node))

    def _identify(self, node: Node) -> None:
        identifier = node.schema.get("$id")
        if not isinstance(identifier, str) or "$ref" in node.schema:
            return
        if identifier.startswith("#"):
            self.anchors[node.base_uri, identifier[1:]] = node.pointer
            return
        node.base_uri = urldefrag(urljoin(node.base_uri, identifier)).url
        self.resources[node.base_uri] = node.pointer

    def _inside(self, node: Node) -> Iterator[Node]:
        for subschema in subschemas(node.schema):
            if isinstance(subschema.schema, dict):
                pointer, path = node.pointer, node.path
                for step in subschema.steps:
                    pointer, path = pointer_below(pointer, step), below(path, step)
                yield Node(subschema.schema, pointer, path, node.base_uri)


def resolve_references(document: dict[str, Any]) -> tuple[Catalogue, list[Problem]]:
    """Find where every reference of a document leads, and say which lead nowhere.

    What only a reference makes a schema, such as a member of `$defs`, is checked against the metaschema here.
    """
    catalogue = Catalogue(document, resources={"": ""})
    catalogue.enter(Node(document, "", ROOT, ""))
    problems: list[Problem] = []
    resolved: set[str] = set()
    while waiting := [node for node in catalogue.nodes.values() if node.pointer not in resolved]:
        for node in waiting:
            resolved.add(node.pointer)
            if "$ref" in node.schema:
                problems.extend(_follow(catalogue, node))
    return catalogue, problems


def _follow(catalogue: Catalogue, node: Node) -> Iterator[Problem]:
    reference: str = node.schema["$ref"]
    place = below(node.path, "$ref")
    target = _target(catalogue, node.base_uri, reference)
    if target is None:
        yield Problem(place, f"{shown(reference)} {_LEADS_NOWHERE if reference.startswith('#') else _LEADS_OUT}")
        return
    try:
        schema = schema_at(catalogue.document, target)
    except LookupError:
        yield Problem(place, f"{shown(reference)} {_LEADS_NOWHERE}")
        return
    node.target = target
    if isinstance(schema, dict) and target not in catalogue.nodes:
        problems = list(metaschema_problems(schema, _path_of(target)))
        if not problems:
            catalogue.enter(Node(schema, target, _path_of(target), node.base_uri))
        yield from problems
    elif not isinstance(schema, dict | bool):
        yield Problem(place, f"{shown(reference)} does not lead to a schema")


def _target(catalogue: Catalogue, base_uri: str, reference: str) -> str | None:
    """Return the pointer, from the root, to which a reference leads, or None when it leads out."""
    joined = f"{base_uri}{reference}" if reference.startswith("#") else urljoin(base_uri, reference)
    uri, fragment = urldefrag(joined)
    if fragment and not fragment.startswith("/"):
        return catalogue.anchors.get((uri, unquote(fragment)))
    resource = catalogue.resources.get(uri)
    return None if resource is None else resource + unquote(fragment)


def _path_of(pointer: str) -> str:
    path = ROOT
    for token in pointer.split("/")[1:]:
        path = below(path, token.replace("~1", "/").replace("~0", "~"))
    return path


def write_pointers(catalogue: Catalogue, above: str) -> None:
    """Rewrite the references as pointers from the root, and drop what is of no use to whoever judges.

    That is the identifiers, which pointers replace, and the content keywords, which are annotations here. `above` is
    the pointer at which the document itself will stand.
    """
    for node in catalogue.nodes.values():
        if node.target is not None:
            node.schema["$ref"] = "#" + quote(above + node.target)
        for keyword in ("$id", "$schema", "contentEncoding", "contentMediaType"):
            # Where a reference takes a map of schemas for a schema, these are names in it and stand for schemas.
            if isinstance(node.schema.get(keyword), str):
                del node.schema[keyword]


def schema_at(document: object, pointer: str) -> object:
    """Return what a JSON pointer (RFC 6901) names.

    Raises:
        LookupError: there is nothing at that place.
    """
    found = document
    for token in pointer.split("/")[1:]:
        step = token.replace("~1", "/").replace("~0", "~")
        match found:
            case dict():
                found = found[step]
            case list() if _INDEX.fullmatch(step):
                found = found[int(step)]
            case _:
                raise LookupError(pointer)
    return found
