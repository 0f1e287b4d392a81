"""Schemas that a command line names: a file, what is piped in, or a named schema."""

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click
from click.shell_completion import CompletionItem

from ao_protocol.wire import JsonObject
from ao_runner.blueprints.loading import MAX_FILE_BYTES, load_object, object_from
from ao_runner.errors import RunnerError
from ao_runner.home import default_home
from ao_runner.named_schemas.registry import SchemaNotFound, SchemaRegistry
from ao_runner.store.store import Store
from ao_runner.store.store_file import FILE_NAME

STDIN: Final = "-"
_BEGINS_AS_JSON: Final = re.compile(rb'[ \t\r\n]*\{[ \t\r\n]*["}]')
_FILE_ENDINGS: Final = frozenset({".json", ".yaml", ".yml"})


@dataclass(frozen=True, slots=True)
class GivenSchema:
    """A schema, and what to call it in sentences."""

    label: str
    schema: JsonObject


@dataclass(eq=False)
class NeitherFileNorSchema(RunnerError):
    """No file and no named schema is called so."""

    wanted: SchemaNotFound

    def __str__(self) -> str:
        return f"{self.wanted.name!r} is not a file, and {self.wanted}"


def load_schema(file: str) -> JsonObject:
    """Read the object in a file, JSON or YAML; `-` is what is piped in.

    Raises:
        UnreadableFile: there is no object to be read.
    """
    if file != STDIN:
        return load_object(Path(file))
    piped = sys.stdin.buffer.read(MAX_FILE_BYTES + 1)
    return object_from(Path("stdin"), piped, is_json=_BEGINS_AS_JSON.match(piped) is not None)


def find_schema(argument: str, home: Path) -> GivenSchema:
    """Return the schema that FILE|NAME means. A name goes before a file; `./review` is always the file.

    Raises:
        UnreadableFile: there is a file, and no object in it.
        NeitherFileNorSchema: there is nothing of that name.
    """
    path = Path(argument)
    if argument == STDIN:
        return GivenSchema("stdin", load_schema(argument))
    if "/" in argument or (path.suffix in _FILE_ENDINGS and _is_file(path)):
        return GivenSchema(argument, load_schema(argument))
    try:
        with Store(home) as store:
            named = SchemaRegistry(store).get(argument)
    except SchemaNotFound as error:
        if _is_file(path):
            return GivenSchema(argument, load_schema(argument))
        raise NeitherFileNorSchema(error) from error
    if _is_file(path):
        click.secho(f"! using the schema with this name; for the file write ./{argument}", fg="yellow", err=True)
    return GivenSchema(argument, named.schema)


def _is_file(path: Path) -> bool:
    # pathlib raises on names that are too long for a file, and a file of such a name is not there.
    return os.path.isfile(path)  # noqa: PTH113


def complete_name(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the named schemas that begin so."""
    home = ctx.params.get("home") or default_home()
    if not (home / FILE_NAME).exists():
        return []
    try:
        with Store(home) as store:
            there = SchemaRegistry(store).list()
    except RunnerError:
        return []
    return [CompletionItem(named.name, help=named.description) for named in there if named.name.startswith(incomplete)]


def complete_schema(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the named schemas that begin so, and let the shell add the files."""
    return [*complete_name(ctx, parameter, incomplete), CompletionItem(incomplete, type="file")]
