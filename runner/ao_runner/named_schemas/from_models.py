"""From a pydantic model to a schema that answers can be held to.

pydantic writes JSON Schema 2020-12. What Draft-7 says otherwise is said in Draft-7 here; what it cannot say is
refused by the vetting of schemas, as from everybody else.
"""

import contextlib
import importlib
import re
import sys
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel
from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema

from ao_protocol.wire import JsonObject
from ao_runner.errors import RunnerError
from ao_runner.named_schemas.vetting import LISTS, MAPS, SINGLE, vet

MAX_TOLD_CHARACTERS: Final = 300

_REFERENCE: Final = re.compile(r"(?P<module>\w+(\.\w+)*):(?P<model>\w+(\.\w+)*)")
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
    document: JsonObject = _in_draft_7(schema)
    match document:
        case {"allOf": [{"$ref": str(reference)}], "definitions": dict(definitions), **others} if not others:
            # Of a recursive model; readers look at the top for the kind of value.
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
        if len(said) > 1:  # Draft-7 ignores whatever stands beside a reference
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
    """Let somebody's module be imported: it is found in a folder, leaves no files, and keeps off stdout."""
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
        told = f"{type(error).__name__}: {' '.join(str(error).split())}".rstrip(": ")[:MAX_TOLD_CHARACTERS]
        # The last line of theirs says more than whatever library it called.
        frames = [one for one in traceback.extract_tb(error.__traceback__) if one.filename.startswith(sys.path[0])]
        place = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
        advice = "ao imports the module, so it must be importable"
        raise ModelUnusable(reference, f"its code raised {told}{place}; {advice}") from error
    finally:
        sys.path[:], sys.dont_write_bytecode = path, writes_bytecode
