"""The published test vectors, as data inside this package (SPEC, introduction).

A vector says what must come out for what goes in; which one it is, its `kind` says. Any implementation, in any
language, can be held against the same files; their form is the schema `vector`.
"""

import json
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, TypeAlias

from ao_protocol.schema_store import CURRENT_SCHEMAS

Vector: TypeAlias = dict[str, Any]
"""A vector as it stands in its file; the schema `vector` says what it holds."""


def load_vectors(kind: str | None = None, version: str = CURRENT_SCHEMAS) -> list[Vector]:
    """Return the vectors of one kind, or all of them, in the order of their files."""
    return [
        vector
        for _, document in load_vector_files(version)
        for vector in document["vectors"]
        if kind is None or vector["kind"] == kind
    ]


def load_vector_files(version: str = CURRENT_SCHEMAS) -> list[tuple[str, Vector]]:
    """Return the path, below the version's folder, and the document of every vector file."""
    return list(_files_below(files("ao_protocol") / "vectors" / version, ""))


def _files_below(folder: Traversable, path: str) -> Iterator[tuple[str, Vector]]:
    for entry in sorted(folder.iterdir(), key=lambda found: found.name):
        if entry.is_dir():
            yield from _files_below(entry, f"{path}{entry.name}/")
        elif entry.name.endswith(".json"):
            yield f"{path}{entry.name}", json.loads(entry.read_text(encoding="utf-8"))
