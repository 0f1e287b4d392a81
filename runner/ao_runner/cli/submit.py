"""`ao submit`: put a run into the local queue, for a worker to perform, and wait for it if that is wanted."""

import os
import re
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final, NoReturn, Unpack

import click
from click.core import ParameterSource

from ao_protocol.contracts import InvalidSchema
from ao_protocol.events import Failure, InvalidEvent, Result, Terminal, parse_event
from ao_protocol.inputs import ParametersInvalid, check_against
from ao_protocol.wire import JsonObject
from ao_runner.blueprints.loading import load_blueprint
from ao_runner.cli.options import (
    EXISTING_FILE,
    RunArguments,
    Style,
    agent_options,
    complete_session,
    contract_options,
    duration_of,
    examples,
    home_option,
    json_option,
    model_script_option,
    no_schema_option,
    profile_option,
    store_option,
    timeout_option,
    valid_tags,
    with_whole_path,
)
from ao_runner.cli.printing import echo, print_document
from ao_runner.cli.run_command import (
    collect_parameters,
    configuration_from,
    demand_from,
    required_prompt,
    show_oddities,
)
from ao_runner.cli.run_end import show_terminal
from ao_runner.cli.run_progress import follow_run
from ao_runner.errors import EXIT_INTERRUPTED
from ao_runner.model_script import read_model_script
from ao_runner.profiles import load_profile
from ao_runner.run_events import Relayed
from ao_runner.runs.admission import blueprint_of, check_resumable, check_size
from ao_runner.runs.lost_runs import fail_lost_runs
from ao_runner.runs.outcome import exit_code_of
from ao_runner.runs.run_request import DEFAULT_EXECUTORS, new_run_id, new_session_id, with_commands_folder
from ao_runner.runs.waiting import reasons_to_wait, waiting_in_vain
from ao_runner.store.opening import StorePlace
from ao_runner.store.records import OPEN_STATUSES, Placement, QueuedRun, RowDamaged, Run, Session, timestamp
from ao_runner.store.store import Store

POLL_SECONDS: Final = 0.05
SWEEP_SECONDS: Final = 2.0
OF_A_NEW_SESSION: Final = {
    "blueprint": "BLUEPRINT",
    "pairs": "--param",
    "params_file": "--params",
    "config_file": "--config",
    "project_dir": "--project-dir",
}
"""What says how a session begins, and so cannot be said of one that is there."""


