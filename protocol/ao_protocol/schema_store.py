"""The published JSON Schemas of every wire document, as data inside this package (SPEC, introduction).

They describe what a receiver accepts, for any language. The models of this package are held against them by a test.
"""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from jsonschema_rs import Validator

    from ao_protocol.wire import JsonObject

CURRENT_SCHEMAS: Final = "3.0"
"""The version whose schemas are meant where none is named."""

_SUFFIX: Final = ".schema.json"


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
    folder = _folder(version)
    return sorted(file.name.removesuffix(_SUFFIX) for file in folder.iterdir()) if folder.is_dir() else []


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
    text = (_folder(version) / f"{name}{_SUFFIX}").read_text(encoding="utf-8")
    return cast("JsonObject", json.loads(text))  # what is published is an object; a test reads each


def validator_for(name: str, version: str = CURRENT_SCHEMAS, *, part: str | None = None) -> "Validator":
    """Return a validator for a schema; its references are resolved among the schemas of its version, never fetched.

    With `part` only the definition of that name inside the schema judges, such as `result` of `event`.

    Patterns are read as JSON Schema wants them, in ECMAScript's way: `$` is the end of the text.

    Raises:
        UnknownSchema: naming those that are there.
    """
    import jsonschema_rs

    urn = f"urn:ao-executor-protocol:{version}:{name}"
    schema = load_schema(name, version) if part is None else {"$ref": f"{urn}#/$defs/{part}"}
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


def _folder(version: str) -> Path:
    return Path(__file__).parent / "schemas" / version
