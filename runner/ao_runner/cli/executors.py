"""`ao executors` and `ao doctor`: list executors and profiles, and check the installation."""

import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from ao_protocol.documents import Description
from ao_protocol.wire import JsonObject
from ao_runner.cli.options import (
    complete_executor,
    complete_profile,
    examples,
    home_option,
    json_option,
    store_options,
)
from ao_runner.cli.printing import (
    echo,
    print_document,
    print_json,
    print_table,
    report,
    shorten,
    show_problems,
    show_remarks,
)
from ao_runner.diagnosis import Check, examine_executor, examine_machine
from ao_runner.discovery import (
    DESCRIBE_SECONDS,
    DescribeFailed,
    Executor,
    ExecutorNotFound,
    describe_executor,
    list_executors,
    locate_executor,
)
from ao_runner.known_settings import setting_remarks
from ao_runner.processes.spawn import first_line_of, search_path
from ao_runner.profiles import (
    FoundProfile,
    Profile,
    ProfileLimits,
    config_schema_problem,
    list_profiles,
    load_profile,
    missing_variables,
    problems_with,
)
from ao_runner.runs.run_request import SandboxNotThere, bare_environment, confined
from ao_runner.store.opening import StorePlace

PROFILE_HEADER: Final = ["PROFILE", "EXECUTOR", "LIFECYCLE", "WARM", "WORKSPACE", "SANDBOX", "LIMITS"]
UNITS: Final = {"seconds": "s", "bytes": "B", "usd": "USD"}
MAX_NAME_CHARACTERS: Final = 30


@dataclass(frozen=True, slots=True)
class DescribedExecutor:
    """An executor and its description. `problem` is why the description is missing, or what is wrong with it."""

    executor: Executor
    description: Description | None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class JudgedProfile:
    """A profile, valid or not, with its problems and remarks."""

    found: FoundProfile
    problems: Sequence[str]
    remarks: Sequence[str]


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
def executors_command(ctx: click.Context, as_json: bool, home: Path) -> None:
    """List executors (every ao-NAME-exec next to `ao` or on PATH) and profiles.

    Profiles are files NAME.yaml, .yml or .json in the folder AO_PROFILES and in `profiles` below --home.
    """
    if ctx.invoked_subcommand is not None:
        return
    executors = list(list_executors().values())
    found = list_profiles(home, os.environ)
    answers = _answers([*executors, *_executors_of(item.profile for item in found)])
    asked = [answers[executor.path] for executor in executors]
    profiles = [_judged(item, answers) for item in found]
    if as_json:
        print_document([*map(_executor_document, asked), *map(_listed_document, profiles)])
        return
    print_table(["NAME", "VERSION", "AGENTS", "CAN", "PATH"], [_row(item) for item in asked])
    if profiles:
        echo()
        print_table(PROFILE_HEADER, [_profile_row(judged.found) for judged in profiles])
    for item in asked:
        if item.problem is not None:
            echo(f"! {item.problem}", fg="yellow", err=True)
    for judged in profiles:
        show_problems(shorten(judged.found.name, MAX_NAME_CHARACTERS), judged.problems)
        show_remarks(judged.found.name, judged.remarks)


@executors_command.command(
    "describe",
    short_help="Print the description of an executor.",
    epilog=examples("ao executors describe claude-code", "ao executors describe ./ao-mine-exec"),
)
@click.argument("name", shell_complete=complete_executor)
def describe(name: str) -> None:
    """Print the description of the executor NAME, which may be a path."""
    asked = _ask(locate_executor(name))
    if asked.description is None:
        raise click.ClickException(asked.problem or "")
    print_json(asked.description.model_dump(mode="json"))


@executors_command.command(
    "profile",
    short_help="Print a profile and check it.",
    epilog=examples("ao executors profile reviews", "ao executors profile ./reviews.yaml"),
)
@click.argument("name", shell_complete=complete_profile)
@home_option
def profile(name: str, home: Path) -> None:
    """Print the profile NAME, which may be a file, with all defaults, and check that its executor supports it.

    Exit codes: 0 it can be used, 1 it cannot be used, 2 no valid profile has this name.
    """
    loaded = load_profile(name, home, os.environ)
    judged = _judged(FoundProfile(loaded.name, Path(name), loaded), _answers(_executors_of([loaded])))
    print_json(_profile_document(loaded))
    show_remarks(loaded.name, judged.remarks)
    show_problems(shorten(loaded.name, MAX_NAME_CHARACTERS), judged.problems)
    sys.exit(1 if judged.problems else 0)


def _ask(executor: Executor) -> DescribedExecutor:
    try:
        description = describe_executor(executor, bare_environment(os.environ))
    except DescribeFailed as error:
        return DescribedExecutor(executor, None, str(error))
    except OSError as error:
        return DescribedExecutor(executor, None, f"{executor.path} cannot be started: {error.strerror or error}")
    return DescribedExecutor(executor, description, config_schema_problem(description))


def _answers(executors: Iterable[Executor]) -> dict[Path, DescribedExecutor]:
    """Request the descriptions of executors, each once and several at a time."""
    each_once = {executor.path: executor for executor in executors}
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        return dict(zip(each_once, pool.map(_ask, each_once.values()), strict=True))


def _executors_of(profiles: Iterable[Profile | None]) -> Iterator[Executor]:
    for profile in profiles:
        if profile is not None:
            with suppress(ExecutorNotFound):
                yield locate_executor(profile.executor)


