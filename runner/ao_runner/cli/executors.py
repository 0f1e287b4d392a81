"""`ao executors`: who can perform runs here."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import click

from ao_protocol.describe import Description
from ao_runner.cli.options import complete_executor, examples, json_option
from ao_runner.cli.showing import show_json
from ao_runner.cli.tables import print_table
from ao_runner.environment import bare_environment
from ao_runner.inquiry import DescribeFailed, describe_executor
from ao_runner.locate import Executor, list_executors, locate_executor


@dataclass(frozen=True, slots=True)
class Asked:
    """An executor and what it said, or why it said nothing."""

    executor: Executor
    description: Description | None
    problem: str | None = None


@click.group("executors", invoke_without_command=True, epilog=examples("ao executors", "ao executors describe echo"))
@json_option("Print a JSON list with every description.")
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """List the executors: every ao-NAME-exec beside this program and on PATH."""
    if ctx.invoked_subcommand is not None:
        return
    asked = ask_all(list(list_executors().values()))
    if as_json:
        click.echo(json.dumps([_document(item) for item in asked], ensure_ascii=False))
        return
    print_table(["NAME", "VERSION", "AGENTS", "CAN", "PATH"], [_row(item) for item in asked])
    for item in asked:
        if item.problem is not None:
            click.secho(f"! {item.problem}", fg="yellow", err=True)


@command.command(
    "describe", epilog=examples("ao executors describe claude-code", "ao executors describe ./ao-mine-exec")
)
@click.argument("name", shell_complete=complete_executor)
def describe(name: str) -> None:
    """Print what the executor NAME, or the one at a path, says of itself."""
    (asked,) = ask_all([locate_executor(name)])
    if asked.description is None:
        raise click.ClickException(asked.problem or "")
    show_json(asked.description.model_dump(mode="json"))


def ask_all(executors: list[Executor]) -> list[Asked]:
    """Ask executors for their descriptions, several at a time."""
    if not executors:
        return []
    with ThreadPoolExecutor(max_workers=min(len(executors), os.cpu_count() or 1)) as pool:
        return list(pool.map(_ask, executors))


def _ask(executor: Executor) -> Asked:
    try:
        return Asked(executor, describe_executor(executor, bare_environment(os.environ)))
    except DescribeFailed as error:
        return Asked(executor, None, str(error))
    except OSError as error:
        return Asked(executor, None, f"{executor.path} cannot be started: {error.strerror or error}")


def _row(asked: Asked) -> list[str]:
    executor, description = asked.executor, asked.description
    if description is None:
        return [executor.name, "?", "?", "does not describe itself", str(executor.path)]
    abilities = [name for name, value in description.capabilities if value]
    agents = ", ".join(description.agent_types)
    return [executor.name, description.executor.version, agents, ", ".join(abilities), str(executor.path)]


def _document(asked: Asked) -> dict[str, object]:
    return {
        "name": asked.executor.name,
        "path": str(asked.executor.path),
        "description": None if asked.description is None else asked.description.model_dump(mode="json"),
        "problem": asked.problem,
    }
