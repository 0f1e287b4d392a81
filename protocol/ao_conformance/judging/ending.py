"""Whether the process ended as its events say, in time, and alone (SPEC 6.4, 10)."""

import signal
from collections.abc import Iterator
from typing import Final

from ao_conformance.driver.transcript import exit_text
from ao_conformance.judging.output import Event, Output
from ao_conformance.play_result import PlayResult
from ao_conformance.verdict import Finding, Verdict
from ao_protocol.errors import exit_code_of_failure

EXIT_SECONDS: Final = 5.0
DIED_OF_SIGTERM: Final = (-signal.SIGTERM, 128 + signal.SIGTERM)
OWN_FILES: Final = "what an executor keeps for itself belongs below HOME or TMPDIR"


def judge_ending(played: PlayResult, output: Output) -> Iterator[Finding]:
    """Find what is wrong with how the process ended."""
    terminal = next((event for event in reversed(output.events) if event.is_terminal), None)
    if terminal is None and played.exit_code == 0 and "AOX-110" in played.vector.requirements:
        yield Finding("AOX-110", "another exit than 0, for there is no result", "exit 0")
    if terminal is not None:
        yield from _judge_exit(played, terminal)


def _judge_exit(played: PlayResult, terminal: Event) -> Iterator[Finding]:
    if played.exited_at is None:
        if not played.takes_turns:
            yield Finding(
                "AOX-193", "an exit within 5 s of the terminal event", "the process lived on", line=terminal.line
            )
        return
    late = played.exited_at - max(terminal.seconds, played.last_action_at if played.takes_turns else 0.0)
    if played.left_with_stdin:
        found = "the process stayed until stdin was closed"
        yield Finding("AOX-058", "an exit behind the run, for no turns are asked for", found, line=terminal.line)
    elif late > EXIT_SECONDS:
        yield Finding("AOX-193", "an exit within 5 s of the terminal event", f"after {late:.1f} s", line=terminal.line)
    if played.stdout_ended_at is None:
        holds = "; ".join(played.left_behind)[:500] or "something"
        yield Finding("AOX-193", "the end of stdout once the process has exited", f"still held by {holds}")
    met_behind_its_end = played.cancelled_at is not None and terminal.seconds <= played.cancelled_at
    if terminal.type == "result" and met_behind_its_end and played.exit_code in DIED_OF_SIGTERM:
        return  # our SIGTERM met it between its result and its exit
    agreed = agreed_exit_code(terminal)
    if (played.exit_code == 0) != (terminal.type == "result"):
        wanted = "exit 0" if terminal.type == "result" else "another exit than 0"
        found = describe_exit(played.exit_code)
        yield Finding("AOX-110", f"{wanted}, which agrees with {_words(terminal)}", found, line=terminal.line)
    elif agreed is not None and played.exit_code != agreed:
        yield Finding(
            "AOX-108",
            f"exit {agreed}, which agrees with {_words(terminal)}",
            describe_exit(played.exit_code),
            line=terminal.line,
        )


def agreed_exit_code(terminal: Event) -> int | None:
    """Return the exit code that goes with a terminal event; None where the event is too broken to tell."""
    if terminal.type == "result":
        return 0
    error = terminal.error
    status = terminal.document.get("status")
    if not isinstance(error.get("type"), str) or not isinstance(error.get("retryable"), bool):
        return None
    if (status == "cancelled") != (error["type"] == "cancelled"):
        return None
    return int(exit_code_of_failure(str(status), error["type"], retryable=error["retryable"]))


def describe_end(played: PlayResult) -> str:
    """Return how the judged process ended, for people."""
    if played.killed:
        return f"it had to be killed after {played.vector.within_seconds:g} s"
    return describe_exit(played.exit_code)


def describe_exit(code: int | None) -> str:
    """Return how a process ended, for people; None where it did not by itself."""
    return "it had to be killed" if code is None else exit_text(code)


def judge_unasked(played: PlayResult) -> Iterator[Finding]:
    """Find what was said before the invocation came."""
    early = next((line for line in played.lines if line.seconds < played.asked_at), None)
    if early is not None:
        is_prepared = any((action.line or {}).get("type") == "prepare" for action in played.vector.actions)
        shown = early.raw[:120].decode(errors="backslashreplace").rstrip()
        yield Finding(
            "AOX-069" if is_prepared else "AOX-203", "nothing before the invocation", shown, line=early.number
        )


def judge_leftovers(played: PlayResult) -> Iterator[Finding]:
    """Find what outlived the process."""
    if played.left_behind and played.stdout_ended_at is not None:
        found = "; ".join(played.left_behind)[:500]
        if (played.exit_code or 0) < 0 and played.cancelled_at is not None:
            found += "; the signal ended only what was started here: if that is a wrapper, let it `exec` the program"
        yield Finding("AOX-194", "no descendant once the process has exited", found)


def judge_left_files(played: PlayResult, output: Output) -> Iterator[Finding]:
    """Find files that a run has left, where no tool can have made them and the process had time to remove them."""
    if played.exit_code is None or played.exit_code < 0 or any(event.type == "tool_started" for event in output.events):
        return
    if played.vector.priors:
        return  # the process before may still be there, or was killed
    is_about = "AOX-206" in played.vector.requirements  # elsewhere a server or a command may write into the project
    folders = ("tmp/", "project/") if is_about else ("tmp/",)
    if left := [name for name in played.left_files if name.startswith(folders)]:
        yield Finding("AOX-206", "no file of the executor's in TMPDIR and the project directory", ", ".join(left[:5]))


def judge_secrets(played: PlayResult) -> Iterator[Finding]:
    """Find where a secret was told."""
    if played.told_secret:
        yield Finding("AOX-198", "the value of a secret variable nowhere", "found in " + ", ".join(played.told_secret))


def judge_side_effects(played: PlayResult, output: Output) -> Iterator[Finding]:
    """Find a failure that says that nothing was done, though something was."""
    for run in output.runs:
        terminal = run[-1]
        if terminal.error.get("side_effects") != "none":
            continue
        if any(event.type == "tool_started" for event in run):
            yield Finding("AOX-103", "side_effects possible, for a tool was started", "none", line=terminal.line)
        elif played.workspace_changed:
            changed = ", ".join(played.workspace_changed[:5])
            expected = f"side_effects possible, or no change in the project directory; {OWN_FILES}"
            yield Finding("AOX-103", expected, f"side_effects none, and {changed} changed", line=terminal.line)


def judge_input(played: PlayResult) -> Iterator[Finding]:
    """Find where the executable stopped reading and nothing else explains it."""
    if played.untaken_input and played.exit_code is None:
        yield Finding("AOX-040", "the invocation is read", "the process took only a part of its line", Verdict.FAIL)


def _words(terminal: Event) -> str:
    if terminal.type == "result":
        return "a result"
    retryable = "retryable" if terminal.error.get("retryable") else "not retryable"
    return f"the failure {terminal.error.get('type')} ({terminal.document.get('status')}, {retryable})"
