"""`ao submit`: put a run into the local queue, for a worker to perform, and wait for it if that is wanted."""

import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NoReturn

import click
from click.core import ParameterSource

from ao_protocol.events import Failure, InvalidEvent, Result, Terminal, parse_event
from ao_runner.blueprints.loading import load_blueprint
from ao_runner.cli.batch_file import BatchFile
from ao_runner.cli.batch_results import wait_for_batch
from ao_runner.cli.new_run import (
    STDIN,
    accepted_from,
    collect_parameters,
    configuration_from,
    new_run,
    reception_of,
    required_prompt,
    show_oddities,
)
from ao_runner.cli.options import (
    EXISTING_FILE,
    SETTING_OPTIONS,
    DurationOption,
    RunArguments,
    Style,
    agent_options,
    batch_option,
    complete_batch,
    complete_session,
    contract_options,
    examples,
    home_option,
    json_option,
    model_script_option,
    profile_option,
    setting_options,
    store_option,
    timeout_option,
)
from ao_runner.cli.printing import counted, echo, print_document
from ao_runner.cli.progress_lines import show_terminal
from ao_runner.cli.run_progress import follow_run
from ao_runner.cli.stored_events import stored_events
from ao_runner.durations import WITH_UNITS
from ao_runner.errors import EXIT_INTERRUPTED
from ao_runner.model_script import read_model_script
from ao_runner.profiles import load_profile
from ao_runner.run_events import Relayed
from ao_runner.runs.attaching import with_bytes
from ao_runner.runs.batches import failed_runs, find_batch
from ao_runner.runs.lost_runs import opened_and_swept
from ao_runner.runs.outcome import exit_code_of
from ao_runner.runs.repetition import repetition_of
from ao_runner.runs.submission import DEFAULT_EXECUTORS, AcceptedRun, NewRun, accept, enqueue
from ao_runner.runs.waiting import reasons_to_wait, waiting_in_vain
from ao_runner.store.opening import LOCAL, StorePlace
from ao_runner.store.records import OPEN_STATUSES, Run, timestamp
from ao_runner.store.store import Store
from ao_runner.store.store_errors import RowDamaged