@click.command(
    "submit",
    epilog=examples(
        'ao submit pr-reviewer.yaml -p "Review PR 7"',
        'ao submit pr-reviewer.yaml -p "Review PR 7" --profile reviewer --wait > review.json',
        'ao submit pr-reviewer.yaml -p "Review PR 7" --model-script answers.yaml',
        'ao submit --session last -p "Only the security issues, please"',
        'ao submit train.yaml -p "Train it" --require gpu --priority 10 --not-before 2h',
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
@profile_option("Profile or executor that performs the run.")
@timeout_option
@model_script_option
@click.option("--traceparent", envvar="TRACEPARENT", help="W3C `traceparent` of the caller; also TRACEPARENT.")
@click.option(
    "--require",
    "requires",
    multiple=True,
    callback=valid_tags,
    metavar="TAG",
    help="Only a worker with this tag may perform the run, such as gpu or host:NAME. Repeatable.",
)
@click.option(
    "--priority",
    type=click.IntRange(-1000, 1000),
    default=0,
    show_default=True,
    help="Runs with a higher number are performed first.",
)
@click.option(
    "--not-before",
    callback=lambda _ctx, _parameter, text: None if text is None else _time_of(text),
    metavar="TIME",
    help="Earliest start: a time such as 2026-01-31T08:00:00Z, or a duration from now such as 30m, 12h or 7d.",
)
@click.option(
    "--requeue-at-reset",
    "requeue",
    is_flag=True,
    help="If the run ends at a usage limit with a known reset, without side effects, queue a copy for that time.",
)
@click.option("--wait", is_flag=True, help="Wait for the run to end, and show the result as `ao run` does.")
@json_option("Print run_id, session_id and status as JSON; with --wait the terminal event.")
@contract_options
@no_schema_option
@home_option
@store_option
@click.pass_context
def submit_command(ctx: click.Context, /, **given: Unpack[RunArguments]) -> None:
    """Add a run of BLUEPRINT to the queue of this host and print its id. A worker (`ao worker`) performs it.

    With --session, continue that session with another prompt. The prompt may be piped in.
    """
    _check_given(ctx, given)
    script = None if given["model_script"] is None else read_model_script(given["model_script"], os.environ)
    with StorePlace(given["home"], given["store"]).open() as store:
        fail_lost_runs(store)
        session, run, profile = (_further_run if given["session"] else _first_run)(given, store)
        metadata: JsonObject = {} if given["traceparent"] is None else {"traceparent": given["traceparent"]}
        check_size(session, run, metadata)
        with store.transaction():
            if run.mode == "start":
                store.add_session(session)
            else:
                store.resolve(session.session_id)  # it may have been deleted meanwhile
            placement = Placement(given["requires"], given["priority"], given["not_before"])
            store.enqueue(QueuedRun(run, profile, given["timeout"], metadata, script, placement, given["requeue"]))
        store.notify()
        if idle := waiting_in_vain(store.living_owners(), {profile}) or _reason_to_wait(store, run):
            echo(f"ao: {idle}", err=True)
        if given["wait"]:
            _wait_for(store, run, "json" if given["as_json"] else "people")
        elif given["as_json"]:
            print_document({"run_id": run.run_id, "session_id": run.session_id, "status": "queued"})
        else:
            echo(run.run_id)


def _time_of(text: str) -> str:
    """Return the timestamp for a time, which is local unless it has an offset, or for a duration from now."""
    if re.fullmatch(r"[0-9]+[mhd]", text):
        return timestamp(datetime.now(UTC) + duration_of(text))
    try:
        return timestamp(datetime.fromisoformat(text).astimezone(UTC))
    except (ValueError, OverflowError) as error:
        expected = "2026-01-31T08:00:00Z, or 30m, 12h or 7d from now"
        raise click.BadParameter(f"{text!r} is neither a time nor a duration; expected {expected}") from error


def _check_given(ctx: click.Context, given: RunArguments) -> None:
    if given["session"] is None:
        if given["blueprint"] is None:
            raise click.UsageError("Missing BLUEPRINT; or use --session to continue a session.")
        if given["no_schema"]:
            raise click.UsageError("--no-schema is for sessions that exist; use it with --session.")
        return
    for name, shown in OF_A_NEW_SESSION.items():
        if ctx.params[name] and ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{shown} is for new sessions; omit it, or omit --session.")


def _first_run(given: RunArguments, store: Store) -> tuple[Session, Run, str]:
    """Return a new session, its first run, and the profile that performs it."""
    loaded = load_blueprint(given["blueprint"])
    show_oddities(loaded)
    profile_name = with_whole_path(given["profile"] or DEFAULT_EXECUTORS[loaded.blueprint.type])
    profile = load_profile(profile_name, given["home"], os.environ)
    config = configuration_from(given, profile)
    parameters = collect_parameters(loaded.blueprint, given)
    try:
        with suppress(InvalidSchema):  # it is left to the executor
            check_against(loaded.blueprint.parameters_schema, parameters)
    except ParametersInvalid as error:
        raise click.UsageError(f"{error}. Nothing was queued; correct -p, --param or --params.") from error
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
    run = Run(new_run_id(), session.session_id, "start", parameters, timestamp(), "queued", contract=demand.record)
    return session, run, profile_name


def _further_run(given: RunArguments, store: Store) -> tuple[Session, Run, str]:
    """Return a session, a further run of it, and the profile that performs that.

    Raises:
        CannotResume: nobody will ever be able to go on with it.
    """
    session = store.find_session(given["session"])
    is_open = any(run.status in OPEN_STATUSES for run in store.list_runs(session.session_id))
    check_resumable(session, is_open=is_open, has_script=given["model_script"] is not None)
    profile_name = with_whole_path(given["profile"] or session.profile or session.executor_path)
    load_profile(profile_name, given["home"], os.environ)
    prompt = required_prompt(given["prompt"])
    demand = demand_from(given, blueprint_of(session), store)
    run = Run(
        new_run_id(), session.session_id, "resume", {"prompt": prompt}, timestamp(), "queued", contract=demand.record
    )
    return session, run, profile_name


def _reason_to_wait(store: Store, run: Run) -> str | None:
    of_session = [one.run_id for one in store.list_runs(run.session_id) if one.status in OPEN_STATUSES]
    states = [state for run_id in of_session for state in store.find_states(run_id)]
    reason = reasons_to_wait(store, states).get(run.run_id)
    return None if reason is None else f"{run.run_id} is queued: {reason.text}"


def _wait_for(store: Store, run: Run, style: Style) -> NoReturn:
    """Follow a run to its end, show it as wished, and leave with its exit code. Ctrl-C leaves it to its worker."""
    began_at = time.monotonic()
    try:
        terminal = _followed(store, run, style)
        while (successor := _successor(store, run)) is not None:
            run = successor
            echo(f"ao: it ended at a usage limit and continues as {run.run_id}", err=True)
            terminal = _followed(store, run, style)
    except KeyboardInterrupt:
        echo(f"\nthe run continues; cancel it with: ao cancel {run.run_id}", err=True)
        sys.exit(EXIT_INTERRUPTED)
    if style == "people":
        seconds = time.monotonic() - began_at
        show_terminal(terminal, store.find_session(run.session_id), seconds, store.rejected_in(run.run_id))
    sys.exit(int(exit_code_of(terminal)))


def _successor(store: Store, run: Run) -> Run | None:
    """Return the copy of a run that ended at a usage limit."""
    run_id = store.find_successor(run.run_id)
    return None if run_id is None else store.find_states(run_id)[0].run


def _followed(store: Store, run: Run, style: Style) -> Terminal:
    position, sweep_at = 0, time.monotonic() + SWEEP_SECONDS
    with follow_run(style, None, stop=lambda: None) as listener:  # the run is a worker's
        while True:
            # Asked before reading: an event that comes between the two is read in the next round.
            kept = store.last_run(run.session_id, run.run_id)
            is_over = kept is None or kept.status not in OPEN_STATUSES
            for stored in store.list_events(run.session_id, position, run.run_id):
                position = stored.position
                line = stored.line.encode()
                try:
                    event = parse_event(line)
                except InvalidEvent as error:
                    raise RowDamaged("events", str(position), f"event {stored.seq}: {error}") from error
                listener.on_event(Relayed(event, line))
                if isinstance(event.body, Result | Failure):
                    return event.body
            if is_over:
                raise RowDamaged("run", run.run_id, "it has ended, and its terminal event cannot be read")
            if time.monotonic() >= sweep_at:
                fail_lost_runs(store)
                sweep_at = time.monotonic() + SWEEP_SECONDS
            time.sleep(POLL_SECONDS)
