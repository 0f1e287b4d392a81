"""The published data of a version, in this package: JSON Schemas, requirements, test vectors (SPEC, introduction).

Schemas describe what a receiver accepts, for any language. `.ci/schemas` generates the schemas of wire documents from
the models of this package. The other schemas are written by hand: `vector`, `requirement` and `conformance-report`
describe documents of the suite, which have no model; `invocation-2.1` and `-2.2` describe old versions. Requirements
have the text of SPEC.md, with a reason and advice; a test compares the texts. A vector has an input and the expected
output; its `kind` defines its form. Any implementation, in any language, can be checked with the same files.
"""

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

if TYPE_CHECKING:
    from jsonschema_rs import Registry, Validator

    from ao_protocol.wire import JsonObject


CURRENT_SCHEMAS: Final = "3.0"
"""The default version of schemas, requirements and vectors."""

_SUFFIX: Final = ".schema.json"
_HERE: Final = Path(__file__).parent


class UnknownSchema(LookupError):
    """The version has no schema with this name."""


def schema_names(version: str = CURRENT_SCHEMAS) -> list[str]:
    """Return the names of a version's schemas, such as `event` or `invocation-2.1`; empty for an unknown version."""
    return sorted(file.name.removesuffix(_SUFFIX) for file in (_HERE / "schemas" / version).glob(f"*{_SUFFIX}"))


def load_schema(name: str, version: str = CURRENT_SCHEMAS) -> "JsonObject":
    """Return a published JSON Schema, in Draft 2020-12.

    Args:
        name: The name of the schema, such as `event`, `invocation` or `description`. `schema_names` lists all names.
        version: The protocol version that published it, such as `3.0`.

    Returns:
        A new document, which the caller may change.

    Raises:
        UnknownSchema: The version has no such schema. The message lists the known ones.
    """
    if name not in (names := schema_names(version)):
        known = ", ".join(names) or "none"
        raise UnknownSchema(f"version {version} has no schema {name!r}; known are {known}")
    text = (_HERE / "schemas" / version / f"{name}{_SUFFIX}").read_text(encoding="utf-8")
    return cast("JsonObject", json.loads(text))  # every published schema is an object; a test reads each


def validator_for(name: str, version: str = CURRENT_SCHEMAS, *, part: str | None = None) -> "Validator":
    """Return a validator for a schema. References are resolved among the schemas of its version, and never fetched.

    Patterns are those of ECMAScript, as JSON Schema requires: `$` is the end of the text.

    Args:
        name: The name of the schema.
        version: The protocol version that published it.
        part: A definition in the schema that is used instead of the whole schema, such as `result` of `event`.

    Raises:
        UnknownSchema: The version has no such schema. The message lists the known ones.
    """
    import jsonschema_rs

    schema = {"$ref": f"{name}{_SUFFIX}" + (f"#/$defs/{part}" if part else "")}
    return jsonschema_rs.Draft202012Validator(schema, registry=_registry_of(name, version), offline=True)


@cache
def _registry_of(name: str, version: str) -> "Registry":
    import jsonschema_rs

    return jsonschema_rs.Registry(list(_with_referenced(name, version).items()))


def _with_referenced(name: str, version: str) -> dict[str, "JsonObject"]:
    """Return a schema and those that it refers to, by file name. Others are not loaded, to save start-up time."""
    found: dict[str, JsonObject] = {}
    waiting = [name]
    while waiting:
        name = waiting.pop()
        if (file := name + _SUFFIX) not in found:
            found[file] = load_schema(name, version)
            waiting += re.findall(rf'"([^"]+){re.escape(_SUFFIX)}[#"]', json.dumps(found[file]))
    return found


@dataclass(frozen=True, slots=True)
class Requirement:
    """A requirement of the specification.

    `keyword` is `MUST` or `SHOULD`. `level` is `core`, `standard`, `runner` or `capability:x`. `section` is a number
    such as `2.2`. `text` is the requirement in the words and markup of SPEC.md. `why` explains to an author what goes
    wrong without it and how to keep it. `untestable` is the reason why it cannot be tested from outside, or None.
    """

    id: str
    keyword: str
    level: str
    section: str
    section_title: str
    text: str
    why: str
    untestable: str | None = None

    @property
    def capability(self) -> str | None:
        """The capability to which the requirement belongs; None for any other level."""
        kind, _, name = self.level.partition(":")
        return name if kind == "capability" else None


class UnknownRequirement(LookupError):
    """The version has no requirement with this id."""


def load_requirements(version: str = CURRENT_SCHEMAS) -> list[Requirement]:
    """Return the requirements of a version in the order of SPEC.md; empty for an unknown version."""
    file = _HERE / "requirements" / f"{version}.json"
    if not file.is_file():
        return []
    return [Requirement(**fields) for fields in json.loads(file.read_text(encoding="utf-8"))["requirements"]]


def requirement(name: str, version: str = CURRENT_SCHEMAS) -> Requirement:
    """Return the requirement with an id such as `AOX-016`, in upper or lower case.

    Raises:
        UnknownRequirement: The version has no such id. The message names similar ids.
    """
    by_id = {known.id: known for known in load_requirements(version)}
    if name.upper() not in by_id:
        from difflib import get_close_matches

        near = get_close_matches(name.upper(), by_id, cutoff=0.8)
        hint = f"near to it are {', '.join(near)}" if near else "ids look like AOX-016"
        raise UnknownRequirement(f"version {version} has no requirement {name!r}; {hint}")
    return by_id[name.upper()]


Vector: TypeAlias = dict[str, Any]
"""A vector as in its file; the schema `vector` defines its form."""


def load_vectors(kind: str | None = None, version: str = CURRENT_SCHEMAS) -> list[Vector]:
    """Return the vectors of one kind, or all of them, in the order of their files."""
    return [
        vector
        for _, document in load_vector_files(version)
        for vector in document["vectors"]
        if kind is None or vector["kind"] == kind
    ]


def load_vector_files(version: str = CURRENT_SCHEMAS) -> list[tuple[str, Vector]]:
    """Return the path below the version's folder and the document of every vector file."""
    folder = _HERE / "vectors" / version
    files = sorted(folder.rglob("*.json"), key=lambda file: file.relative_to(folder).parts)
    return [(file.relative_to(folder).as_posix(), json.loads(file.read_text(encoding="utf-8"))) for file in files]
