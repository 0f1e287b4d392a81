"""From a pydantic model to a schema that answers can be held to.

pydantic writes JSON Schema 2020-12. What Draft-7 says otherwise is said in Draft-7 here; what it cannot say is
refused by the vetting of schemas, as from everybody else.
"""

import contextlib
import difflib
import importlib
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel
from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema

from ao_protocol.wire import JsonObject
from ao_runner.errors import RunnerError
from ao_runner.named_schemas.registry import vet
from ao_runner.named_schemas.remarks import LISTS, MAPS, SINGLE

MAX_TOLD_CHARACTERS: Final = 300

_DEFS: Final = "#/$defs/"
_DEFINITIONS: Final = "#/definitions/"
_NOT_IN_DRAFT_7: Final = ("discriminator", "contentSchema")
"""Hints of other vocabularies. They hold references that Draft-7 readers do not follow."""


@dataclass(eq=False)
class ModelUnusable(RunnerError):
    """What was named is no model of which a schema can be made."""

    reference: str
    reason: str

    def __str__(self) -> str:
        return f"{self.reference}: {self.reason}"


class _SparingGenerator(GenerateJsonSchema):
    """Leaves out titles that only repeat the field's name: they would cost tokens in every prompt."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ANN401  # pydantic's own signature
        return False


def schema_of_model(reference: str, folder: Path) -> tuple[JsonObject, list[str]]:
    """Return the schema of the model at `module:Model`, and what pydantic remarked about it.

    The module is imported, so whatever it does when it is imported happens here; what it prints goes to stderr.

    Args:
        reference: a module and, after a colon, a class in it: `reviews.models:Review`, `models:Review.Comment`.
        folder: where modules are looked for first.

    Raises:
        ModelUnusable: there is no such model, or no schema of it; it says which and what to do.
        UnacceptableSchema: the model's schema holds what no output contract can.
    """
    with _foreign_code(reference, folder), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        document = schema_of_class(_find_model(reference), reference)
    return document, [str(warning.message) for warning in caught]


def schema_of_class(model: type[BaseModel], name: str) -> JsonObject:
    """Return the schema of a model; `name` is what errors call it.

    Raises:
        ModelUnusable: pydantic makes no schema of it.
        UnacceptableSchema: the model's schema holds what no output contract can.
    """
    try:
        schema = model.model_json_schema(schema_generator=_SparingGenerator)
    except PydanticUserError as error:
        raise ModelUnusable(name, f"pydantic makes no schema of it: {error.message}") from error
    document = to_draft_7(schema)
    vet(f"the schema of {name}", document)
    return document


def to_draft_7(schema: JsonObject) -> JsonObject:
    """Say in Draft-7 what pydantic says in 2020-12: definitions, references, and the items of tuples."""
    return _opened(_rebuild(schema, _in_draft_7))


def _opened(document: JsonObject) -> JsonObject:
    """Return the schema of a recursive model with the model at the top, where readers look for the kind of value."""
    match document:
        case {"allOf": [{"$ref": str(reference)}], "definitions": dict(definitions), **others} if not others:
            target = definitions.pop(reference.removeprefix(_DEFINITIONS), None)
        case _:
            return document
    if not isinstance(target, dict):
        return document
    opened = {**target, "definitions": definitions} if definitions else target
    at_top: JsonObject = _rebuild(
        opened, lambda schema: {**schema, "$ref": "#"} if schema.get("$ref") == reference else schema
    )
    return at_top


def _in_draft_7(schema: dict[str, Any]) -> dict[str, Any]:
    said = {keyword: rule for keyword, rule in schema.items() if keyword not in _NOT_IN_DRAFT_7}
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
        if len(said) > 1:
            # Draft-7 ignores whatever stands beside a reference.
            said["allOf"] = [{"$ref": said.pop("$ref")}, *said.get("allOf", [])]
    return said


def _rebuild(schema: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:  # noqa: ANN401  # booleans, too
    """Return a copy of a schema in which every schema object went through `change`, the innermost first."""
    if not isinstance(schema, dict):
        return schema
    return change({keyword: _rebuild_under(keyword, rule, change) for keyword, rule in schema.items()})


def _rebuild_under(keyword: str, rule: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:  # noqa: ANN401
    if keyword in LISTS and isinstance(rule, list):
        return [_rebuild(item, change) for item in rule]
    if keyword in MAPS and isinstance(rule, dict):
        return {name: _rebuild(member, change) for name, member in rule.items()}
    return _rebuild(rule, change) if keyword in SINGLE else rule


def _find_model(reference: str) -> type[BaseModel]:
    module_name, colon, attributes = reference.partition(":")
    names = attributes.split(".")
    if module_name.endswith(".py"):
        stem = Path(module_name).stem
        raise ModelUnusable(reference, f"expected a module, not a file: --path FOLDER {stem}:{attributes or 'Model'}")
    if not colon or not all(name.isidentifier() for name in [*module_name.split("."), *names]):
        raise ModelUnusable(reference, "write it as module:Model, such as reviews.models:Review")
    found: object = _import_module(reference, module_name)
    for name in names:
        if not hasattr(found, name):
            raise ModelUnusable(reference, f"{module_name} has no {attributes}; {_models_in(found, name)}")
        found = getattr(found, name)
    if not (isinstance(found, type) and issubclass(found, BaseModel)):
        kind = "a class" if isinstance(found, type) else f"a value of type {type(found).__name__}"
        raise ModelUnusable(reference, f"is {kind}, and no pydantic model: derive one from pydantic.BaseModel")
    return found


def _import_module(reference: str, name: str) -> object:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if name == missing or name.startswith(f"{missing}."):
            looked = f"no module {missing!r} in {sys.path[0]}, nor among the installed packages"
            raise ModelUnusable(reference, f"{looked}; name its folder with --path") from error
        reason = f"importing {name} needs the module {missing!r}, which is not installed here; install it beside ao"
        raise ModelUnusable(reference, reason) from error


def _models_in(place: object, wanted: str) -> str:
    names = [name for name, value in vars(place).items() if isinstance(value, type) and issubclass(value, BaseModel)]
    names = [name for name in names if name not in {"BaseModel", "RootModel"}]
    close = difflib.get_close_matches(wanted, names, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"its models are {', '.join(names)}" if names else "no pydantic model is there"


@contextlib.contextmanager
def _foreign_code(reference: str, folder: Path) -> Iterator[None]:
    """Let somebody's module be imported: it is found in a folder, leaves no files, and keeps off stdout."""
    path, writes_bytecode = list(sys.path), sys.dont_write_bytecode
    sys.path.insert(0, str(folder.absolute()))
    sys.dont_write_bytecode = True
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except RunnerError:
        raise
    except (Exception, SystemExit) as error:  # a module may raise whatever it likes
        raise ModelUnusable(reference, _what_was_raised(error, folder)) from error
    finally:
        sys.path[:], sys.dont_write_bytecode = path, writes_bytecode


def _what_was_raised(error: BaseException, folder: Path) -> str:
    told = f"{type(error).__name__}: {' '.join(str(error).split())}".rstrip(": ")[:MAX_TOLD_CHARACTERS]
    frames = traceback.extract_tb(error.__traceback__)
    # The last line of theirs says more than whatever library it called.
    theirs = [frame for frame in frames if Path(frame.filename).is_relative_to(folder.absolute())]
    place = f" at {theirs[-1].filename}:{theirs[-1].lineno}" if theirs else ""
    return f"its code raised {told}{place}; ao imports the module, so it must be importable"
