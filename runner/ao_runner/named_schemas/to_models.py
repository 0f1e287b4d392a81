"""From a schema to a pydantic model in Python source.

datamodel-code-generator writes it. It takes imports, base classes and types from keywords of its own, so it is given
Draft-7's keywords only, and what it wrote leaves only where `named_schemas.model_source` finds nothing but
declarations.
"""

import json
import keyword
import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote

from ao_protocol.output import InvalidSchema
from ao_protocol.output.judging import pointer_below
from ao_protocol.output.schema_vetting import vetted_document
from ao_protocol.wire import JsonObject
from ao_runner.errors import RunnerError
from ao_runner.named_schemas.model_gaps import gaps_in_model
from ao_runner.named_schemas.model_source import TAKEN_NAMES, NotOnlyDeclarations, can_be_matched, check_model_source
from ao_runner.named_schemas.registry import UnacceptableSchema
from ao_runner.named_schemas.tree import LISTS, MAPS, SINGLE, rebuild

INSTALL: Final = "pip install 'ao-executor-protocol[models]'"
HEADER: Final = '"""Written by `ao schema to-model`: to change it, change the schema."""'
MAX_REASON_CHARACTERS: Final = 300

_READ: Final = (SINGLE | LISTS | MAPS) - {"prefixItems"} | {
    "$ref",
    "const",
    "default",
    "description",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "pattern",
    "required",
    "title",
    "type",
    "uniqueItems",
}
_PLAIN_TITLE: Final = re.compile("[A-Za-z][A-Za-z0-9 _-]{0,60}")
_DESCRIBING: Final = frozenset({"$defs", "default", "definitions", "description", "title"})
_FORMATS: Final = frozenset({"date", "date-time", "time", "uuid"})
"""Those that are types of Python's own library. Others would need packages, or would change what they read."""


@dataclass(eq=False)
class GeneratorMissing(RunnerError):
    """The library that writes models is not installed."""

    def __str__(self) -> str:
        return f"models are written by datamodel-code-generator, which is not installed; install it with: {INSTALL}"


@dataclass(eq=False)
class BadClassName(RunnerError):
    """A name that Python takes for no class."""

    name: str

    def __str__(self) -> str:
        return f"{self.name!r} cannot be the name of a class; choose one such as 'Review' with --class-name"


@dataclass(eq=False)
class NoModelPossible(RunnerError):
    """No model can be written of a schema."""

    what: str
    reason: str

    def __str__(self) -> str:
        return f"no model can be written of {self.what}: {self.reason}"


def source_of_model(what: str, schema: JsonObject, class_name: str) -> tuple[str, list[str]]:
    """Return Python source that declares a pydantic model of a schema, and what the model leaves out.

    The source imports pydantic and Python's own library, holds declarations only, and ends in a line end. Nothing is
    fetched, run or written.

    Args:
        what: how the schema is called in sentences.
        schema: one that answers can be held to.
        class_name: the name of the model.

    Raises:
        UnacceptableSchema: with every problem and its place.
        BadClassName: the name is none for a class.
        GeneratorMissing: the extra `[models]` is not installed.
        NoModelPossible: the schema says what no model can.
    """
    if not class_name.isidentifier() or keyword.iskeyword(class_name) or class_name.startswith("_"):
        raise BadClassName(class_name)
    try:
        document = vetted_document(schema)
    except InvalidSchema as error:
        raise UnacceptableSchema(what, error.problems) from error
    source, remarks = _generate(what, _apart_from(class_name, _at_top(rebuild(document, _readable))), class_name)
    try:
        declared = check_model_source(source)
    except NotOnlyDeclarations as error:
        raise NoModelPossible(
            what, f"the generated source is not a plain declaration: {error}. Simplify the schema"
        ) from error
    if class_name not in declared:
        raise BadClassName(class_name)
    return source, [*gaps_in_model(document), *remarks]


def class_name_for(name: str, schema: JsonObject) -> str:
    """Return the name of a class: after the title of a schema if it is plain, or what a file or a schema is called."""
    if isinstance(title := schema.get("title"), str) and _PLAIN_TITLE.fullmatch(title):
        name = title
    words = "".join(character if character.isalnum() else " " for character in name).split()
    joined = "".join(word[0].upper() + word[1:] for word in words)
    is_free = joined.isidentifier() and not keyword.iskeyword(joined) and joined not in TAKEN_NAMES
    return joined if is_free else f"Answer{joined}"


