"""`ao submit`: put a run into the local queue, for a worker to perform."""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal, Unpack

import click

from ao_protocol.contracts import InvalidSchema
from ao_protocol.documents import Blueprint
from ao_protocol.inputs import ParametersInvalid, check_against
from ao_protocol.wire import JsonObject
from ao_runner.blueprints.loading import load_blueprint, load_object
from ao_runner.cli.contract import ContractOptions, Demand, contract_options, demand_from, no_schema_option
from ao_runner.cli.options import (
    EXISTING_FILE,
    SECONDS,
    complete_session,
    examples,
    home_option,
    json_option,
    model_script_option,
)
from ao_runner.cli.parameters import AgentOptions, agent_options, collect_parameters, prompt_from_pipe, read_prompt
from ao_runner.cli.profile_option import complete_profile
from ao_runner.cli.profile_path import with_whole_path
from ao_runner.cli.remarks import show_oddities, show_unknown_settings
from ao_runner.cli.resume import CannotResume, blueprint_of, check_model_script
from ao_runner.cli.runs import waiting_in_vain
from ao_runner.cli.wait import wait_for
from ao_runner.model_script import read_model_script
from ao_runner.profiles import load_profile
from ao_runner.runs.lost_runs import end_lost_runs
from ao_runner.runs.run_request import DEFAULT_EXECUTORS, new_run_id, new_session_id, with_commands_folder
from ao_runner.store.ownership import notify
from ao_runner.store.records import OPEN_STATUSES, Run, Session, timestamp
from ao_runner.store.run_queue import QueuedRun
from ao_runner.store.store import Store
from ao_runner.store.store_file import transaction

OF_A_NEW_SESSION: Final = {
    "blueprint": "BLUEPRINT",
    "pairs": "--param",
    "params_file": "--params",
    "config_file": "--config",
    "project_dir": "--project-dir",
}
"""What says how a session begins, and so cannot be said of one that is there."""


class Given(AgentOptions, ContractOptions):
    """What the command line gives this command."""

    blueprint: Path | None
    session: str | None
    profile: str | None
    timeout: float | None
    model_script: Path | None
    traceparent: str | None
    wait: bool
    as_json: bool
    home: Path


@click.command(
    "submit",
    epilog=examples(
        'ao submit pr-reviewer.yaml -p "Review PR 7"',
        'ao submit pr-reviewer.yaml -p "Review PR 7" --profile reviewer --wait > review.json',
        'ao submit pr-reviewer.yaml -p "Review PR 7" --model-script answers.yaml',
        'ao submit --session last -p "Only the security issues, please"',
        'run=$(ao submit pr-reviewer.yaml -p "Review PR 7") && ao cancel $run',
    )
    + "\n\n\b\nExit codes: 0 queued, 2 not queued; with --wait those of `ao run`.",
)
@click.argument("blueprint", type=EXISTING_FILE, required=False)
@click.option(
    "--session",
    metavar="SESSION",
    shell_complete=complete_session,
    help="Continue this session instead of BLUEPRINT, after its other runs have ended.",
)
@agent_options
@click.option(
    "--profile", metavar="NAME|PATH", shell_complete=complete_profile, help="Profile or executor that performs the run."
)
@click.option("--timeout", type=SECONDS, metavar="SECONDS", help="Stop the run after SECONDS.")
@model_script_option
@click.option("--traceparent", envvar="TRACEPARENT", help="W3C `traceparent` of the caller; also TRACEPARENT.")
@click.option("--wait", is_flag=True, help="Wait for the run to end, and show the result as `ao run` does.")
@json_option("Print run_id, session_id and status as JSON; with --wait the terminal event.")
@contract_options
@no_schema_option
@home_option
@click.pass_context
def command(ctx: click.Context, /, **given: Unpack[Given]) -> None:
    """Add a run of BLUEPRINT to the queue of this host and print its id. A worker (`ao worker`) performs it.

    With --session, continue that session with another prompt. The prompt may be piped in.
    """
    _check_given(ctx, given)
    script = None if given["model_script"] is None else read_model_script(given["model_script"], os.environ)
    with Store(given["home"]) as store:
        end_lost_runs(store, given["home"])
        session, run, profile = (_further_run if given["session"] else _first_run)(given, store)
        metadata: JsonObject = {} if given["traceparent"] is None else {"traceparent": given["traceparent"]}
        with transaction(store.connection):
            if run.mode == "start":
                store.add_session(session)
            else:
                store.resolve(session.session_id)  # it may have been deleted meanwhile
            store.queue.add(QueuedRun(run, profile, given["timeout"], metadata, script))
        notify(given["home"])
        if (idle := waiting_in_vain(given["home"], {profile})) is not None:
            click.echo(f"ao: {idle}", err=True)
        if given["wait"]:
            wait_for(store, given["home"], run, "json" if given["as_json"] else "people")
        elif given["as_json"]:
            click.echo(json.dumps({"run_id": run.run_id, "session_id": run.session_id, "status": "queued"}))
        else:
            click.echo(run.run_id)


