"""`ao result`: how the last run of a session ended."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Final

import click

from ao_protocol.events import Event, Failure, InvalidEvent, OutputValidation, Result, Terminal, parse_event
from ao_protocol.wire import JsonObject
from ao_runner.cli.attempts import show_attempts
from ao_runner.cli.options import examples, home_option, json_option, session_argument
from ao_runner.cli.show_result import show_failure, show_result
from ao_runner.errors import RunnerError
from ao_runner.runs.lost_runs import end_lost_runs
from ao_runner.runs.outcome import exit_code_of
from ao_runner.store.records import Run
from ao_runner.store.rows import RowDamaged
from ao_runner.store.store import Store

VERDICT: Final = "output_validation"


class NoResultYet(RunnerError):
    """The run is not over, or there was none."""


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
@home_option
def command(session: str, run_id: str | None, as_json: bool, record: bool, attempts: bool, home: Path) -> None:
    """Print the result of the last run of SESSION, or of the run that has this id; the exit code is that of the run."""
    if record and attempts:
        raise click.UsageError("--record and --attempts exclude each other; the record contains the rejected answers.")
    with Store(home) as store:
        end_lost_runs(store, home)
        session_id, own_run = store.resolve(session)
        run = _choose(store, session_id, own_run if run_id is None else store.find_run_id(session_id, run_id))
        line, kept = store.last_line(run.run_id), store.find_record(run.run_id)
        verdicts = _verdicts(store, run) if as_json or attempts else []
    if attempts:
        show_attempts(run, verdicts, () if kept is None else kept.rejected_answers, as_json=as_json)
        return
    if record:
        click.echo(json.dumps({**asdict(run), "record": None if kept is None else asdict(kept)}, indent=2))
        return
    event = None if line is None else _read(line, run)
    if event is None or not isinstance(event.body, Result | Failure):
        raise NoResultYet(f"run {run.run_id} has not ended; follow it with: ao events {run.run_id} --follow")
    if as_json:
        click.echo(
            json.dumps(json.loads(line or "{}") | _validation_of(event.body, run, len(verdicts)), ensure_ascii=False)
        )
    elif isinstance(event.body, Result):
        show_result(event.body)
    else:
        show_failure(
            event.body.error, event.body.status, rejected_in=run.run_id if kept and kept.rejected_answers else None
        )
    sys.exit(int(exit_code_of(event.body)))


def _choose(store: Store, session_id: str, run_id: str | None) -> Run:
    chosen = store.last_run(session_id, run_id)
    if chosen is None:
        raise NoResultYet(f"session {session_id} has no run yet")
    return chosen


def _read(line: str, run: Run) -> Event:
    try:
        return parse_event(line.encode())
    except InvalidEvent as error:
        raise RowDamaged("an event of run", run.run_id, str(error)) from error


def _verdicts(store: Store, run: Run) -> list[OutputValidation]:
    lines = (event.line for event in store.list_events(run.session_id, run_id=run.run_id))
    bodies = [_read(line, run).body for line in lines if VERDICT in line]
    return [body for body in bodies if isinstance(body, OutputValidation)]


def _validation_of(terminal: Terminal, run: Run, verdicts: int) -> JsonObject:
    """Return what became of the run's output contract; nothing where no answer was held against one."""
    kept = terminal.output if isinstance(terminal, Result) else None
    if kept is None and not verdicts:
        return {}
    retries = verdicts - 1 if kept is None else kept.retry_count
    name = (run.contract or {}).get("schema_name")
    return {
        "validated_output": None if kept is None else terminal.result_data,
        "schema_validation": {"valid": kept is not None, "schema_name": name, "retry_count": retries},
    }
