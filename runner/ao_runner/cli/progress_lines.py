"""The lines about the events of a run, and about its end: its result, or its failure and the next steps.

Results go to stdout, everything else to stderr.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ao_protocol.errors import ErrorType
from ao_protocol.events import ErrorInfo, Event, Result, Terminal
from ao_runner.cli.printing import echo, plain_text, print_exactly, print_json, shorten
from ao_runner.run_events import Relayed
from ao_runner.runs.narration import Narration, NarrationEntry, Nesting, Severity, Weight, describe_usage
from ao_runner.store.records import Run
from ao_runner.store.store import Store

MAX_MESSAGE_LINES: Final = 6
MAX_SHOWN_ERRORS: Final = 10
MAX_SHOWN_DEPTH: Final = 8
MAX_CALL_CHARACTERS: Final = 80
MAX_SHOWN_STDERR_LINES: Final = 12
HINTS: Final[dict[str, str]] = {
    ErrorType.AUTHENTICATION_FAILED: "export the variable with the provider's key; `ao executors describe NAME` lists "
    "such variables under secrets",
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

_NOT_CONTINUED: Final = frozenset(
    {
        ErrorType.AUTHENTICATION_FAILED,
        ErrorType.CONTEXT_WINDOW_EXCEEDED,
        ErrorType.SESSION_NOT_FOUND,
        ErrorType.UNSUPPORTED_CAPABILITY,
    }
)
"""Failures after which another prompt in the same session fails in the same way."""


@dataclass(frozen=True, slots=True)
class ProgressLine:
    """A line for a person. The mark at its beginning shows what kind of line it is."""

    mark: str
    text: str
    severity: Severity = "plain"


class Narrator:
    """The lines for the events of a run, without its end, which is shown separately.

    Args:
        is_verbose: Whether messages, and what the model thought, are not cut.
    """

    def __init__(self, *, is_verbose: bool = False) -> None:
        self._is_verbose = is_verbose
        shown: tuple[Weight, ...] = ("line",)
        self.narration = Narration(Nesting(shown))

    def tell(self, event: Event | Relayed) -> list[ProgressLine]:
        """Return the lines for an event; none for an event that is only for programs or for a page with all details."""
        entries = self.narration.receive(event.body)
        return [line for entry in entries if entry.weight == "line" for line in lines_of(entry, self._is_verbose)]


def lines_of(entry: NarrationEntry, is_verbose: bool) -> list[ProgressLine]:
    """Return an entry as lines: the begin of a message or all of it, or a sentence and the first of its points.

    They are indented by the depth of the entry. Where it does not stand below its call, a line names the call.
    """
    depth = min(len(entry.path), MAX_SHOWN_DEPTH)
    lines = _lines_of_message(entry, is_verbose) if entry.kind == "message" else [
        ProgressLine(entry.mark, shorten(entry.sentence), entry.severity),
        *(ProgressLine(" ", f"  {point}", entry.severity) for point in first_points(entry.points)),
    ]  # fmt: skip
    indented = [replace(line, mark="  " * depth + line.mark) for line in lines]
    if entry.is_below:
        return indented
    call = "an earlier call" if entry.part_of is None else shorten(entry.part_of.sentence, MAX_CALL_CHARACTERS)
    return [ProgressLine("  " * (depth - 1) + "·", f"part of {call}", "dim"), *indented]


def _lines_of_message(entry: NarrationEntry, is_verbose: bool) -> list[ProgressLine]:
    thought = f"thinking: {entry.reasoning.strip()}" if entry.reasoning.strip() else ""
    thoughts, said = _filled_lines(thought if is_verbose else shorten(thought)), _filled_lines(entry.text)
    shown = said if is_verbose else [shorten(line) for line in said[:MAX_MESSAGE_LINES]]
    more = len(said) - len(shown)
    return [
        *(ProgressLine("·", line, "dim") for line in thoughts),
        *(ProgressLine("│", line) for line in shown),
        *([ProgressLine("│", f"… {more} more lines", "dim")] if more else []),
    ]


def _filled_lines(text: str) -> list[str]:
    return [line for line in plain_text(text).strip().splitlines() if line.strip()]


def first_points(points: Sequence[str]) -> list[str]:
    """Return the first of some problems as lines, and how many more there are."""
    more = len(points) - MAX_SHOWN_ERRORS
    return [*map(shorten, points[:MAX_SHOWN_ERRORS]), *([f"… {more} more"] if more > 0 else [])]


def show_terminal(terminal: Terminal, run: Run, store: Store, began_at: float) -> None:
    """Show the end of a run of a store, and the next steps; it was begun at `began_at` of the monotonic clock."""
    record = store.runs.find_record(run.run_id)
    session, seconds = store.sessions.find(run.session_id), time.monotonic() - began_at
    if isinstance(terminal, Result):
        show_result(terminal)
        for warning in _warnings(terminal):
            echo(f"! {warning}", fg="yellow", err=True)
        echo(f"✓ {describe_result(terminal, seconds)}", fg="green", err=True)
    else:
        rejected_in = run.run_id if record is not None and record.rejected_answers else None
        error, status = terminal.error, terminal.status
        show_failure(lines_of_failure(error, status, seconds, rejected_in, session.executor_name))
    failed_so = None if isinstance(terminal, Result) else terminal.error.type
    can_continue = (record is None or record.can_resume) and failed_so not in _NOT_CONTINUED
    if session.executor_session_id is not None and can_continue:
        scripted = " --model-script FILE" if session.is_simulated else ""
        echo(f'  continue: ao resume {session.session_id} -p "…"{scripted}', err=True)


def describe_result(result: Result, seconds: float) -> str:
    """Return the end of a run that has a result in a few words: time, attempts if several, tokens and cost."""
    retries = 0 if result.output is None else result.output.retry_count
    attempts = f"{retries + 1} attempts" if retries else ""
    return " · ".join(filter(None, [f"completed in {seconds:.1f} s", attempts, describe_usage(result.usage)]))


def _warnings(result: Result) -> Iterator[str]:
    if result.output is not None:
        if result.output.ambiguous:
            yield "the answer held several values that fit; the last one was taken"
        yield from (f"read leniently: {shorten(edit)}" for edit in result.output.edits or [])


def show_result(result: Result) -> None:
    """Print a result to stdout: text as it is, data as indented JSON."""
    if result.result_text is None:
        print_json(result.result_data)
        return
    print_exactly(result.result_text)


def show_failure(lines: Iterable[ProgressLine]) -> None:
    """Print a failure and its remedy, the lines of `lines_of_failure`, to stderr."""
    for number, line in enumerate(lines):
        colour = None if number else "yellow" if line.severity == "warning" else "red"
        echo(f"{line.mark} {line.text}", fg=colour, bold=not number, err=True)


def lines_of_failure(
    error: ErrorInfo,
    status: str,
    seconds: float | None = None,
    rejected_in: str | None = None,
    executor: str = "NAME",
) -> Iterator[ProgressLine]:
    """Return a failure and its remedy as lines.

    Args:
        error: Why the run failed.
        status: `failed` or `cancelled`.
        seconds: How long the run took, if that is known.
        rejected_in: The id of the run, if it has rejected answers to look at.
        executor: The name of the executor in the remedies.
    """
    took = "" if seconds is None else f" after {seconds:.1f} s"
    yield ProgressLine("✗", f"{status}{took}: {shorten(error.type)}", "warning" if status == "cancelled" else "error")
    problems = error.validation_errors or []
    head, repeated, _ = error.message.partition(problems[0]) if problems else (error.message, "", "")
    message = head.rstrip(" :;") if repeated and head else error.message  # without the problems listed below
    yield ProgressLine(" ", shorten(message, 2000))
    yield from (ProgressLine(" ", f"  {point}") for point in first_points(problems))
    last_words = (error.details or {}).get("stderr_tail")
    if isinstance(last_words, str):
        yield ProgressLine(" ", "end of its stderr:")
        for line in last_words.strip().splitlines()[-MAX_SHOWN_STDERR_LINES:]:
            yield ProgressLine(" ", f"  {shorten(line)}")
    hint = HINTS.get(error.type, "").replace("NAME", executor)
    if not isinstance(last_words, str):
        hint = hint.replace("see its stderr above", "run it by hand: it wrote nothing to stderr")
    if hint:
        yield ProgressLine(" ", f"what to do: {hint}")
    if rejected_in is not None:
        yield ProgressLine(" ", f"rejected answers: ao result {rejected_in} --attempts")
