"""`ao result`: how a run ended. The result goes to stdout, everything about it to stderr."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

import click

from ao_protocol.errors import ErrorType
from ao_protocol.events import ErrorInfo, Event, Failure, InvalidEvent, OutputValidation, Result, Terminal, parse_event
from ao_protocol.rejected_answers import RejectedAnswer
from ao_protocol.wire import JsonObject
from ao_runner.cli.options import examples, home_option, json_option, session_argument
from ao_runner.cli.printing import plain_text, print_document, print_json, shorten
from ao_runner.cli.run_progress import MAX_SHOWN_ERRORS, describe_usage
from ao_runner.errors import RunnerError
from ao_runner.runs.lost_runs import fail_lost_runs
from ao_runner.runs.outcome import exit_code_of
from ao_runner.store.records import RowDamaged, Run, Session
from ao_runner.store.store import Store

VERDICT: Final = "output_validation"
HINTS: Final[dict[str, str]] = {
    ErrorType.AUTHENTICATION_FAILED: "set the key of its provider, or log in there; `ao executors describe NAME` lists "
    "its secrets",
    ErrorType.PERMISSION_DENIED: "the key has no permission for this model or service; check it with the provider",
    ErrorType.RATE_LIMITED: "wait and retry",
    ErrorType.QUOTA_EXCEEDED: "the account's quota is used up; check it with the provider",
    ErrorType.PROVIDER_UNAVAILABLE: "the provider is unavailable; check the network and retry",
    ErrorType.MODEL_NOT_FOUND: "choose another model in the executor's configuration (--config)",
    ErrorType.CONTEXT_WINDOW_EXCEEDED: "start a new session, or reduce the input",
    ErrorType.PARAMETERS_VALIDATION_FAILED: "correct -p, --param or --params to match the agent's parameters_schema",
    ErrorType.INVALID_OUTPUT_SCHEMA: "`ao blueprint check FILE` shows the errors in the schema",
    ErrorType.INVALID_EXECUTOR_CONFIG: "`ao executors describe NAME` shows the accepted configuration",
    ErrorType.OUTPUT_SCHEMA_VALIDATION_FAILED: "no attempt produced a valid answer; be more explicit in the system "
    "prompt, or simplify the schema",
    ErrorType.SCHEMA_VALIDATION_FAILED: "no attempt produced a valid answer; try --output-option max_retries=N or "
    "strategy=auto, or simplify the schema",
    ErrorType.UNSUPPORTED_CAPABILITY: "`ao executors describe NAME` shows the capabilities",
    ErrorType.SESSION_NOT_FOUND: "the executor no longer has the session; start a new one with `ao run`",
    ErrorType.DEADLINE_EXCEEDED: "raise --timeout, or give the agent less work",
    ErrorType.DEPENDENCY_MISSING: "`ao doctor` shows what is missing and how to install it",
    ErrorType.MCP_SERVER_UNAVAILABLE: "check the blueprint's mcp_servers: does each server exist, and is it reachable?",
    ErrorType.EXECUTOR_NOT_FOUND: "`ao executors` lists the installed executors",
    ErrorType.EXECUTOR_START_TIMEOUT: "check the executor with `ao doctor`, then retry",
    ErrorType.EXECUTOR_CRASHED: "retry; if it keeps crashing, see its stderr above",
    ErrorType.MISSING_TERMINAL: "this is an error in the executor; see its stderr above",
    ErrorType.PROTOCOL_VIOLATION: "this is an error in the executor; see its stderr above",
}
MAX_SHOWN_STDERR_LINES: Final = 12


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
def result_command(session: str, run_id: str | None, as_json: bool, record: bool, attempts: bool, home: Path) -> None:
    """Print the result of the last run of SESSION, or of the run that has this id; the exit code is that of the run."""
    if record and attempts:
        raise click.UsageError("--record and --attempts exclude each other; the record contains the rejected answers.")
    with Store(home) as store:
        fail_lost_runs(store)
        session_id, own_run = store.resolve(session)
        run = _choose(store, session_id, own_run if run_id is None else store.find_run_id(session_id, run_id))
        line, kept = store.last_line(run.run_id), store.find_record(run.run_id)
        verdicts = _verdicts(store, run) if as_json or attempts else []
    if attempts:
        _show_attempts(run, verdicts, () if kept is None else kept.rejected_answers, as_json=as_json)
        return
    if record:
        click.echo(json.dumps({**asdict(run), "record": None if kept is None else asdict(kept)}, indent=2))
        return
    event = None if line is None else _read(line, run)
    if event is None or not isinstance(event.body, Result | Failure):
        raise NoResultYet(f"run {run.run_id} has not ended; follow it with: ao events {run.run_id} --follow")
    if as_json:
        print_document(json.loads(line or "{}") | _validation_of(event.body, run, len(verdicts)))
    elif isinstance(event.body, Result):
        _show_result(event.body)
    else:
        _show_failure(
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


def _show_attempts(
    run: Run, verdicts: Sequence[OutputValidation], rejected: Sequence[RejectedAnswer], *, as_json: bool
) -> None:
    """Print each attempt on stdout: whether its answer fitted, the errors, and the text of a rejected one."""
    attempts = _attempts_of(verdicts, rejected)
    if as_json:
        print_document(attempts)
    elif not attempts:
        click.echo(f"run {run.run_id} has no validated answer: {_reason(run)}", err=True)
    for attempt in () if as_json else attempts:
        _show_attempt(attempt, run.run_id)


def _attempts_of(verdicts: Sequence[OutputValidation], rejected: Sequence[RejectedAnswer]) -> list[JsonObject]:
    """Return `attempt`, `valid`, `errors`, `text` and `is_cut` of each attempt. `text` is null where it is not kept.

    A truncated answer has no verdict, and so no errors.
    """
    judged = {verdict.attempt: verdict for verdict in verdicts}
    texts = {answer.attempt: answer for answer in rejected}
    # What the runner refused although its executor had accepted it was judged twice.
    return [
        {
            "attempt": attempt,
            "valid": attempt not in texts and judged[attempt].valid,
            "errors": list(judged[attempt].errors) if attempt in judged else [],
            "text": texts[attempt].text if attempt in texts else None,
            "is_cut": attempt in texts and texts[attempt].is_cut,
        }
        for attempt in sorted({*judged, *texts})
    ]


def _show_attempt(attempt: JsonObject, run_id: str) -> None:
    heading = f"attempt {attempt['attempt']}: {'valid' if attempt['valid'] else 'rejected'}"
    click.secho(heading, fg="green" if attempt["valid"] else "red", bold=True)
    errors, text = attempt["errors"], attempt["text"]
    for error in errors if isinstance(errors, list) else ():
        click.echo(f"  {plain_text(str(error))}")
    if attempt["valid"]:
        click.echo(f"  see the answer: ao result {run_id}")
    elif not isinstance(text, str):
        click.echo("  (the answer was not stored)")
    else:
        click.echo("\n".join(f"  | {line}" for line in plain_text(text).splitlines() or [""]))
        if attempt["is_cut"]:
            click.echo("  … (the rest was not stored)")


def _reason(run: Run) -> str:
    if run.ended_at is None:
        return f"it has not ended; follow it with: ao events {run.run_id} --follow"
    return "it has no output schema, or ended before an answer"


def show_terminal(terminal: Terminal, session: Session, seconds: float, rejected_in: str | None = None) -> None:
    """Show how a run ended, and what can be done next; `rejected_in` is the run if it has stored rejected answers."""
    if isinstance(terminal, Result):
        _show_result(terminal)
        for remark in _remarks(terminal):
            click.secho(f"! {remark}", fg="yellow", err=True)
        retries = 0 if terminal.output is None else terminal.output.retry_count
        attempts = f"{retries + 1} attempts" if retries else ""
        details = [f"completed in {seconds:.1f} s", attempts, describe_usage(terminal.usage)]
        click.secho(f"✓ {' · '.join(filter(None, details))}", fg="green", err=True)
    else:
        _show_failure(terminal.error, terminal.status, seconds, rejected_in, session.executor_name)
    if session.executor_session_id is not None:
        click.echo(f'  continue: ao resume {session.session_id} -p "…"', err=True)


def _show_result(result: Result) -> None:
    """Print a result to stdout: text as it is, data as JSON that people can read."""
    if result.result_text is None:
        print_json(result.result_data)
        return
    text = result.result_text
    # At a terminal, what a model writes must not steer it.
    click.echo(plain_text(text) if sys.stdout.isatty() else text, nl=not text.endswith("\n"))


def _show_failure(
    error: ErrorInfo,
    status: str,
    seconds: float | None = None,
    rejected_in: str | None = None,
    executor: str = "NAME",
) -> None:
    """Say on stderr what went wrong and what to do next; see `show_terminal`."""
    took = "" if seconds is None else f" after {seconds:.1f} s"
    click.secho(f"✗ {status}{took}: {error.type}", fg="yellow" if status == "cancelled" else "red", bold=True, err=True)
    problems = error.validation_errors or []
    click.echo(f"  {shorten(_without(error.message, problems), 2000)}", err=True)
    for problem in problems[:MAX_SHOWN_ERRORS]:
        click.echo(f"    {shorten(problem)}", err=True)
    if len(problems) > MAX_SHOWN_ERRORS:
        click.echo(f"    … {len(problems) - MAX_SHOWN_ERRORS} more", err=True)
    last_words = (error.details or {}).get("stderr_tail")
    if isinstance(last_words, str):
        click.echo("  end of its stderr:", err=True)
        for line in last_words.strip().splitlines()[-MAX_SHOWN_STDERR_LINES:]:
            click.echo(f"    {shorten(line)}", err=True)
    hint = HINTS.get(error.type, "").replace("NAME", executor)
    if not isinstance(last_words, str):
        hint = hint.replace("see its stderr above", "run it by hand: it wrote nothing to stderr")
    if hint:
        click.echo(f"  what to do: {hint}", err=True)
    if rejected_in is not None:
        click.echo(f"  rejected answers: ao result {rejected_in} --attempts", err=True)


def _remarks(result: Result) -> list[str]:
    """Return what whoever relies on the result should know of how it was read."""
    if result.output is None:
        return []
    several = ["the answer held several values that fit; the last one was taken"] if result.output.ambiguous else []
    return several + [f"read leniently: {shorten(edit)}" for edit in result.output.edits or []]


def _without(message: str, problems: list[str]) -> str:
    """Return a message without the problems that it repeats, since they are listed below it."""
    head, found, _ = message.partition(problems[0]) if problems else (message, "", "")
    return head.rstrip(" :;") if found and head else message