def _check_given(ctx: click.Context, given: Given) -> None:
    if given["session"] is None:
        if given["blueprint"] is None:
            raise click.UsageError("Missing BLUEPRINT; or use --session to continue a session.")
        if given.get("no_schema"):
            raise click.UsageError("--no-schema is for sessions that exist; use it with --session.")
        return
    from click.core import ParameterSource

    for name, shown in OF_A_NEW_SESSION.items():
        if given[name] and ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:  # type: ignore[literal-required]
            raise click.UsageError(f"{shown} is for new sessions; omit it, or omit --session.")


def _first_run(given: Given, store: Store) -> tuple[Session, Run, str]:
    """Return a new session, its first run, and the profile that performs it."""
    assert given["blueprint"] is not None, "the caller has looked"  # noqa: S101  # for mypy
    loaded = load_blueprint(given["blueprint"])
    show_oddities(loaded)
    profile_name = with_whole_path(given["profile"] or DEFAULT_EXECUTORS[loaded.blueprint.type])
    profile = load_profile(profile_name, given["home"], os.environ)
    config = {} if given["config_file"] is None else load_object(given["config_file"])
    show_unknown_settings(profile, config, given["config_file"])
    parameters = collect_parameters(loaded.blueprint, given["prompt"], given["pairs"], given["params_file"])
    _check_parameters(loaded.blueprint, parameters)
    demand = demand_from(given, loaded.blueprint, store)
    session = Session(
        session_id=new_session_id(),
        created_at=timestamp(),
        executor_name=profile.executor,
        executor_path=profile.executor,
        project_dir=str(given["project_dir"]),
        blueprint=loaded.document,
        executor_config=with_commands_folder(config, loaded),
        profile=profile_name,
        is_simulated=given["model_script"] is not None,
    )
    return session, _queued(session, "start", parameters, demand), profile_name


def _check_parameters(blueprint: Blueprint, parameters: JsonObject) -> None:
    """Refuse what the executor would refuse. A schema that is none is left to it."""
    try:
        with suppress(InvalidSchema):
            check_against(blueprint.parameters_schema, parameters)
    except ParametersInvalid as error:
        raise click.UsageError(f"{error}. Nothing was queued; correct -p, --param or --params.") from error


def _further_run(given: Given, store: Store) -> tuple[Session, Run, str]:
    """Return a session, a further run of it, and the profile that performs that.

    Raises:
        CannotResume: nobody will ever be able to go on with it.
    """
    session = store.find_session(given["session"] or "")
    runs = store.list_runs(session.session_id)
    if session.executor_session_id is None and not any(run.status in OPEN_STATUSES for run in runs):
        raise CannotResume(
            f"session {session.session_id} cannot be resumed: its executor, {session.executor_name}, never announced a "
            "session id. Start a new session: ao submit BLUEPRINT"
        )
    check_model_script(session, given["model_script"])
    profile_name = with_whole_path(given["profile"] or session.profile or session.executor_path)
    load_profile(profile_name, given["home"], os.environ)
    prompt = prompt_from_pipe() if given["prompt"] is None else read_prompt(given["prompt"])
    if not prompt:
        raise click.UsageError("Missing prompt: use -p TEXT, or pipe it in.")
    demand = demand_from(given, blueprint_of(session), store)
    return session, _queued(session, "resume", {"prompt": prompt}, demand), profile_name


def _queued(session: Session, mode: Literal["start", "resume"], parameters: JsonObject, demand: Demand) -> Run:
    return Run(new_run_id(), session.session_id, mode, parameters, timestamp(), "queued", contract=demand.record)
