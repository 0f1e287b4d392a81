"""`ao schema`: schemas that have names, and that a run can ask for by them."""

import json
import sys
from dataclasses import asdict
from pathlib import Path

import click

from ao_protocol.contracts import InvalidSchema, check_schema
from ao_protocol.errors import ExitCode
from ao_protocol.wire import JsonObject
from ao_runner.cli.damage import leave_if_damaged
from ao_runner.cli.narration import shorten
from ao_runner.cli.options import examples, home_option, json_option
from ao_runner.cli.schema_arguments import complete_name, complete_schema, find_schema, load_schema
from ao_runner.cli.schema_models import from_model
from ao_runner.cli.schema_text import print_json
from ao_runner.cli.tables import print_table
from ao_runner.named_schemas.registry import Outcome, SchemaRegistry
from ao_runner.named_schemas.remarks import remarks_on
from ao_runner.store.rows import NamedSchema
from ao_runner.store.store import Store


@click.group(
    "schema",
    epilog=examples(
        "ao schema add code-review review.schema.json",
        "ao run reviewer.yaml -p 'Review PR 7' --output-schema-name code-review",
        "ao schema from-model models:Review | ao schema add code-review -",
    ),
)
def command() -> None:
    """Manage named schemas.

    Once a run has used a name, the name is bound to that schema permanently: a result refers to its schema by name.
    """


@command.command(
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
@click.option("--replace", is_flag=True, help="Replace an existing schema that no run has used.")
@json_option("Print the outcome as a JSON object.")
@home_option
def add(name: str, file: str, description: str | None, replace: bool, as_json: bool, home: Path) -> None:
    """Add the schema in FILE (JSON or YAML; - reads it from stdin) under NAME.

    NAME consists of letters, digits, '.', '_' and '-', and begins with a letter or a digit. Adding the same schema
    again changes nothing but its description.
    """
    schema = load_schema(file)
    with Store(home) as store:
        registry = SchemaRegistry(store)
        outcome = registry.create(name, schema, _encodable(description), replace=replace)
        kept = registry.get(name)
    for remark in remarks_on(schema):
        click.secho(f"! {shorten(remark)}", fg="yellow", err=True)
    if as_json:
        click.echo(json.dumps({**_document(kept), "outcome": outcome}, ensure_ascii=False))
    else:
        click.secho(f"✓ {name} {_OUTCOMES[outcome]}", fg="green")
        click.echo(f"  use it: ao run BLUEPRINT --output-schema-name {name}", err=True)


_OUTCOMES = {
    Outcome.ADDED: "added",
    Outcome.UNCHANGED: "already exists, unchanged",
    Outcome.DESCRIBED: "has a new description; the schema is unchanged",
    Outcome.REPLACED: "replaced",
    Outcome.RESTORED: "restored, unchanged",
}


@command.command("list", epilog=examples("ao schema list", "ao schema list --json | jq -r '.[].name'"))
@json_option("Print a JSON list; `ao schema show` prints the schemas themselves.")
@home_option
def show_list(as_json: bool, home: Path) -> None:
    """List the named schemas."""
    with Store(home) as store:
        there = SchemaRegistry(store).list()
    if as_json:
        click.echo(json.dumps([_document(named) for named in there], ensure_ascii=False))
    elif not there:
        click.echo("no schemas yet; add one: ao schema add NAME FILE", err=True)
    else:
        print_table(["NAME", "RUNS", "ADDED", "DESCRIPTION"], [_row(named) for named in there])
    leave_if_damaged(store.damage)


@command.command("show", epilog=examples("ao schema show code-review", "ao schema show code-review > review.json"))
@click.argument("name", shell_complete=complete_name)
@json_option("Print an object with name, description, schema, created_at and used_by_runs.")
@home_option
def show(name: str, as_json: bool, home: Path) -> None:
    """Print the schema NAME."""
    with Store(home) as store:
        named = SchemaRegistry(store).get(name)
    if as_json:
        click.echo(json.dumps({**_document(named), "schema": named.schema}, ensure_ascii=False))
    else:
        print_json(named.schema)


@command.command("delete", epilog=examples("ao schema delete draft", "ao schema delete code-review --force"))
@click.argument("name", shell_complete=complete_name)
@click.option("--force", is_flag=True, help="Delete it even if runs used it. The name stays reserved for this schema.")
@home_option
def delete(name: str, force: bool, home: Path) -> None:
    """Delete the schema NAME, unless a run has used it."""
    with Store(home) as store:
        named = SchemaRegistry(store).delete(name, force=force)
    kept = "; the name stays reserved for this schema, because results refer to it" if named.used_by_runs else ""
    click.secho(f"✓ {name} deleted{kept}", fg="green")


@command.command("check", epilog=examples("ao schema check review.schema.json", "ao schema check code-review --json"))
@click.argument("schema", metavar="FILE|NAME", shell_complete=complete_schema)
@json_option("Print the verdict as a JSON object.")
@home_option
def check(schema: str, as_json: bool, home: Path) -> None:
    """Check that a schema can be used as an output schema. Exit codes: 0 usable, 1 not usable.

    FILE is JSON or YAML; - reads it from stdin.
    """
    given = find_schema(schema, home)
    problems = _problems(given.schema)
    remarks = [] if problems else remarks_on(given.schema)
    if as_json:
        click.echo(json.dumps({"ok": not problems, "problems": problems, "remarks": remarks}, ensure_ascii=False))
    else:
        for problem in problems:
            click.secho(f"✗ {given.label}: {shorten(problem, 1000)}", fg="red", err=True)
        for remark in remarks:
            click.secho(f"! {given.label}: {shorten(remark, 1000)}", fg="yellow", err=True)
        if not problems:
            click.secho(f"✓ {given.label}: usable as an output schema", fg="green")
    sys.exit(int(ExitCode.FAILURE if problems else ExitCode.RESULT))


command.add_command(from_model)


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


def _row(named: NamedSchema) -> list[str]:
    about = named.description or str(named.schema.get("description") or named.schema.get("title") or "")
    added = named.created_at[:16].replace("T", " ")
    return [named.name, str(named.used_by_runs), added, shorten(about, 60)]


def _encodable(text: str | None) -> str | None:
    """Return text of the command line, in which bytes that are no UTF-8 became question marks."""
    return None if text is None else text.encode(errors="replace").decode()
