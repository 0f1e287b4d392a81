"""`ao executors`: who can perform runs here, and by which profiles."""

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import click
from click.core import ParameterSource

from ao_protocol.documents import Description
from ao_protocol.wire import JsonObject
from ao_runner.cli.options import complete_executor, examples, home_option, json_option
from ao_runner.cli.profile_option import complete_profile
from ao_runner.cli.profile_view import (
    JudgedProfile,
    listed_document,
    print_profiles,
    profile_document,
    show_problems,
)
from ao_runner.cli.remarks import profile_remarks, show_remarks
from ao_runner.cli.show_result import show_json
from ao_runner.cli.tables import print_table
from ao_runner.discovery.describe import DescribeFailed, describe_executor
from ao_runner.discovery.locate import Executor, ExecutorNotFound, list_executors, locate_executor
from ao_runner.profiles import (
    FoundProfile,
    Profile,
    config_schema_problem,
    list_profiles,
    load_profile,
    problems_with,
)
from ao_runner.runs.environment import bare_environment


@dataclass(frozen=True, slots=True)
class Asked:
    """An executor and what it said. `problem` is why it said nothing, or what is wrong with what it said."""

    executor: Executor
    description: Description | None
    problem: str | None = None


@click.group(
    "executors",
    invoke_without_command=True,
    epilog=examples(
        "ao executors",
        "ao executors describe echo",
        "ao executors profile reviews",
        "ao executors --json | jq -r '.[] | select(.problem) | .name'",
    ),
)
@json_option("Print executors and profiles as JSON, with all fields.")
@home_option
@click.pass_context
def command(ctx: click.Context, as_json: bool, home: Path) -> None:
    """List executors (every ao-NAME-exec next to `ao` or on PATH) and profiles.

    Profiles are files NAME.yaml, .yml or .json in the folder AO_PROFILES and in `profiles` below --home.
    """
    ctx.obj = home
    if ctx.invoked_subcommand is not None:
        return
    executors = list(list_executors().values())
    found = list_profiles(home, os.environ)
    answers = _answers([*executors, *_executors_of(item.profile for item in found)])
    asked = [answers[executor.path] for executor in executors]
    profiles = [JudgedProfile(item, _problems(item, answers), _profile_remarks(item, answers)) for item in found]
    if as_json:
        documents = [*map(_document, asked), *map(listed_document, profiles)]
        click.echo(json.dumps(documents, ensure_ascii=False))
    else:
        _show(asked, profiles)


@command.command(
    "describe",
    short_help="Print the description of an executor.",
    epilog=examples("ao executors describe claude-code", "ao executors describe ./ao-mine-exec"),
)
@click.argument("name", shell_complete=complete_executor)
def describe(name: str) -> None:
    """Print the description of the executor NAME, which may be a path."""
    (asked,) = ask_all([locate_executor(name)])
    if asked.description is None:
        raise click.ClickException(asked.problem or "")
    show_json(asked.description.model_dump(mode="json"))


@command.command(
    "profile",
    short_help="Print a profile and check it.",
    epilog=examples("ao executors profile reviews", "ao executors profile ./reviews.yaml"),
)
@click.argument("name", shell_complete=complete_profile)
@home_option
@click.pass_context
def profile(ctx: click.Context, name: str, home: Path) -> None:
    """Print the profile NAME, which may be a file, with all defaults, and check that its executor supports it.

    Exit codes: 0 it can be used, 1 it cannot be used, 2 no valid profile has this name.
    """
    is_said_here = ctx.get_parameter_source("home") is ParameterSource.COMMANDLINE
    loaded = load_profile(name, home if is_said_here else ctx.obj, os.environ)
    answers = _answers(_executors_of([loaded]))
    problems = _problems_of(loaded, answers)
    show_json(profile_document(loaded, os.environ))
    for asked in answers.values():
        if asked.description is not None:
            show_remarks(loaded.name, profile_remarks(loaded, asked.description))
    show_problems(loaded.name, problems)
    sys.exit(1 if problems else 0)


def ask_all(executors: list[Executor]) -> list[Asked]:
    """Ask executors for their descriptions, several at a time."""
    if not executors:
        return []
    with ThreadPoolExecutor(max_workers=min(len(executors), os.cpu_count() or 1)) as pool:
        return list(pool.map(_ask, executors))


def _ask(executor: Executor) -> Asked:
    try:
        description = describe_executor(executor, bare_environment(os.environ))
    except DescribeFailed as error:
        return Asked(executor, None, str(error))
    except OSError as error:
        return Asked(executor, None, f"{executor.path} cannot be started: {error.strerror or error}")
    return Asked(executor, description, config_schema_problem(description))


def _answers(executors: Iterable[Executor]) -> dict[Path, Asked]:
    each_once = {executor.path: executor for executor in executors}
    return {asked.executor.path: asked for asked in ask_all(list(each_once.values()))}


def _executors_of(profiles: Iterable[Profile | None]) -> Iterator[Executor]:
    for profile in profiles:
        if profile is not None:
            with suppress(ExecutorNotFound):
                yield locate_executor(profile.executor)


def _problems(found: FoundProfile, answers: Mapping[Path, Asked]) -> list[str]:
    return [found.problem or ""] if found.profile is None else _problems_of(found.profile, answers)


def _profile_remarks(found: FoundProfile, answers: Mapping[Path, Asked]) -> list[str]:
    asked = [answers[executor.path] for executor in _executors_of([found.profile])]
    return [
        remark
        for one in asked
        if one.description is not None and found.profile is not None
        for remark in profile_remarks(found.profile, one.description)
    ]


def _problems_of(profile: Profile, answers: Mapping[Path, Asked]) -> list[str]:
    try:
        asked = answers[locate_executor(profile.executor).path]
    except ExecutorNotFound as error:
        return [f"$.executor: {error}"]
    return [asked.problem or ""] if asked.description is None else problems_with(profile, asked.description)


def _show(executors: Sequence[Asked], profiles: Sequence[JudgedProfile]) -> None:
    print_table(["NAME", "VERSION", "AGENTS", "CAN", "PATH"], [_row(item) for item in executors])
    if profiles:
        click.echo()
        print_profiles(profiles)
    for item in executors:
        if item.problem is not None:
            click.secho(f"! {item.problem}", fg="yellow", err=True)
    for judged in profiles:
        show_problems(judged.found.name, judged.problems)
        show_remarks(judged.found.name, judged.remarks)


def _row(asked: Asked) -> list[str]:
    executor, description = asked.executor, asked.description
    if description is None:
        return [executor.name, "?", "?", "no valid description", str(executor.path)]
    abilities = [name for name, value in description.capabilities if value]
    agents = ", ".join(description.agent_types)
    return [executor.name, description.executor.version, agents, ", ".join(abilities), str(executor.path)]


def _document(asked: Asked) -> JsonObject:
    return {
        "kind": "executor",
        "name": asked.executor.name,
        "path": str(asked.executor.path),
        "description": None if asked.description is None else asked.description.model_dump(mode="json"),
        "problem": asked.problem,
    }
