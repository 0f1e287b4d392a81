"""The published data of a version, inside this package: JSON Schemas, requirements, test vectors (SPEC, introduction).

Schemas describe what a receiver accepts, for any language. `.ci/schemas` generates those of the wire documents from the
models of this package. Written by hand are `vector`, `requirement` and `conformance-report`, which are documents of the
suite and have no model, and `invocation-2.1` and `-2.2`, which are old versions. Requirements have the words of
SPEC.md, with the reason and how to keep them; a test compares both. A vector says what must come out for what goes in;
its `kind` says which one it is. Any implementation, in any language, can be checked with the same files.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

if TYPE_CHECKING:
    from jsonschema_rs import Validator

    from ao_protocol.wire import JsonObject


CURRENT_SCHEMAS: Final = "3.0"
"""The version whose schemas are meant where none is named."""

_SUFFIX: Final = ".schema.json"
_HERE: Final = Path(__file__).parent


class UnknownSchema(LookupError):
    """No schema of that name was published with that version."""

    def __init__(self, name: str, version: str) -> None:
        super().__init__(name, version)
        self.name = name
        self.version = version

    def __str__(self) -> str:
        known = ", ".join(schema_names(self.version)) or "none"
        return f"version {self.version} has no schema {self.name!r}; known are {known}"


def schema_names(version: str = CURRENT_SCHEMAS) -> list[str]:
    """List the schemas of a version, such as `event` and `invocation-2.1`; none for an unknown version."""
    return sorted(file.name.removesuffix(_SUFFIX) for file in (_HERE / "schemas" / version).glob(f"*{_SUFFIX}"))


def load_schema(name: str, version: str = CURRENT_SCHEMAS) -> "JsonObject":
    """Return one of the published JSON Schemas, in Draft 2020-12.

    Args:
        name: Such as `event`, `invocation` or `description`; `schema_names` lists all.
        version: The protocol version that published it.

    Returns:
        A document of the caller's own.

    Raises:
        UnknownSchema: naming those that are there.
    """
    if name not in schema_names(version):
        raise UnknownSchema(name, version)
    text = (_HERE / "schemas" / version / f"{name}{_SUFFIX}").read_text(encoding="utf-8")
    return cast("JsonObject", json.loads(text))  # what is published is an object; a test reads each


def validator_for(
    name: str, version: str = CURRENT_SCHEMAS, *, part: str | None = None, only: str | None = None
) -> "Validator":
    """Return a validator for a schema; its references are resolved among the schemas of its version, never fetched.

    With `part` only the definition of that name inside the schema judges, such as `result` of `event`. With `only` that
    definition is the one alternative that the schema leaves, which is faster than a choice among all.

    Patterns are read as JSON Schema wants them, in ECMAScript's way: `$` is the end of the text.

    Raises:
        UnknownSchema: naming those that are there.
    """
    import jsonschema_rs

    urn = f"urn:ao-executor-protocol:{version}:{name}"
    schema: dict[str, Any] = dict(load_schema(name, version)) if part is None else {"$ref": f"{urn}#/$defs/{part}"}
    if only is not None:
        schema = {**schema, "oneOf": [{"$ref": f"#/$defs/{only}"}]}
    resources = list(_with_referenced(name, version).items())
    return jsonschema_rs.Draft202012Validator(schema, registry=jsonschema_rs.Registry(resources), offline=True)


def _with_referenced(name: str, version: str) -> dict[str, "JsonObject"]:
    """Return a schema and those that it refers to, by their URNs: an executor that starts has no time for others."""
    found: dict[str, JsonObject] = {}
    waiting = [name]
    while waiting:
        name = waiting.pop()
        if (urn := f"urn:ao-executor-protocol:{version}:{name}") not in found:
            found[urn] = load_schema(name, version)
            waiting += re.findall(rf'"urn:ao-executor-protocol:{re.escape(version)}:([^"#]+)', json.dumps(found[urn]))
    return found


@dataclass(frozen=True, slots=True)
class Requirement:
    """One demand of the specification.

    `keyword` is `MUST` or `SHOULD`. `level` is `core`, `standard`, `runner` or `capability:x`. `section` is a number
    such as `2.2`. `text` is the demand in SPEC.md's words and markup; `why` tells an author what goes wrong without
    it and how to get it right. `untestable` is the reason why nobody can test it from outside, where that is so.
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
        """The capability whose declaration makes this a duty; None where the level is no capability's."""
        kind, _, name = self.level.partition(":")
        return name if kind == "capability" else None


class UnknownRequirement(LookupError):
    """No requirement has that id in that version."""

    def __init__(self, name: str, version: str, near: list[str]) -> None:
        super().__init__(name, version, near)
        self.name = name
        self.version = version
        self.near = near

    def __str__(self) -> str:
        hint = f"near to it are {', '.join(self.near)}" if self.near else "ids look like AOX-016"
        return f"version {self.version} has no requirement {self.name!r}; {hint}"


def load_requirements(version: str = CURRENT_SCHEMAS) -> list[Requirement]:
    """Return the requirements of a version in the order of SPEC.md; none for an unknown version."""
    file = _HERE / "requirements" / f"{version}.json"
    if not file.is_file():
        return []
    return [Requirement(**fields) for fields in json.loads(file.read_text(encoding="utf-8"))["requirements"]]


def requirement(name: str, version: str = CURRENT_SCHEMAS) -> Requirement:
    """Return the requirement with an id such as `AOX-016`.

    Raises:
        UnknownRequirement: naming the ids that look like it.
    """
    by_id = {known.id: known for known in load_requirements(version)}
    if name not in by_id:
        from difflib import get_close_matches

        raise UnknownRequirement(name, version, get_close_matches(name.upper(), by_id, cutoff=0.8))
    return by_id[name]


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
    folder = _HERE / "vectors" / version
    files = sorted(folder.rglob("*.json"), key=lambda file: file.relative_to(folder).parts)
    return [(file.relative_to(folder).as_posix(), json.loads(file.read_text(encoding="utf-8"))) for file in files]