def _readable(schema: dict[str, Any]) -> dict[str, Any]:
    """Return what the generator is to read of a schema object."""
    read = {name: rule for name, rule in schema.items() if name in _READ}
    if "$ref" in read:
        # Draft-7 ignores whatever stands beside a reference, and the generator would not.
        return {name: rule for name, rule in read.items() if name in {"$ref", "$defs", "definitions"}}
    for name in ("title", "description"):
        if name in read:
            read[name] = "".join(letter for letter in read[name] if letter.isprintable() or letter == "\n")
    if read.get("format") not in _FORMATS:
        read.pop("format", None)
    if "pattern" in read and not can_be_matched(read["pattern"], is_python=True):
        del read["pattern"]
    if isinstance(items := read.get("items"), list) and read.get("additionalItems") is False:
        # Said by the length, the generator sees a tuple.
        read["maxItems"] = min(len(items), read.get("maxItems", len(items)))
    match read.get("allOf"):
        case [dict(only)] if "$ref" not in only and not (read.keys() - _DESCRIBING - {"allOf"}):
            # The generator takes whatever an allOf holds for classes to inherit from.
            return only | {name: rule for name, rule in read.items() if name != "allOf"}
    return read


def _at_top(document: dict[str, Any]) -> dict[str, Any]:
    """Return the schema with nothing around the reference that is all it consists of."""
    match document:
        case {"allOf": [{"$ref": reference}]} if not document.keys() - _DESCRIBING - {"allOf"}:
            return {name: document[name] for name in ("$defs", "definitions") if name in document} | {"$ref": reference}
    return document


def _apart_from(class_name: str, document: dict[str, Any]) -> dict[str, Any]:
    """Return the schema with other names for definitions that have none, or that of the model, which would give way."""
    moved: dict[str, str] = {}
    for holder in {"$defs", "definitions"} & document.keys():
        kept = {}
        for name, definition in document[holder].items():
            is_free = _letters(name) not in {"", _letters(class_name)}
            new_name = name if is_free else f"{class_name}Definition{len(moved) + 1}"
            kept[new_name] = definition
            if not is_free:
                moved[pointer_below(f"/{holder}", name)] = f"/{holder}/{new_name}"
        document = {**document, holder: kept}
    apart: dict[str, Any] = rebuild(document, lambda schema: _redirected(schema, moved)) if moved else document
    return apart


def _redirected(schema: dict[str, Any], moved: dict[str, str]) -> dict[str, Any]:
    pointer = unquote(schema.get("$ref", "").removeprefix("#"))
    for old, new in moved.items():
        if pointer == old or pointer.startswith(f"{old}/"):
            return {**schema, "$ref": f"#{quote(new + pointer.removeprefix(old))}"}
    return schema


def _letters(name: str) -> str:
    return "".join(filter(str.isalnum, name)).lower()


def _generate(what: str, schema: JsonObject, class_name: str) -> tuple[str, list[str]]:
    try:
        from datamodel_code_generator import generate
        from datamodel_code_generator.enums import DataModelType, InputFileType
        from datamodel_code_generator.format import DatetimeClassType, Formatter, PythonVersion
        from datamodel_code_generator.parser import LiteralType
    except ModuleNotFoundError as error:
        raise GeneratorMissing from error
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            source = generate(
                json.dumps(schema),
                input_file_type=InputFileType.JsonSchema,
                schema_version="draft-07",
                output_model_type=DataModelType.PydanticV2BaseModel,
                target_python_version=PythonVersion.PY_311,
                class_name=class_name,
                custom_file_header=HEADER,
                # Its own formatter is there at once; the settings of whatever project this is run in are none of it.
                formatters=[Formatter.BUILTIN],
                settings_path=Path("/"),
                allow_remote_refs=False,
                treat_dot_as_module=False,
                # Literals need no names; members of enumerations would be named after whatever text they hold.
                enum_field_as_literal=LiteralType.All,
                output_datetime_class=DatetimeClassType.Datetime,
                field_constraints=True,
                use_annotated=True,
                use_double_quotes=True,
                use_schema_description=True,
                use_standard_collections=True,
                use_tuple_for_fixed_items=True,
                use_union_operator=True,
            )
        except Exception as error:  # it names no errors that it keeps to
            reason = " ".join(str(error).split())[:MAX_REASON_CHARACTERS]
            raise NoModelPossible(what, reason or type(error).__name__) from error
    if not isinstance(source, str):
        raise NoModelPossible(what, "it would take several modules; give its definitions plain names")
    return source.rstrip("\n") + "\n", [str(warning.message) for warning in caught]
