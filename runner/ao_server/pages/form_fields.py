"""A form from a JSON Schema: its fields, and the value that a filled-in form stands for. The path is a field's name."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from ao_protocol.contracts import Problem
from ao_protocol.json_path import ROOT, below
from ao_protocol.wire import JsonObject
from ao_protocol.written import NotInteroperable, parse_json

Kind = Literal["text", "line", "number", "boolean", "check", "choice", "lines", "object", "json"]
MOST_LEVELS: Final = 4
MOST_FIELDS: Final = 300
MOST_REFERENCES: Final = 10
SHORT: Final = 120
"""A string of at most this length is written on one line."""
INPUT_TYPES: Final = {"date": "date", "time": "time", "email": "email", "uri": "url"}
MISSING: Final = re.compile(r'"(.+)" is a required property')
"""The message about a property that is missing, which is a problem of its own field."""


@dataclass(frozen=True, slots=True)
class FormField:
    """A field of a form, or for `object` a group of fields."""

    name: str
    key: str
    kind: Kind
    label: str
    required: bool
    description: str = ""
    hint: str = ""
    input_type: str = "text"
    options: Sequence[tuple[str, str]] = ()
    """For `choice`: the JSON of each value, and its text."""
    parts: Sequence["FormField"] = ()
    default: Any = None


def fields_of(schema: JsonObject) -> list[FormField]:
    """Return the fields for the parameters of a schema; empty if its value can be written as JSON only."""
    return _parts(resolved(schema, schema), schema, ROOT, is_sure=True, left=[MOST_FIELDS])


def resolved(schema: Any, root: JsonObject) -> JsonObject:  # noqa: ANN401  # true and false are schemas, too
    """Return a schema in place of a reference to it. What leads nowhere accepts all."""
    for _ in range(MOST_REFERENCES):
        if not isinstance(schema, dict) or not isinstance(reference := schema.get("$ref"), str):
            break
        found: Any = root
        for step in reference.removeprefix("#").split("/")[1:]:
            found = found.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
        schema = found
    return schema if isinstance(schema, dict) and "$ref" not in schema else {}


def _parts(schema: JsonObject, root: JsonObject, place: str, *, is_sure: bool, left: list[int]) -> list[FormField]:
    properties: Any = schema.get("properties")
    required: Any = schema.get("required", [])
    if not isinstance(properties, dict) or not properties:
        return []
    left[0] -= len(properties)
    if left[0] < 0:
        return []
    return [
        _field(key, resolved(inner, root), (root, below(place, key)), is_sure=is_sure and key in required,
               required=key in required, left=left)
        for key, inner in properties.items()
    ]  # fmt: skip


def _field(
    key: str,
    schema: Mapping[str, Any],
    where: tuple[JsonObject, str],
    *,
    is_sure: bool,
    required: bool,
    left: list[int],
) -> FormField:
    root, name = where
    kind = _kind(schema)
    parts: list[FormField] = []
    if kind == "object":
        levels = name.count(".") + name.count("[")
        parts = _parts(dict(schema), root, name, is_sure=is_sure, left=left) if levels < MOST_LEVELS else []
        kind = "object" if parts else "json"
    if kind == "boolean" and is_sure:
        kind = "check"
    values = schema.get("enum", [schema.get("const")]) if kind == "choice" else []
    return FormField(
        name=name,
        key=key,
        kind=kind,
        label=str(schema.get("title") or key),
        required=required,
        description=str(schema.get("description") or ""),
        hint=_hint(kind, schema),
        input_type=INPUT_TYPES.get(str(schema.get("format")), "text"),
        options=[(json.dumps(one), one if isinstance(one, str) else json.dumps(one)) for one in values],
        parts=parts,
        default=schema.get("default"),
    )


def _kind(schema: Mapping[str, Any]) -> Kind:
    if isinstance(schema.get("enum"), list) or "const" in schema:
        return "choice"
    names = schema.get("type", "object" if "properties" in schema else None)
    one = [name for name in (names if isinstance(names, list) else [names]) if name != "null"]
    items: Any = schema.get("items")
    if one == ["array"] and isinstance(items, dict) and items.get("type") == "string":
        return "lines"
    if one == ["string"]:
        is_short = schema.get("maxLength", SHORT + 1) <= SHORT or "format" in schema or "pattern" in schema
        return "line" if is_short else "text"
    return _KINDS.get(one[0], "json") if len(one) == 1 else "json"


_KINDS: Final[dict[Any, Kind]] = {"integer": "number", "number": "number", "boolean": "boolean", "object": "object"}


def _hint(kind: Kind, schema: Mapping[str, Any]) -> str:
    """Return in words what a value has to be."""
    said = []
    if kind == "number":
        said.append("a whole number" if "integer" in str(schema.get("type")) else "a number")
    if kind == "lines":
        said.append("one item a line")
        if isinstance(allowed := schema["items"].get("enum"), list):
            said.append(f"of {', '.join(map(str, allowed[:20]))}")
    if kind == "json":
        said.append("JSON")
    names = {
        "minimum": "at least {}", "exclusiveMinimum": "more than {}", "maximum": "at most {}",
        "exclusiveMaximum": "less than {}", "multipleOf": "a multiple of {}", "minLength": "at least {} characters",
        "maxLength": "at most {} characters", "minItems": "at least {} items", "maxItems": "at most {} items",
        "pattern": "pattern {}", "format": "format {}",
    }  # fmt: skip
    plain = [("minLength", 1), *(("format", name) for name in INPUT_TYPES)]
    telling = [name for name in names if name in schema and (name, schema[name]) not in plain]
    said += [names[name].format(schema[name]) for name in telling]
    if isinstance(examples := schema.get("examples"), list) and examples:
        said.append(f"such as {examples[0] if isinstance(examples[0], str) else json.dumps(examples[0])}")
    return ", ".join(said)


def every_field(fields: Sequence[FormField]) -> Iterator[FormField]:
    """Yield all fields, also those of groups."""
    for field in fields:
        yield field
        yield from every_field(field.parts)


def value_of(fields: Sequence[FormField], given: Mapping[str, str], problems: list[Problem]) -> JsonObject:
    """Return the object that a form stands for. An empty field is left out.

    A number that is none stays text, so that its validation says what is wrong. JSON that is none goes to `problems`.
    """
    value: JsonObject = {}
    for field in fields:
        text = given.get(field.name, "").replace("\r\n", "\n")
        match field.kind:
            case "object":
                inner = value_of(field.parts, given, problems)
                if inner or field.required:
                    value[field.key] = inner
            case "check":
                value[field.key] = text == "true"
            case "lines" if text.strip():
                value[field.key] = [line for line in text.split("\n") if line.strip()]
            case "text" | "line" if text:
                value[field.key] = text
            case "number" | "boolean" | "choice" | "json" if text.strip():
                try:
                    value[field.key] = parse_json(text)
                except NotInteroperable as error:
                    value[field.key] = text
                    if field.kind == "json":
                        problems.append(Problem(field.name, f"is not JSON: {error}"))
    return value


def texts_of(fields: Sequence[FormField], value: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts of a form that stands for a value. Fields that it does not set show their defaults."""
    texts: dict[str, str] = {}
    for field in fields:
        inner = value.get(field.key, field.default)
        if field.kind == "object":
            texts |= texts_of(field.parts, inner if isinstance(inner, dict) else {})
        elif inner is not None or field.key in value:
            is_text = field.kind in {"text", "line"} and isinstance(inner, str)
            is_list = field.kind == "lines" and isinstance(inner, list)
            texts[field.name] = inner if is_text else "\n".join(map(str, inner)) if is_list else _written(inner, field)
    return texts


def _written(value: object, field: FormField) -> str:
    return json.dumps(value, indent=2 if field.kind == "json" else None)


def by_field(fields: Sequence[FormField], problems: Sequence[Problem]) -> dict[str, list[str]]:
    """Return the messages of problems by the field that they are about; the rest under the empty name."""
    names = sorted((field.name for field in every_field(fields)), key=len, reverse=True)
    found: dict[str, list[str]] = {}
    for problem in problems:
        missing = MISSING.fullmatch(problem.message)
        path = problem.path if missing is None else below(problem.path, missing[1])
        name = next((one for one in names if path == one or path.startswith((f"{one}.", f"{one}["))), "")
        if missing is not None and path == name:
            found.setdefault(name, []).append("is required")
        else:
            place = "" if problem.path == name else f"{problem.path}: "
            found.setdefault(name, []).append(f"{place}{problem.message}")
    return found