OF_A_NEW_SESSION: Final = {
    "blueprint": "BLUEPRINT",
    "pairs": "--param",
    "params_file": "--params",
    "config_file": "--config",
    "project_dir": "--project-dir",
    "settings": "--set",
    **SETTING_OPTIONS,
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
        "ao submit triage.yaml --batch tickets.csv --label team=support",
        "ao submit --rerun-failed bat_4c5ab0 --wait",
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
@setting_options
@timeout_option
@model_script_option
@click.option(
    "--require",
    "requires",
    multiple=True,
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
    metavar="TIME|DURATION",
    help="Earliest start: a time such as 2026-01-31T08:00:00Z, or a DURATION from now, with its unit.",
)
@click.option(
    "--requeue-at-reset",
    "requeue",
    is_flag=True,
    help="If the run ends at a usage limit with a known reset, without side effects, queue a copy for that time.",
)
@click.option("--wait", is_flag=True, help="Wait for the run to end, and show the result as `ao run` does.")
@batch_option("Submit a run for each line")
@click.option(
    "--rerun-failed",
    "rerun",
    metavar="BATCH",
    shell_complete=complete_batch,
    help="Submit the failed runs of a batch again, in the same batch; nothing else.",
)
@json_option("Print run_id, session_id and status as JSON; with --wait the terminal event.")
@contract_options
@home_option
@store_option
@click.pass_context
def submit_command(ctx: click.Context, /, **given: Any) -> None:  # noqa: ANN401  # what click gives
    """Add a run of BLUEPRINT to the queue of this host and print its id. A worker (`ao worker`) performs it.

    With --batch, add one run for each line of a file, all or none of them, and print the id of the batch. A line of
    JSON Lines has the fields parameters or prompt, and any of blueprint, session_id, profile, project_dir,
    executor_config, timeout_seconds, priority, not_before, requires, requeue_at_reset, labels, metadata, attachments,
    output_schema, output_schema_name, output_schema_options, no_schema, keep_rejected; they replace the options. The
    columns of a CSV file are parameters; an empty cell is none.

    With --session, continue that session with another prompt. The prompt may be piped in.
    """
    if given["rerun"] is not None:
        _rerun(ctx, given)
        return
    _check_given(ctx, given)
    script = None if given["model_script"] is None else read_model_script(given["model_script"], os.environ)
    if given["store"] != LOCAL:
        given["attachments"] = tuple(map(with_bytes, given["attachments"]))  # workers may be on other hosts
    with opened_and_swept(StorePlace(given["home"], given["store"])) as store:
        if isinstance(given["not_before"], timedelta):
            given["not_before"] = timestamp(store.now() + given["not_before"])
        if given["batch"] is not None:
            file = BatchFile(given, store, {"model_script": script, **_placement(given)})
            _submit_together(store, file.accept_all(), given)
            return
        asked = (_further_run if given["session"] else _first_run)(given, store, script)
        accepted = accepted_from(asked, given, store, is_queued=True)
        run = accepted.run
        with store.transaction():
            enqueue(store, accepted)
        store.notify()
        if idle := waiting_in_vain(store.workers.living(), {run.profile or ""}) or _reason_to_wait(store, run):
            echo(f"ao: {idle}", err=True)
        if given["wait"]:
            _wait_for(store, run, "json" if given["as_json"] else "people")
        elif given["as_json"]:
            print_document({"run_id": run.run_id, "session_id": run.session_id, "status": "queued"})
        else:
            echo(run.run_id)


def _rerun(ctx: click.Context, given: RunArguments) -> None:
    """Queue the failed runs of a batch again."""
    for one in ctx.command.params:
        is_given = ctx.get_parameter_source(one.name or "") is ParameterSource.COMMANDLINE
        if is_given and one.name not in {"rerun", "wait", "as_json", "home", "store"}:
            raise click.UsageError(f"{one.opts[0]} is for new runs; --rerun-failed asks for the same again. Omit one.")
    with opened_and_swept(StorePlace(given["home"], given["store"])) as store:
        batch_id = find_batch(store, given["rerun"])
        at = reception_of(given, store, is_queued=True)
        failed = failed_runs(store, batch_id)
        again = [accept(repetition_of(run, store.sessions.find(run.session_id)), at) for run in failed]
        _submit_together(store, again, given)


def _submit_together(store: Store, accepted: Sequence[AcceptedRun], given: RunArguments) -> None:
    """Queue the runs of a batch together, print its id, and wait if that is wanted."""
    runs = [one.run for one in accepted]
    batch_id = str(runs[0].batch_id)
    with store.transaction():
        enqueue(store, *accepted)
    store.notify()
    echo(f"ao: {counted(len(runs), 'run')} queued; follow: ao wait {batch_id}", err=True)
    idle = waiting_in_vain(store.workers.living(), {run.profile or "" for run in runs})
    if idle and not given["wait"]:  # which says so, too
        echo(f"ao: {idle}", err=True)
    if given["as_json"]:
        ids = [{"run_id": run.run_id, "session_id": run.session_id, "status": "queued"} for run in runs]
        print_document({"batch_id": batch_id, "runs": ids})
    else:
        echo(batch_id)
    if given["wait"]:
        wait_for_batch(store, batch_id)


def _time_of(text: str) -> str | timedelta:
    """Return the timestamp for a time, which is local unless it has an offset, or the duration from now."""
    with suppress(click.BadParameter):
        return timedelta(seconds=DurationOption(needs_unit=True).convert(text, None, None))
    try:
        return timestamp(datetime.fromisoformat(text).astimezone(UTC))
    except (ValueError, OverflowError) as error:
        expected = f"a time such as 2026-01-31T08:00:00Z, or a duration from now: {WITH_UNITS}"
        raise click.BadParameter(f"expected {expected}, found {text!r}") from error


def _check_given(ctx: click.Context, given: RunArguments) -> None:
    if given["batch"] is not None and (given["session"] is not None or given["prompt"] == STDIN):
        raise click.UsageError(
            "--batch has a request in each line, with session_id or prompt; omit --session and -p -."
        )
    if given["session"] is None:
        if given["blueprint"] is None and given["batch"] is None:
            raise click.UsageError("Missing BLUEPRINT; or use --session to continue a session.")
        return
    for name, shown in OF_A_NEW_SESSION.items():
        if ctx.params[name] not in {None, ()} and ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{shown} is for new sessions; omit it, or omit --session.")


def _first_run(given: RunArguments, _store: Store, script: str | None) -> NewRun:
    loaded = load_blueprint(given["blueprint"])
    show_oddities(loaded)
    profile = load_profile(given["profile"] or DEFAULT_EXECUTORS[loaded.blueprint.type], given["home"], os.environ)
    return new_run(
        given,
        parameters=collect_parameters(loaded.blueprint, given),
        blueprint=loaded,
        executor_config=configuration_from(given, profile),
        model_script=script,
        **_placement(given),
    )


def _further_run(given: RunArguments, store: Store, script: str | None) -> NewRun:
    session = store.sessions.find(given["session"])
    load_profile(given["profile"] or session.profile or session.executor_path, given["home"], os.environ)
    prompt = {"prompt": required_prompt(given["prompt"])}
    return new_run(given, parameters=prompt, session_id=session.session_id, model_script=script, **_placement(given))


def _placement(given: RunArguments) -> dict[str, Any]:
    return {name: given[name] for name in ("requires", "priority", "not_before", "requeue")}


def _reason_to_wait(store: Store, run: Run) -> str | None:
    of_session = [one.run_id for one in store.runs.of_sessions(run.session_id) if one.status in OPEN_STATUSES]
    states = [state for run_id in of_session for state in store.runs.find(run_id)]
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
        show_terminal(terminal, run, store, began_at)
    sys.exit(int(exit_code_of(terminal)))


def _successor(store: Store, run: Run) -> Run | None:
    """Return the copy of a run that ended at a usage limit."""
    run_id = store.runs.find_successor(run.run_id)
    return None if run_id is None else store.runs.find(run_id)[0].run


def _followed(store: Store, run: Run, style: Style) -> Terminal:
    with follow_run(style, None, stop=lambda: None) as listener:  # the run is a worker's
        for stored in stored_events(store, run.session_id, run.run_id, follow=True):
            line = stored.line.encode()
            try:
                event = parse_event(line)
            except InvalidEvent as error:
                raise RowDamaged("events", str(stored.position), f"event {stored.seq}: {error}") from error
            listener.on_event(Relayed(event, line))
            if isinstance(event.body, Result | Failure):
                return event.body
    raise RowDamaged("run", run.run_id, "it has ended, and its terminal event cannot be read")
