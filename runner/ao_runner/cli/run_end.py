"""Show the end of a run: its result on stdout, its failure and the next steps on stderr."""

import time
from typing import Final

from ao_protocol.errors import ErrorType
from ao_protocol.events import ErrorInfo, Result, Terminal
from ao_runner.cli.printing import echo, print_exactly, print_json, shorten
from ao_runner.cli.run_progress import first_points
from ao_runner.runs.narration import describe_usage
from ao_runner.store.records import Run
from ao_runner.store.store import Store

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
    ErrorType.INPUT_REQUIRED: "`ao inputs` shows what it asks; `ao answer RUN --allow` lets it continue",
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


def show_terminal(terminal: Terminal, run: Run, store: Store, began_at: float) -> None:
    """Show the end of a run of a store, and the next steps; it was begun at `began_at` of the monotonic clock."""
    session, seconds = store.sessions.find(run.session_id), time.monotonic() - began_at
    if isinstance(terminal, Result):
        show_result(terminal)
        output, attempts = terminal.output, ""
        if output is not None:
            if output.ambiguous:
                echo("! the answer held several values that fit; the last one was taken", fg="yellow", err=True)
            for edit in output.edits or []:
                echo(f"! read leniently: {shorten(edit)}", fg="yellow", err=True)
            attempts = f"{output.retry_count + 1} attempts" if output.retry_count else ""
        details = [f"completed in {seconds:.1f} s", attempts, describe_usage(terminal.usage)]
        echo(f"✓ {' · '.join(filter(None, details))}", fg="green", err=True)
    else:
        rejected_in = store.runs.rejected_in(run.run_id)
        show_failure(terminal.error, terminal.status, seconds, rejected_in, session.executor_name)
    if session.executor_session_id is not None:
        echo(f'  continue: ao resume {session.session_id} -p "…"', err=True)


def show_result(result: Result) -> None:
    """Print a result to stdout: text as it is, data as indented JSON."""
    if result.result_text is None:
        print_json(result.result_data)
        return
    print_exactly(result.result_text)


def show_failure(
    error: ErrorInfo,
    status: str,
    seconds: float | None = None,
    rejected_in: str | None = None,
    executor: str = "NAME",
) -> None:
    """Print a failure and the remedy to stderr. `rejected_in` is the run if it has stored rejected answers."""
    took = "" if seconds is None else f" after {seconds:.1f} s"
    echo(
        f"✗ {status}{took}: {shorten(error.type)}", fg="yellow" if status == "cancelled" else "red", bold=True, err=True
    )
    problems = error.validation_errors or []
    head, repeated, _ = error.message.partition(problems[0]) if problems else (error.message, "", "")
    message = head.rstrip(" :;") if repeated and head else error.message  # without the problems listed below
    echo(f"  {shorten(message, 2000)}", err=True)
    for point in first_points(problems):
        echo(f"    {point}", err=True)
    last_words = (error.details or {}).get("stderr_tail")
    if isinstance(last_words, str):
        echo("  end of its stderr:", err=True)
        for line in last_words.strip().splitlines()[-MAX_SHOWN_STDERR_LINES:]:
            echo(f"    {shorten(line)}", err=True)
    hint = HINTS.get(error.type, "").replace("NAME", executor)
    if not isinstance(last_words, str):
        hint = hint.replace("see its stderr above", "run it by hand: it wrote nothing to stderr")
    if hint:
        echo(f"  what to do: {hint}", err=True)
    if rejected_in is not None:
        echo(f"  rejected answers: ao result {rejected_in} --attempts", err=True)
