"""`ao run` and `ao resume`: a blueprint and a prompt in, a result out; another prompt in a session that is stored."""

import asyncio
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Unpack

import click
from pydantic import ValidationError

from ao_protocol.documents import Blueprint
from ao_protocol.events import Terminal
from ao_protocol.wire import problems_of
from ao_runner.blueprints.loading import load_blueprint, load_object
from ao_runner.cli.contract import (
    ContractOptions,
    Demand,
    contract_options,
    demand_from,
    no_schema_option,
    verify_option,
)
from ao_runner.cli.options import (
    EXISTING_FILE,
    RunOptions,
    complete_executor,
    examples,
    profile_option,
    run_options,
    session_argument,
    with_whole_path,
)
from ao_runner.cli.parameters import (
    AgentOptions,
    agent_options,
    collect_parameters,
    prompt_option,
    required_prompt,
)
from ao_runner.cli.result import show_terminal
from ao_runner.cli.run_progress import follow_run
from ao_runner.cli.settings import SettingOptions, setting_options, show_oddities, show_unknown_settings, with_settings
from ao_runner.discovery.locate import ExecutorNotFound, locate_executor
from ao_runner.errors import RunnerError
from ao_runner.model_script import RunningSimulator, play_model_script
from ao_runner.processes.containment import Containment, probe
from ao_runner.profiles import Profile, load_profile
from ao_runner.runs.lost_runs import fail_lost_runs
from ao_runner.runs.outcome import exit_code_of
from ao_runner.runs.run import StoredJournal, perform_single_run
from ao_runner.runs.run_request import (
    DEFAULT_EXECUTORS,
    RunRequest,
    StopRequests,
    new_run_id,
    new_session_id,
    on_signals,
    request_under,
    with_commands_folder,
)
from ao_runner.store.ownership import own_runs
from ao_runner.store.records import RowDamaged, Run, Session, timestamp
from ao_runner.store.store import Store


class CannotResume(RunnerError):
    """The session is known, but it cannot go on as things are."""


class RunArguments(RunOptions, AgentOptions, ContractOptions, SettingOptions):
    """What the command line gives `ao run`."""

    blueprint: Path
    executor: str | None
    profile: str | None


@click.command(
    "run",
    epilog=examples(
        'ao run pr-reviewer.yaml -p "Review PR 7"',
        "git diff | ao run pr-reviewer.yaml",
        "ao run fixer.yaml -p \"Fix the build\" --model opus --allow Edit --allow 'Bash(make *)'",
        'ao run writer.yaml --param topic="AI safety" --param max_words=500',
        'ao run pr-reviewer.yaml -p "Review PR 7" --model-script answers.yaml',
        'ao run pr-reviewer.yaml -p "Review PR 7" > review.json',
        'ao run helper.yaml -p "Which files?" --output-schema files.json --output-option max_retries=1',
    )
    + "\n\n\b\n"
    "Exit codes: 0 result, 1 failure, 2 usage error, nothing was run, 64 run refused,\n"
    "75 temporary failure, 130 cancelled.",
)
@click.argument("blueprint", type=EXISTING_FILE)
@agent_options
@click.option(
    "--executor", metavar="NAME|PATH", shell_complete=complete_executor, help="Executor to use: a name or a path."
)
@profile_option("Profile to use; `ao executors` lists them.")
@setting_options
@contract_options
@verify_option
@run_options
def run_command(**given: Unpack[RunArguments]) -> None:
    """Run the agent of BLUEPRINT (JSON or YAML) and show its result.

    Progress goes to stderr; stdout receives the result only. The first Ctrl-C asks the agent to stop, the second
    kills it. In both cases the run and its session are stored.
    """
    loaded = load_blueprint(given["blueprint"])
    show_oddities(loaded)
    profile = _profile(given, DEFAULT_EXECUTORS[loaded.blueprint.type])
    executor = locate_executor(profile.executor)
    config = {} if given["config_file"] is None else load_object(given["config_file"])
    show_unknown_settings(profile, config, given["config_file"])
    config = with_settings(config, given, profile, executor)
    session = Session(
        session_id=new_session_id(),
        created_at=timestamp(),
        executor_name=executor.name,
        executor_path=str(executor.path),
        project_dir=str(given["project_dir"]),
        blueprint=loaded.document,
        executor_config=with_commands_folder(config, loaded),
        profile=None if given["profile"] is None else with_whole_path(given["profile"]),
        is_simulated=given["model_script"] is not None,
    )
    parameters = collect_parameters(loaded.blueprint, given["prompt"], given["pairs"], given["params_file"])
    with Store(given["home"]) as store:
        fail_lost_runs(store)
        demand = demand_from(given, loaded.blueprint, store)
        run = Run(new_run_id(), session.session_id, "start", parameters, session.created_at, contract=demand.record)
        _perform(PreparedRun(given, demand, store, session, run, profile))


def _profile(given: RunArguments, usual_executor: str) -> Profile:
    if given["profile"] is not None and given["executor"] is not None:
        raise click.UsageError("Use either --profile or --executor: a profile names its executor.")
    if given["executor"] is not None:
        executor = locate_executor(given["executor"])
        return Profile(name=executor.name, executor=str(executor.path))
    return load_profile(given["profile"] or usual_executor, given["home"], os.environ)


