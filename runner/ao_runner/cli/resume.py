"""`ao resume`: one more prompt in a session that was kept."""

import os
from pathlib import Path
from typing import Unpack

import click
from pydantic import ValidationError

from ao_protocol.documents import Blueprint
from ao_protocol.wire import problems_of
from ao_runner.cli.contract import ContractOptions, contract_options, demand_from, no_schema_option, verify_option
from ao_runner.cli.options import RunOptions, examples, run_options, session_argument
from ao_runner.cli.parameters import prompt_from_pipe, prompt_option, read_prompt
from ao_runner.cli.perform import perform_wish, wish_from
from ao_runner.discovery.locate import ExecutorNotFound, locate_executor
from ao_runner.errors import RunnerError
from ao_runner.profiles import Profile, load_profile
from ao_runner.runs.lost_runs import end_lost_runs
from ao_runner.runs.run_request import new_run_id
from ao_runner.store.records import Run, Session, timestamp
from ao_runner.store.rows import RowDamaged
from ao_runner.store.store import Store


class CannotResume(RunnerError):
    """The session is known, but it cannot go on as things are."""


class Given(RunOptions, ContractOptions):
    """What the command line gives this command."""

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
def command(**given: Unpack[Given]) -> None:
    """Continue SESSION: its id or that of one of its runs, the beginning of one, or `last`.

    The agent keeps the conversation so far. Blueprint and configuration are those of the first run.
    """
    with Store(given["home"]) as store:
        end_lost_runs(store, given["home"])
        session = store.find_session(given["session"])
        _check_resumable(session, given["model_script"])
        profile = _profile_of(session, given["home"])
        prompt = prompt_from_pipe() if given["prompt"] is None else read_prompt(given["prompt"])
        if not prompt:
            raise click.UsageError("Missing prompt: use -p TEXT, or pipe it in.")
        demand = demand_from(given, blueprint_of(session), store)
        run = Run(new_run_id(), session.session_id, "resume", {"prompt": prompt}, timestamp(), contract=demand.record)
        perform_wish(wish_from(given, demand), store, session, run, profile)


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


def _check_resumable(session: Session, model_script: Path | None) -> None:
    if session.executor_session_id is None:
        raise CannotResume(
            f"session {session.session_id} cannot be resumed: its executor, {session.executor_name}, never announced a "
            "session id. Start a new session with `ao run`"
        )
    check_model_script(session, model_script)
    if not Path(session.project_dir).is_dir():
        raise CannotResume(
            f"the session's project folder {session.project_dir} does not exist; restore it, or start a new session"
        )


def check_model_script(session: Session, model_script: Path | None) -> None:
    """Refuse a script for a session of a real model, and a real model for a session of a script.

    Raises:
        CannotResume: saying which.
    """
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
