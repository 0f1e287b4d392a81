"""`ao blueprint check`: is a blueprint what executors will accept?"""

import sys
from pathlib import Path

import click

from ao_protocol.contracts import InvalidOptions, InvalidSchema, check_schema, options_from
from ao_protocol.errors import ExitCode
from ao_protocol.wire import JsonObject
from ao_runner.blueprints.loading import InvalidBlueprint, LoadedBlueprint, load_blueprint, oddities
from ao_runner.blueprints.placeholders import SCHEMA_FIELDS, placeholder_problems
from ao_runner.cli.options import examples, json_option
from ao_runner.cli.printing import print_document, show_problems, show_remarks, show_success


@click.group("blueprint")
def blueprint_command() -> None:
    """Check blueprints."""


@blueprint_command.command(
    "check", epilog=examples("ao blueprint check pr-reviewer.yaml", "ao blueprint check agent.json --json")
)
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@json_option("Print the verdict as a JSON object.")
def check(file: Path, as_json: bool) -> None:
    """Validate the blueprint in FILE (JSON or YAML) and its schemas. Exit codes: 0 valid, 1 not valid."""
    problems, remarks, name = _find_problems(file)
    if as_json:
        print_document({"ok": not problems, "name": name, "problems": problems, "remarks": remarks})
    else:
        show_problems(str(file), problems)
        show_remarks(str(file), remarks)
        if not problems:
            show_success(f"{file}: {name} is a valid blueprint")
    sys.exit(int(ExitCode.FAILURE if problems else ExitCode.RESULT))


def _find_problems(file: Path) -> tuple[list[str], list[str], str | None]:
    """Return what is wrong, what is only odd, and the blueprint's name where it has one.

    Raises:
        UnreadableFile: there is nothing to check.
    """
    try:
        loaded = load_blueprint(file)
    except InvalidBlueprint as error:
        return list(error.problems), [], None
    problems = [problem for field in SCHEMA_FIELDS for problem in _schema_problems(loaded.document, field)]
    problems += [*_type_problems(loaded), *_option_problems(loaded), *placeholder_problems(loaded.document)]
    return problems, [*oddities(loaded), *_idle_fields(loaded)], loaded.blueprint.name


def _schema_problems(document: JsonObject, field: str) -> list[str]:
    schema = document.get(field)
    if not isinstance(schema, dict):
        return []
    try:
        check_schema(schema)
    except InvalidSchema as error:
        return [f"$.{field}{problem.path.removeprefix('$')}: {problem.message}" for problem in error.problems]
    return []


def _type_problems(loaded: LoadedBlueprint) -> list[str]:
    blueprint = loaded.blueprint
    if blueprint.type == "procedural" and blueprint.command is None:
        return ["$.command: missing; a procedural agent needs a command"]
    if blueprint.type == "autonomous" and blueprint.command is not None:
        return [f"$.command: {blueprint.command!r} is for agents of type procedural; found type autonomous"]
    return []


def _option_problems(loaded: LoadedBlueprint) -> list[str]:
    try:
        options_from(loaded.blueprint.default_output_schema_options, place="$.default_output_schema_options")
    except InvalidOptions as error:
        return [str(problem) for problem in error.problems]
    return []


def _idle_fields(loaded: LoadedBlueprint) -> list[str]:
    """Say which fields can never count because of others."""
    blueprint = loaded.blueprint
    is_authoritative = blueprint.output_schema is not None or blueprint.output_format is not None
    if blueprint.default_output_schema is not None and is_authoritative:
        return ["$.default_output_schema: never used, because the agent has an authoritative contract"]
    if blueprint.default_output_schema is None and blueprint.default_output_schema_options is not None:
        return ["$.default_output_schema_options: never used, because there is no default_output_schema"]
    return []
