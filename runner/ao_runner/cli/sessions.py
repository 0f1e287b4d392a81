"""`ao sessions`, `ao events` and `ao result`: what is stored, how it is shown, and how it is deleted."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Final

import click

from ao_protocol.events import Event, Failure, InvalidEvent, OutputValidation, Result, parse_event
from ao_protocol.wire import JsonObject
from ao_runner.cli.options import (
    all_option,
    complete_session,
    examples,
    json_option,
    older_than_option,
    session_argument,
    short_name,
    store_options,
    together,
)
from ao_runner.cli.printing import (
    MOST_SHOWN,
    counted,
    echo,
    escaped_json,
    leave_if_damaged,
    print_document,
    print_table,
    short_time,
    shorten,
    show_newest,
)
from ao_runner.cli.progress_lines import lines_of_failure, show_failure, show_result
from ao_runner.cli.runs import prompt_of
from ao_runner.cli.stored_events import stored_events
from ao_runner.cli.told_events import ToldEvents
from ao_runner.errors import RunnerError
from ao_runner.home import WORKSPACES
from ao_runner.runs.answers import attempts_of, validation_of
from ao_runner.runs.lost_runs import opened_and_swept
from ao_runner.runs.outcome import exit_code_of
from ao_runner.store.brief_fields import brief, without_data
from ao_runner.store.deletions import DeletableSession
from ao_runner.store.opening import StorePlace
from ao_runner.store.records import Run, Session
from ao_runner.store.store_errors import RowDamaged


@click.group(
    "sessions",
    invoke_without_command=True,
    epilog=examples(
        "ao sessions",
        "ao sessions --all",
        "ao sessions --json | jq -r .[0].session_id",
        "ao sessions delete last",
        "ao sessions prune --older-than 30d --dry-run",
    ),
)
@all_option
@json_option("Print all sessions as JSON, with all fields.")
@store_options
@click.pass_context
def sessions_command(ctx: click.Context, show_all: bool, as_json: bool, place: StorePlace) -> None:
    """List the stored sessions, first the one with the newest run, or delete some."""
    if ctx.invoked_subcommand is not None:
        return
    with opened_and_swept(place) as store:
        sessions = store.sessions.all()
        shown = sessions if show_all or as_json else sessions[:MOST_SHOWN]
        runs: dict[str, list[Run]] = {session.session_id: [] for session in shown}
        for run in store.runs.of_sessions(*runs):
            runs[run.session_id].append(run)
    if as_json:
        listed = {session_id: [brief(asdict(run)) for run in of_session] for session_id, of_session in runs.items()}
        print_document([brief(asdict(one)) | {"runs": listed[one.session_id]} for one in shown])
    elif sessions or not store.damage:
        _show([(session, runs[session.session_id]) for session in shown], len(sessions))
    leave_if_damaged(store.damage)


_deletion_options: Final = together(
    click.option("--dry-run", is_flag=True, help="Print what would be deleted, and delete nothing."),
    json_option("Print the deleted sessions as a JSON list."),
    store_options,
)


@sessions_command.command(
    "delete",
    short_help="Delete sessions with their runs, events and results.",
    epilog=examples("ao sessions delete ses_4c5ab0", "ao sessions delete last --dry-run")
    + "\n\n\b\nExit codes: 0 deleted, 2 nothing deleted: an unknown id, or a run is queued or running.",
)
@click.argument("session_ids", metavar="ID...", nargs=-1, required=True, shell_complete=complete_session)
@_deletion_options
def delete(session_ids: tuple[str, ...], dry_run: bool, as_json: bool, place: StorePlace) -> None:
    """Delete sessions with all their runs, events and results from the store.

    ID is the id of a session or of one of its runs, the beginning of one, or `last`. If a run of one of the sessions
    is queued or running, nothing is deleted.
    """
    with opened_and_swept(place) as store:
        resolved = [store.sessions.resolve(wanted)[0] for wanted in session_ids]
        deleted = store.deletions.delete(resolved, dry_run=dry_run)
    _conclude(place.home, deleted, dry_run=dry_run, as_json=as_json)


@sessions_command.command(
    "prune",
    short_help="Delete sessions that are older than a duration.",
    epilog=examples("ao sessions prune --older-than 30d --dry-run", "ao sessions prune --older-than 12h --json"),
)
@older_than_option("Time since the last run of the session began or ended")
@_deletion_options
def prune(older_than: float, dry_run: bool, as_json: bool, place: StorePlace) -> None:
    """Delete old sessions with all their runs, events and results from the store.

    Sessions with a queued or running run stay.
    """
    with opened_and_swept(place) as store:
        deleted = store.deletions.prune(store.now() - timedelta(seconds=older_than), dry_run=dry_run)
    _conclude(place.home, deleted, dry_run=dry_run, as_json=as_json)


def _conclude(home: Path, sessions: Sequence[DeletableSession], *, dry_run: bool, as_json: bool) -> None:
    """Remove the workspaces of deleted sessions, and show which were deleted."""
    if sessions and not dry_run and (home / WORKSPACES).is_dir():
        from ao_runner.processes.workspaces import forget_workspaces

        forget_workspaces(home / WORKSPACES, [one.session_id for one in sessions])
    if as_json:
        print_document([asdict(session) for session in sessions])
        return
    rows = [
        [one.session_id, shorten(one.agent_name, 30), str(one.runs), short_time(one.last_activity)] for one in sessions
    ]
    print_table(["SESSION", "AGENT", "RUNS", "LAST ACTIVITY"], rows)
    word = "would be deleted" if dry_run else "deleted"
    echo(f"{counted(len(sessions), 'session')} {word}", err=True)


def _show(shown: list[tuple[Session, list[Run]]], sessions: int) -> None:
    header = ["SESSION", "NEWEST", "AGENT", "EXECUTOR", "RUNS", "LAST", "BEGAN", "PROMPT"]
    rows = [_row(session, runs) for session, runs in shown]
    if any(session.host for session, _ in shown):
        header.insert(4, "HOST")
        for row, (session, _) in zip(rows, shown, strict=True):
            row.insert(4, session.host or "")
    print_table(
        header,
        rows,
        whole=("NEWEST", "BEGAN"),
        expendable=("NEWEST", "EXECUTOR", "RUNS", "BEGAN", "PROMPT", "LAST", "AGENT"),
        if_empty='no sessions yet; start one: ao run BLUEPRINT -p "…"',
    )
    show_newest(sessions, len(shown), "ao sessions")


def _row(session: Session, runs: list[Run]) -> list[str]:
    last = runs[-1] if runs else None
    status = "" if last is None else last.status if last.error_type is None else f"{last.status}: {last.error_type}"
    return [
        session.session_id,
        "" if last is None else last.run_id,
        shorten(session.agent_name, 30),
        shorten(short_name(session.executor_name), 24),
        str(len(runs)),
        status,
        short_time(session.created_at),
        prompt_of(runs[0]) if runs else "",
    ]


@click.command(
    "events",
    epilog=examples("ao events last", "ao events ses_4c5ab0 --follow", "ao events last --run run_01 | jq .event_type"),
)
@session_argument
@click.option("-f", "--follow", is_flag=True, help="Wait for new events until the run ends.")
@click.option("--run", "run_id", help="Print only the events of this run: an id, the beginning of one, or `last`.")
@click.option("--text", is_flag=True, help="Print readable lines, from the prompt to the end, instead of JSON.")
@click.option("--verbose", is_flag=True, help="As --text, with messages, and what the model thought, as a whole.")
@store_options
def events_command(
    session: str, follow: bool, run_id: str | None, text: bool, verbose: bool, place: StorePlace
) -> None:
    """Print the events of all runs of SESSION in order, one JSON line each; of a run, if SESSION is the id of one."""
    with opened_and_swept(place) as store:
        session_id, own_run = store.sessions.resolve(session)
        run_id = own_run if run_id is None else store.runs.find_id(session_id, run_id)
        told = ToldEvents(store, session_id, verbose, follow) if text or verbose else None
        shown = set()
        for event in stored_events(store, session_id, run_id, follow=follow):
            shown.add(event.run_id)
            try:
                if told is None:
                    json.loads(event.line)
                    echo(escaped_json(event.line))
                for line in () if told is None else told.tell(event):
                    echo(line)
            except (ValueError, RecursionError) as error:
                store.damage.add(RowDamaged("events", str(event.position), f"event {event.seq}: {error}"))
        runs = [run.run_id for run in store.runs.of_sessions(session_id) if run_id in {None, run.run_id}]
        pruned = [run for run in runs if run not in shown and not store.damage and store.events.are_pruned(run)]
    if pruned:
        raise EventsPruned(*pruned)
    leave_if_damaged(store.damage)


VERDICT: Final = "output_validation"


class EventsPruned(RunnerError):
    """The events of runs that have ended are no longer stored."""

    exit_code = 1

    def __init__(self, *run_ids: str) -> None:
        super().__init__(
            f"the events of {', '.join(run_ids)} are no longer stored: `ao store prune` has dropped those of its week."
            " `ao runs` shows how it ended, and `ao result --record` its record"
        )


@click.command(
    "result",
    epilog=examples(
        "ao result last",
        "ao result ses_4c5ab0 > review.json",
        "ao result last --attempts",
        "ao result last --record",
    ),
)
@session_argument
@click.option("--run", "run_id", help="Run to show.  [default: the last one]")
@json_option("Print the terminal event, with validated_output and schema_validation where an answer was validated.")
@click.option("--record", is_flag=True, help="Print the run's record: program, times, exit code, problems, stderr.")
@click.option("--attempts", is_flag=True, help="Print the answers that did not fit the schema, with their errors.")
@store_options
def result_command(
    session: str, run_id: str | None, as_json: bool, record: bool, attempts: bool, place: StorePlace
) -> None:
    """Print the result of the last run of SESSION, or of the run that has this id; the exit code is that of the run."""
    if record and attempts:
        raise click.UsageError("--record and --attempts exclude each other; the record contains the rejected answers.")
    with opened_and_swept(place) as store:
        session_id, own_run = store.sessions.resolve(session)
        run = store.runs.last(session_id, own_run if run_id is None else store.runs.find_id(session_id, run_id))
        if run is None:
            raise RunnerError(f"session {session_id} has no run yet")
        executor = store.sessions.find(session_id).executor_name
        line, kept = store.events.last_line(run.run_id), store.runs.find_record(run.run_id)
        if line is None and not record and store.events.are_pruned(run.run_id):
            raise EventsPruned(run.run_id)
        events = store.events.of_session(run.session_id, run_id=run.run_id) if as_json or attempts else []
        bodies = [_read(event.line, run).body for event in events if VERDICT in event.line]
        verdicts = [body for body in bodies if isinstance(body, OutputValidation)]
    if attempts:
        _show_attempts(run, attempts_of(verdicts, () if kept is None else kept.rejected_answers), as_json=as_json)
        return
    if record:
        added = {"attachments": without_data(run.attachments), "record": None if kept is None else asdict(kept)}
        echo(json.dumps({**asdict(run), **added}, indent=2))
        return
    event = None if line is None else _read(line, run)
    if event is None or not isinstance(event.body, Result | Failure):
        raise RunnerError(f"run {run.run_id} has not ended; follow it with: ao events {run.run_id} --follow")
    if as_json:
        print_document(json.loads(line or "{}") | validation_of(event.body, run, len(verdicts)))
    elif isinstance(event.body, Result):
        show_result(event.body)
    else:
        show_failure(
            lines_of_failure(
                event.body.error,
                event.body.status,
                rejected_in=run.run_id if kept and kept.rejected_answers else None,
                executor=executor,
            )
        )
    sys.exit(int(exit_code_of(event.body)))


def _read(line: str, run: Run) -> Event:
    try:
        return parse_event(line.encode())
    except InvalidEvent as error:
        raise RowDamaged("an event of run", run.run_id, str(error)) from error


def _show_attempts(run: Run, attempts: list[JsonObject], *, as_json: bool) -> None:
    """Print each attempt on stdout: whether its answer fitted, the errors, and the text of a rejected one."""
    if as_json:
        print_document(attempts)
        return
    if not attempts:
        reason = "it has no output schema, or ended before an answer"
        if run.ended_at is None:
            reason = f"it has not ended; follow it with: ao events {run.run_id} --follow"
        echo(f"run {run.run_id} has no validated answer: {reason}", err=True)
    for attempt in attempts:
        is_valid, text, errors = attempt["valid"], attempt["text"], attempt["errors"]
        heading = f"attempt {attempt['attempt']}: {'valid' if is_valid else 'rejected'}"
        echo(heading, fg="green" if is_valid else "red", bold=True)
        for error in errors if isinstance(errors, list) else ():
            echo(f"  {error}")
        if is_valid:
            echo(f"  see the answer: ao result {run.run_id}")
        elif not isinstance(text, str):
            echo("  (the answer was not stored)")
        else:
            echo("\n".join(f"  | {line}" for line in text.splitlines() or [""]))
            if attempt["is_cut"]:
                echo("  … (the rest was not stored)")