def _judged(found: FoundProfile, answers: Mapping[Path, DescribedExecutor]) -> JudgedProfile:
    profile = found.profile
    if profile is None:
        return JudgedProfile(found, [found.problem or ""], [])
    try:
        asked = answers[locate_executor(profile.executor).path]
    except ExecutorNotFound as error:
        return JudgedProfile(found, [f"$.executor: {error}"], [])
    if asked.description is None:
        return JudgedProfile(found, [asked.problem or ""], [])
    remarks = setting_remarks(profile.config, asked.description, "$.config")
    problems = [*problems_with(profile, asked.description), *_missing_here(profile, asked.executor)]
    return JudgedProfile(found, problems, remarks)


def _missing_here(profile: Profile, executor: Executor) -> Iterator[str]:
    """Yield what this host lacks for the workspace and the sandbox of a profile."""
    environment = bare_environment(os.environ)
    if profile.workspace == "worktree" and shutil.which("git", path=search_path(environment)) is None:
        yield "$.workspace: worktree needs git, which is not on PATH; install it, or use copy"
    if profile.sandbox is not None:
        try:
            inside = confined(executor, profile, str(Path.cwd()), environment)
            describe_executor(inside, environment)
            git = first_line_of([*inside.prefix, "git", "version"], environment, DESCRIBE_SECONDS)
            if profile.workspace == "worktree" and git is None:
                yield "$.sandbox.command: workspace: worktree needs git, which does not run in it; add it, or use copy"
        except (SandboxNotThere, DescribeFailed, OSError) as error:
            yield f"$.sandbox.command: {error}"


def _executor_document(asked: DescribedExecutor) -> JsonObject:
    """Return an executor as an entry of a list for scripts."""
    return {
        "kind": "executor",
        "name": asked.executor.name,
        "path": str(asked.executor.path),
        "description": None if asked.description is None else asked.description.model_dump(mode="json"),
        "problem": asked.problem,
    }


def _listed_document(judged: JudgedProfile) -> JsonObject:
    """Return a profile as an entry of a list for scripts. `profile` is null if the file cannot be read."""
    return {
        "kind": "profile",
        "name": judged.found.name,
        "path": str(judged.found.path),
        "profile": None if judged.found.profile is None else _profile_document(judged.found.profile),
        "problem": "\n".join(judged.problems) or None,
        "remarks": [*judged.remarks],
    }


def _row(asked: DescribedExecutor) -> list[str]:
    executor, description = asked.executor, asked.description
    if description is None:
        return [executor.name, "?", "?", "no valid description", str(executor.path)]
    abilities = [name for name, value in description.capabilities if value]
    agents = ", ".join(description.agent_types)
    return [executor.name, description.executor.version, agents, ", ".join(abilities), str(executor.path)]


def _profile_document(profile: Profile) -> JsonObject:
    """Return a profile with the field names of its file, and its variables that are missing here."""
    written: JsonObject = profile.model_dump(mode="json", by_alias=True)
    return {**written, "missing_variables": [*missing_variables(profile, os.environ)]}


def _limits(limits: ProfileLimits) -> Iterator[str]:
    """Yield the limits that are set: `timeout 1800 s`, `max turns 50`, `memory 2 GiB`."""
    for name, value in limits:
        if value is None:
            continue
        words = name.split("_")
        unit = UNITS.get(words[-1], "")
        called, amount = " ".join(words[:-1] if unit else words), f"{value:g}"
        if unit == "B":
            power = next(power for power in (3, 2, 1, 0) if value % 1024**power == 0)
            amount, unit = f"{value // 1024**power}", ("B", "KiB", "MiB", "GiB")[power]
        yield f"{called} {amount} {unit}".rstrip()


def _profile_row(found: FoundProfile) -> list[str]:
    profile = found.profile
    name = shorten(found.name, MAX_NAME_CHARACTERS)
    if profile is None:
        return [name, "?", "?", "?", "?", "?", "not valid"]
    executor = os.path.relpath(profile.executor) if "/" in profile.executor else profile.executor
    warm = "-" if profile.warm is None else str(profile.warm.size)
    return [
        name,
        shorten(executor, MAX_NAME_CHARACTERS),
        profile.lifecycle,
        warm,
        "-" if profile.workspace == "none" else profile.workspace,
        "-" if profile.sandbox is None else shorten(Path(profile.sandbox.command[0]).name, MAX_NAME_CHARACTERS),
        ", ".join(_limits(profile.limits)) or "-",
    ]


@click.command(
    "doctor",
    epilog=examples("ao doctor", "ao doctor claude-code", "ao doctor --json | jq '.findings[] | select(.advice)'"),
)
@click.argument("names", nargs=-1, metavar="[EXECUTOR]...", shell_complete=complete_executor)
@json_option("Print the findings as a JSON object.")
@store_options
def doctor_command(names: Sequence[str], as_json: bool, place: StorePlace) -> None:
    """Check the installation: store, containment and executors.

    Executors may lack an agent or a key, because the package has executors for many agents. Each EXECUTOR that is named
    has to be ready; others are not examined then.

    Exit codes: 0 ready, 1 something is missing, 2 there is no such executor.
    """
    report(_examine(place, [locate_executor(name) for name in names]), as_json=as_json)


def _examine(place: StorePlace, needed: Sequence[Executor]) -> Iterator[Check]:
    """Yield the findings on the machine, then on the executors that are needed, or on all."""
    yield from examine_machine(place, os.environ)
    executors = needed or list(list_executors().values())
    if not executors:
        advice = 'pip install "ao-executor-protocol[cli,claude]", or put an ao-NAME-exec on PATH'
        yield Check("executors", "problem", "none found", advice)
    for asked in _answers(executors).values():
        if asked.description is None:
            yield Check(f"executor {asked.executor.name}", "problem", asked.problem or "", None)
        else:
            yield from examine_executor(asked.executor, asked.description, os.environ, is_needed=bool(needed))