class ResumeArguments(RunOptions, ContractOptions):
    """What the command line gives `ao resume`."""

    session: str
    prompt: str | None


@click.command(
    "resume",
    epilog=examples(
        'ao resume last -p "Only the security issues, please"',
        'ao resume ses_4c5ab0 -p "And now as a table" --json',
        'ao resume last -p "Explain it in a paragraph" --no-schema',
    ),
)
@session_argument
@prompt_option
@contract_options
@no_schema_option
@verify_option
@run_options
def resume_command(**given: Unpack[ResumeArguments]) -> None:
    """Continue SESSION: its id or that of one of its runs, the beginning of one, or `last`.

    The agent keeps the conversation so far. Blueprint and configuration are those of the first run.
    """
    with Store(given["home"]) as store:
        fail_lost_runs(store)
        session = store.find_session(given["session"])
        check_resumable(session, given["model_script"], is_open=False)
        if not Path(session.project_dir).is_dir():
            raise CannotResume(
                f"the session's project folder {session.project_dir} does not exist; restore it, or start a new session"
            )
        profile = _profile_of(session, given["home"])
        prompt = required_prompt(given["prompt"])
        demand = demand_from(given, blueprint_of(session), store)
        run = Run(new_run_id(), session.session_id, "resume", {"prompt": prompt}, timestamp(), contract=demand.record)
        _perform(PreparedRun(given, demand, store, session, run, profile))


def blueprint_of(session: Session) -> Blueprint:
    """Return the blueprint of a stored session.

    Raises:
        RowDamaged: there is none.
    """
    try:
        return Blueprint.model_validate(session.blueprint)
    except ValidationError as error:
        problems = "; ".join(str(problem) for problem in problems_of(error, session.blueprint))
        raise RowDamaged("session", session.session_id, f"column blueprint holds no blueprint: {problems}") from error


def check_resumable(session: Session, model_script: Path | None, *, is_open: bool) -> None:
    """Refuse a session that cannot be continued, by a model script or by a real model. `is_open`: one of its runs is.

    Raises:
        CannotResume: saying why.
    """
    if session.executor_session_id is None and not is_open:
        raise CannotResume(
            f"session {session.session_id} cannot be resumed: its executor, {session.executor_name}, never announced a "
            "session id. Start a new session with `ao run` or `ao submit`"
        )
    if session.is_simulated and model_script is None:
        raise CannotResume(
            f"session {session.session_id} was created with a model script, so a real model does not know it. "
            "Add --model-script FILE, or start a new one with `ao run`"
        )
    if model_script is not None and not session.is_simulated:
        raise CannotResume(
            f"session {session.session_id} was created with a real model, so a script cannot continue it. "
            "Omit --model-script"
        )


def _profile_of(session: Session, home: Path) -> Profile:
    """Return the session's profile; without one, its executor, by its path, or by its name where it has moved."""
    if session.profile is not None:
        return load_profile(session.profile, home, os.environ)
    try:
        path = locate_executor(session.executor_path).path
    except ExecutorNotFound:
        path = locate_executor(session.executor_name).path
    return Profile(name=session.executor_name, executor=str(path))


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """A run, and how the person wants it performed and shown."""

    options: RunOptions
    demand: Demand
    store: Store
    session: Session
    run: Run
    profile: Profile


def _perform(wanted: PreparedRun) -> None:
    """Perform a run, show it as wanted, and leave with the exit code of its terminal event."""
    began_at = time.monotonic()
    containment = probe(os.environ)
    stops = StopRequests()
    home, style = wanted.options["home"], wanted.options["style"] or "people"
    store, session, run, demand = wanted.store, wanted.session, wanted.run, wanted.demand
    with (
        own_runs(home) as owner,
        _simulator(wanted.options) as simulator,
        follow_run(style, demand.attempts, stops.request) as listener,
    ):
        order = replace(
            request_under(wanted.profile, session, run, timeout_seconds=wanted.options["timeout"], environ=os.environ),
            simulation=simulator.simulation if simulator else None,
            first_parameters=store.first_run(session.session_id).parameters if run.mode == "resume" else None,
            option_defaults=demand.defaults,
            verify_results=demand.verify_results,
        )
        journal = StoredJournal(store, run, listener, owner, session if run.mode == "start" else None)
        terminal = asyncio.run(_perform_order(order, journal, stops, home, containment))
    if style == "people":
        seconds = time.monotonic() - began_at
        show_terminal(terminal, store.find_session(session.session_id), seconds, store.rejected_in(run.run_id))
    if simulator is not None and simulator.report:
        click.secho("! the model received requests that its script does not expect:", fg="yellow", err=True)
        for line in simulator.report.splitlines():
            click.echo(f"    {line}", err=True)
    sys.exit(int(exit_code_of(terminal)))


async def _perform_order(
    order: RunRequest, journal: StoredJournal, stops: StopRequests, home: Path, containment: Containment
) -> Terminal:
    with on_signals(stops.request):
        return await perform_single_run(order, journal, stops, home, containment)


@contextmanager
def _simulator(options: RunOptions) -> Iterator[RunningSimulator | None]:
    if options["model_script"] is None:
        yield None
    else:
        with play_model_script(options["model_script"], options["home"], os.environ) as simulator:
            yield simulator
