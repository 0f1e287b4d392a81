"""`ao schema` and `ao blueprint check`: schemas that have names, and whether schemas and blueprints can be used."""

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, NoReturn

import click
from click.shell_completion import CompletionItem

from ao_protocol.contracts import InvalidOptions, InvalidSchema, check_schema, options_from
from ao_protocol.documents import Blueprint
from ao_protocol.errors import ExitCode
from ao_protocol.wire import JsonObject
from ao_runner.blueprints.loading import (
    MAX_FILE_BYTES,
    InvalidBlueprint,
    LoadedBlueprint,
    as_yaml,
    import_blueprint,
    load_blueprint,
    load_object,
    object_from,
    oddities,
)
from ao_runner.blueprints.placeholders import SCHEMA_FIELDS, placeholder_problems, variables_of_other_tools
from ao_runner.cli.options import EXISTING_FILE, complete_schema_name, examples, json_option, store_options
from ao_runner.cli.printing import (
    echo,
    leave_if_damaged,
    print_document,
    print_json,
    print_table,
    short_time,
    shorten,
    show_problems,
    show_remarks,
    show_success,
)
from ao_runner.errors import RunnerError
from ao_runner.named_schemas.registry import Outcome, SchemaNotFound, SchemaRegistry
from ao_runner.named_schemas.vetting import remarks_on
from ao_runner.store.opening import StorePlace
from ao_runner.store.schema_table import NamedSchema

STDIN: Final = "-"
_BEGINS_AS_JSON: Final = re.compile(rb'[ \t\r\n]*\{[ \t\r\n]*["}]')
_FILE_ENDINGS: Final = frozenset({".json", ".yaml", ".yml"})


