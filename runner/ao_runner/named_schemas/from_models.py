"""Convert a pydantic model into a schema for an output contract.

pydantic writes JSON Schema 2020-12. This module converts it into Draft-7; the check of schemas refuses everything that
Draft-7 cannot express, as for any other schema.
"""

import contextlib
import importlib
import re
import sys
import traceback
import warnings
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel
from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema

from ao_protocol.wire import JsonObject
from ao_runner.errors import RunnerError
from ao_runner.named_schemas.vetting import LISTS, MAPS, SINGLE, vet

_REFERENCE: Final = re.compile(r"(?P<module>\w+(\.\w+)*):(?P<model>\w+(\.\w+)*)")
_DEFS: Final = "#/$defs/"
_DEFINITIONS: Final = "#/definitions/"
_NOT_IN_DRAFT_7: Final = ("discriminator", "contentSchema")
"""Hints of other vocabularies. They contain references that Draft-7 validators do not follow."""


class ModelUnusable(RunnerError):
    """A reference does not lead to a model with a schema."""

    def __init__(self, reference: str, reason: str) -> None:
        super().__init__(f"{reference}: {reason}")


class _SparingGenerator(GenerateJsonSchema):
    """Omits titles that only repeat the name of the field, because they would cost tokens in every prompt."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ANN401  # pydantic's own signature
        return False


def schema_of_model(reference: str, folder: Path) -> tuple[JsonObject, list[str]]:
    """Return the schema of the model at `module:Model`, and pydantic's warnings about it.

    The module is imported with all side effects; its output goes to stderr.

    Args:
        reference: A module and, after a colon, a class in it: `reviews.models:Review`, `models:Review.Comment`.
        folder: The folder to search for modules first.

    Raises:
        ModelUnusable: There is no such model, or it has no schema; the error says which and what to do.
        UnacceptableSchema: The model's schema cannot be an output contract.
    """
    named = _REFERENCE.fullmatch(reference)
    if named is None:
        raise ModelUnusable(reference, "write it as module:Model, such as reviews.models:Review")
    with _foreign_code(reference, folder), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        module = importlib.import_module(named["module"])
        try:
            found = attrgetter(named["model"])(module)
        except AttributeError as error:
            there = [
                name for name, value in vars(module).items() if _is_model(value) and value.__module__ == named["module"]
            ]
            listed = f"its models are {', '.join(there)}" if there else "no pydantic model is there"
            raise ModelUnusable(reference, f"{named['module']} has no {named['model']}; {listed}") from error
        if not _is_model(found):
            raise ModelUnusable(reference, f"{found!r:.80} is no pydantic model: derive one from pydantic.BaseModel")
        document = schema_of_class(found, reference)
    return document, [str(warning.message) for warning in caught]


def schema_of_class(model: type[BaseModel], name: str) -> JsonObject:
    """Return the schema of a model; `name` is its name in errors.

    Raises:
        ModelUnusable: pydantic cannot create a schema of it.
        UnacceptableSchema: The model's schema cannot be an output contract.
    """
    try:
        schema = model.model_json_schema(schema_generator=_SparingGenerator)
    except PydanticUserError as error:
        raise ModelUnusable(name, f"pydantic makes no schema of it: {error.message}") from error
    document = to_draft_7(schema)
    vet(f"the schema of {name}", document)
    return document


def to_draft_7(schema: JsonObject) -> JsonObject:
    """Convert pydantic's 2020-12 schema into Draft-7: definitions, references, and the items of tuples."""
    document: JsonObject = _in_draft_7(schema)
    match document:
        case {"allOf": [{"$ref": str(reference)}], "definitions": dict(definitions), **others} if not others:
            # The schema of a recursive model; validators expect the type of value at the top.
            target = definitions.get(reference.removeprefix(_DEFINITIONS))
            return {**target, "definitions": definitions} if isinstance(target, dict) else document
    return document


def _in_draft_7(schema: Any) -> Any:  # noqa: ANN401  # booleans, too
    if not isinstance(schema, dict):
        return schema
    said = {keyword: _rule(keyword, rule) for keyword, rule in schema.items() if keyword not in _NOT_IN_DRAFT_7}
    if "$defs" in said:
        said["definitions"] = said.pop("$defs") | said.get("definitions", {})
    if isinstance(positional := said.pop("prefixItems", None), list):
        rest = said.pop("items", None)
        said["items"] = positional
        if rest is not None:
            said["additionalItems"] = rest
        elif said.get("maxItems", len(positional) + 1) <= len(positional):
            said["additionalItems"] = False
    if isinstance(reference := said.get("$ref"), str):
        said["$ref"] = reference.replace(_DEFS, _DEFINITIONS, 1) if reference.startswith(_DEFS) else reference
        if len(said) > 1:  # Draft-7 ignores all keywords beside a reference
            said["allOf"] = [{"$ref": said.pop("$ref")}, *said.get("allOf", [])]
    return said


def _rule(keyword: str, rule: Any) -> Any:  # noqa: ANN401  # any JSON
    if keyword in LISTS and isinstance(rule, list):
        return [_in_draft_7(item) for item in rule]
    if keyword in MAPS and isinstance(rule, dict):
        return {name: _in_draft_7(member) for name, member in rule.items()}
    return _in_draft_7(rule) if keyword in SINGLE else rule


def _is_model(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, BaseModel)


@contextlib.contextmanager
def _foreign_code(reference: str, folder: Path) -> Iterator[None]:
    """Allow imports of a foreign module from a folder, without writing files, and with its output on stderr."""
    path, writes_bytecode = list(sys.path), sys.dont_write_bytecode
    sys.path.insert(0, str(folder.absolute()))
    sys.dont_write_bytecode = True
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except RunnerError:
        raise
    except ModuleNotFoundError as error:
        looked = f"no module {error.name!r} in {sys.path[0]}, nor among the installed packages"
        raise ModelUnusable(reference, f"{looked}; name its folder with --path, or install it beside ao") from error
    except (Exception, SystemExit) as error:  # a module may raise whatever it likes
        told = f"{type(error).__name__}: {' '.join(str(error).split())}".rstrip(": ")[:300]
        # The last line of its own code is more useful than one in a library that it called.
        frames = [one for one in traceback.extract_tb(error.__traceback__) if one.filename.startswith(sys.path[0])]
        place = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
        advice = "ao imports the module, so it must be importable"
        raise ModelUnusable(reference, f"its code raised {told}{place}; {advice}") from error
    finally:
        sys.path[:], sys.dont_write_bytecode = path, writes_bytecode