def _complete_schema(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the named schemas that begin so, and let the shell add the files."""
    return [*complete_schema_name(ctx, parameter, incomplete), CompletionItem(incomplete, type="file")]


@click.group(
    "schema",
    epilog=examples(
        "ao schema add code-review review.schema.json",
        "ao run reviewer.yaml -p 'Review PR 7' --output-schema-name code-review",
        "ao schema from-model models:Review | ao schema add code-review -",
    ),
)
def schema_command() -> None:
    """Manage named schemas.

    Once a run has used a name, the name is bound to that schema: a result refers to its schema by name.
    """


@schema_command.command(
    "add",
    short_help="Add a schema under a name.",
    epilog=examples(
        'ao schema add code-review review.schema.json --description "What a reviewer answers"',
        "ao schema from-model models:Review | ao schema add code-review -",
    ),
)
@click.argument("name")
@click.argument("file", type=click.Path(allow_dash=True))
@click.option("--description", metavar="TEXT", help="One-line description.")
@json_option("Print the outcome as a JSON object.")
@store_options
def add(name: str, file: str, description: str | None, as_json: bool, place: StorePlace) -> None:
    """Add the schema in FILE (JSON or YAML; - reads it from stdin) under NAME.

    NAME consists of letters, digits, '.', '_' and '-', and begins with a letter or a digit. Adding the same schema
    again changes nothing but its description.
    """
    schema = _load_schema(file)
    with place.open() as store:
        registry = SchemaRegistry(store)
        outcome = registry.create(name, schema, description and description.encode(errors="replace").decode())
        kept = registry.get(name)
    show_remarks(name, remarks_on(schema))
    if as_json:
        print_document({**_document(kept), "outcome": outcome})
    else:
        show_success(f"{name} {_OUTCOMES[outcome]}")
        echo(f"  use it: ao run BLUEPRINT --output-schema-name {name}", err=True)


_OUTCOMES = {
    Outcome.ADDED: "added",
    Outcome.UNCHANGED: "already exists, unchanged",
    Outcome.DESCRIBED: "has a new description; the schema is unchanged",
}


@schema_command.command("list", epilog=examples("ao schema list", "ao schema list --json | jq -r '.[].name'"))
@json_option("Print a JSON list; `ao schema show` prints the schemas themselves.")
@store_options
def show_list(as_json: bool, place: StorePlace) -> None:
    """List the named schemas."""
    with place.open() as store:
        there = SchemaRegistry(store).list()
    if as_json:
        print_document([_document(named) for named in there])
    else:
        rows = []
        for named in there:
            about = named.description or str(named.schema.get("description") or named.schema.get("title") or "")
            rows.append([named.name, str(named.used_by_runs), short_time(named.created_at), shorten(about, 60)])
        hint = "no schemas yet; add one: ao schema add NAME FILE"
        print_table(["NAME", "RUNS", "ADDED", "DESCRIPTION"], rows, if_empty=hint)
    leave_if_damaged(store.damage)


@schema_command.command(
    "show", epilog=examples("ao schema show code-review", "ao schema show code-review > review.json")
)
@click.argument("name", shell_complete=complete_schema_name)
@json_option("Print an object with name, description, schema, created_at and used_by_runs.")
@store_options
def show(name: str, as_json: bool, place: StorePlace) -> None:
    """Print the schema NAME."""
    with place.open() as store:
        named = SchemaRegistry(store).get(name)
    if as_json:
        print_document({**_document(named), "schema": named.schema})
    else:
        print_json(named.schema)


@schema_command.command("delete", epilog=examples("ao schema delete draft"))
@click.argument("name", shell_complete=complete_schema_name)
@store_options
def delete(name: str, place: StorePlace) -> None:
    """Delete the schema NAME, unless a run has used it."""
    with place.open() as store:
        SchemaRegistry(store).delete(name)
    show_success(f"{name} deleted")


@schema_command.command(
    "check", epilog=examples("ao schema check review.schema.json", "ao schema check code-review --json")
)
@click.argument("schema", metavar="FILE|NAME", shell_complete=_complete_schema)
@json_option("Print the verdict as a JSON object.")
@store_options
def check(schema: str, as_json: bool, place: StorePlace) -> None:
    """Check that a schema can be used as an output schema. Exit codes: 0 usable, 1 not usable.

    FILE is JSON or YAML; - reads it from stdin.
    """
    label, document = _find_schema(schema, place)
    problems = _problems(document)
    remarks = [] if problems else remarks_on(document)
    verdict = {"ok": not problems, "problems": problems, "remarks": remarks}
    _leave_with(verdict, label, f"{label}: usable as an output schema", as_json=as_json)


def _leave_with(verdict: Mapping[str, Any], subject: str, success: str, *, as_json: bool) -> NoReturn:
    """Print the verdict on a schema or blueprint: as it is, or its problems and remarks, or the success."""
    if as_json:
        print_document(verdict)
    else:
        show_problems(subject, verdict["problems"])
        show_remarks(subject, verdict["remarks"])
        if verdict["ok"]:
            show_success(success)
    sys.exit(int(ExitCode.RESULT if verdict["ok"] else ExitCode.FAILURE))


def _problems(schema: JsonObject) -> list[str]:
    try:
        check_schema(schema)
    except InvalidSchema as error:
        return [str(problem) for problem in error.problems]
    return []


def _document(named: NamedSchema) -> dict[str, object]:
    """Return what is known of a named schema, for programs, without the schema itself."""
    known = asdict(named)
    return {name: known[name] for name in ("name", "description", "created_at", "used_by_runs")}


@schema_command.command(
    "from-model",
    epilog=examples(
        "ao schema from-model models:Review > review.schema.json",
        "ao schema from-model reviews.models:Review --path src | ao schema add code-review -",
    ),
)
@click.argument("model", metavar="MODULE:MODEL")
@click.option(
    "--path",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=".",
    show_default="here",
    help="Folder in which MODULE is searched first.",
)
def from_model(model: str, path: Path) -> None:
    """Print the JSON Schema (Draft-7) of a pydantic model.

    The module is imported, so its code runs; its output goes to stderr.
    """
    from ao_runner.named_schemas.from_models import schema_of_model

    schema, remarks = schema_of_model(model, path)
    show_remarks(model, remarks)
    print_json(schema)


def _load_schema(file: str) -> JsonObject:
    """Read the object in a file, JSON or YAML; `-` is what is piped in.

    Raises:
        UnreadableFile: there is no object to be read.
    """
    if file != STDIN:
        return load_object(Path(file))
    piped = sys.stdin.buffer.read(MAX_FILE_BYTES + 1)
    return object_from(Path("stdin"), piped, is_json=_BEGINS_AS_JSON.match(piped) is not None)


def _find_schema(argument: str, place: StorePlace) -> tuple[str, JsonObject]:
    """Return what to call the schema that FILE|NAME means, and it. A name goes before a file; `./review` is the file.

    Raises:
        UnreadableFile: there is a file, and no object in it.
        RunnerError: there is nothing of that name.
    """
    if argument == STDIN:
        return "stdin", _load_schema(argument)
    # pathlib raises on names that are too long for a file, and a file of such a name is not there.
    is_file = os.path.isfile(argument)  # noqa: PTH113
    if "/" in argument or (is_file and Path(argument).suffix in _FILE_ENDINGS):
        return argument, _load_schema(argument)
    try:
        with place.open() as store:
            named = SchemaRegistry(store).get(argument)
    except SchemaNotFound as error:
        if is_file:
            return argument, _load_schema(argument)
        raise RunnerError(f"{argument!r} is not a file, and {error}") from error
    if is_file:
        echo(f"! using the schema with this name; for the file write ./{argument}", fg="yellow", err=True)
    return argument, named.schema


@click.group("blueprint")
def blueprint_command() -> None:
    """Check blueprints, and make them of agents of other tools."""


@blueprint_command.command(
    "check", epilog=examples("ao blueprint check pr-reviewer.yaml", "ao blueprint check agent.json --json")
)
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@json_option("Print the verdict as a JSON object.")
def check_blueprint(file: Path, as_json: bool) -> None:
    """Validate the blueprint or agent in FILE and its schemas. Exit codes: 0 valid, 1 not valid."""
    name, remarks = None, list[str]()
    try:
        loaded = load_blueprint(file)
    except InvalidBlueprint as error:
        problems = list(error.problems)
    else:
        name, problems = loaded.blueprint.name, _blueprint_problems(loaded)
        remarks = [*oddities(loaded), *variables_of_other_tools(loaded.document), *_idle_fields(loaded.blueprint)]
    verdict = {"ok": not problems, "name": name, "problems": problems, "remarks": remarks}
    _leave_with(verdict, str(file), f"{file}: {name} is a valid blueprint", as_json=as_json)


@blueprint_command.command(
    "import",
    epilog=examples(
        "ao blueprint import .claude/agents/reviewer.md -o reviewer.yaml",
        "ao blueprint import opencode.json --agent docs -o docs.yaml",
        "ao blueprint import .mcp.json -o agent.yaml",
    ),
)
@click.argument("file", type=EXISTING_FILE)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="File to write; it must not exist. [default: stdout]"
)
@click.option("--agent", metavar="NAME", help="The agent, if FILE contains several.")
def import_agent(file: Path, output: Path | None, agent: str | None) -> None:
    """Write a blueprint for an agent of Claude Code or OpenCode, or for a configuration of MCP servers.

    What a blueprint does not have, such as the model, is named on stderr with the option to write.
    """
    loaded = import_blueprint(file, agent)
    text = as_yaml(loaded.document)
    show_remarks(str(file), [*oddities(loaded), *variables_of_other_tools(loaded.document)])
    if output is None:
        echo(text.removesuffix("\n"))
        return
    try:
        with output.open("x", encoding="utf-8") as written:
            written.write(text)
    except FileExistsError as error:
        raise RunnerError(f"{output} exists; remove it, or name another file") from error
    show_success(f"{output} written; run it: ao run {output} -p PROMPT")


def _blueprint_problems(loaded: LoadedBlueprint) -> list[str]:
    blueprint, problems = loaded.blueprint, list[str]()
    for field in SCHEMA_FIELDS:
        if isinstance(schema := loaded.document.get(field), dict):
            problems += (f"$.{field}{problem.removeprefix('$')}" for problem in _problems(schema))
    if blueprint.type == "procedural" and blueprint.command is None:
        problems.append("$.command: missing; a procedural agent needs a command")
    if blueprint.type == "autonomous" and blueprint.command is not None:
        problems.append(f"$.command: {blueprint.command!r} is for agents of type procedural; found type autonomous")
    try:
        options_from(blueprint.default_output_schema_options, place="$.default_output_schema_options")
    except InvalidOptions as error:
        problems += map(str, error.problems)
    return [*problems, *placeholder_problems(loaded.document)]


def _idle_fields(blueprint: Blueprint) -> list[str]:
    """Say which fields can never count because of others."""
    is_authoritative = blueprint.output_schema is not None or blueprint.output_format is not None
    if blueprint.default_output_schema is not None and is_authoritative:
        return ["$.default_output_schema: never used, because the agent has an authoritative contract"]
    if blueprint.default_output_schema is None and blueprint.default_output_schema_options is not None:
        return ["$.default_output_schema_options: never used, because there is no default_output_schema"]
    return []
