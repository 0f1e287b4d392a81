"""Whether the process ended as its events say, in time, and alone (SPEC 6.4, 10)."""

import signal
from collections.abc import Iterator
from typing import Final

from ao_conformance.driver.transcript import exit_text
from ao_conformance.judging.output import Event, Evidence
from ao_conformance.play_result import PlayResult
from ao_conformance.verdict import Finding
from ao_protocol.errors import exit_code_of_failure

EXIT_SECONDS: Final = 5.0
DIED_OF_SIGTERM: Final = (-signal.SIGTERM, 128 + signal.SIGTERM)
OWN_FILES: Final = "what an executor keeps for itself belongs below HOME or TMPDIR"


def judge_ending(seen: Evidence) -> Iterator[Finding]:
    """Find what is wrong with how the process ended."""
    played = seen.played
    terminal = next((event for event in reversed(seen.output.events) if event.is_terminal), None)
    if terminal is None:
        if played.exit_code == 0 and "AOX-110" in played.vector.requirements:
            yield Finding("AOX-110", "another exit than 0, for there is no result", "exit 0")
        return
    if played.exited_at is None:
        if not played.takes_turns:
            yield terminal.breaks("AOX-193", "an exit within 5 s of the terminal event", "the process lived on")
        return
    late = played.exited_at - max(terminal.seconds, played.last_action_at if played.takes_turns else 0.0)
    if played.left_with_stdin:
        found = "the process stayed until stdin was closed"
        yield terminal.breaks("AOX-058", "an exit behind the run, for no turns are asked for", found)
    elif late > EXIT_SECONDS:
        yield terminal.breaks("AOX-193", "an exit within 5 s of the terminal event", f"after {late:.1f} s")
    if played.stdout_ended_at is None:
        holds = "; ".join(played.left_behind)[:500] or "something"
        yield Finding("AOX-193", "the end of stdout once the process has exited", f"still held by {holds}")
    met_behind_its_end = played.cancelled_at is not None and terminal.seconds <= played.cancelled_at
    if not (terminal.type == "result" and met_behind_its_end and played.exit_code in DIED_OF_SIGTERM):
        yield from _judge_exit_code(terminal, played.exit_code)  # else our SIGTERM met it between result and exit


def _judge_exit_code(terminal: Event, code: int | None) -> Iterator[Finding]:
    is_result = terminal.type == "result"
    retryable = "retryable" if terminal.error.get("retryable") else "not retryable"
    failure = f"the failure {terminal.error.get('type')} ({terminal.document.get('status')}, {retryable})"
    words, agreed = "a result" if is_result else failure, agreed_exit_code(terminal)
    if (code == 0) != is_result:
        wanted = "exit 0" if is_result else "another exit than 0"
        yield terminal.breaks("AOX-110", f"{wanted}, which agrees with {words}", describe_exit(code))
    elif agreed is not None and code != agreed:
        yield terminal.breaks("AOX-108", f"exit {agreed}, which agrees with {words}", describe_exit(code))


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


def judge_unasked(seen: Evidence) -> Iterator[Finding]:
    """Find what was said before the invocation came."""
    played = seen.played
    early = next((line for line in played.lines if line.seconds < played.asked_at), None)
    if early is not None:
        is_prepared = any((action.line or {}).get("type") == "prepare" for action in played.vector.actions)
        rule = "AOX-069" if is_prepared else "AOX-203"
        shown = early.raw[:120].decode(errors="backslashreplace").rstrip()
        yield Finding(rule, "nothing before the invocation", shown, line=early.number)


def judge_leftovers(played: PlayResult) -> Iterator[Finding]:
    """Find what outlived the process."""
    if played.left_behind and played.stdout_ended_at is not None:
        found = "; ".join(played.left_behind)[:500]
        if (played.exit_code or 0) < 0 and played.cancelled_at is not None:
            found += "; the signal ended only what was started here: if that is a wrapper, let it `exec` the program"
        yield Finding("AOX-194", "no descendant once the process has exited", found)


def judge_left_files(seen: Evidence) -> Iterator[Finding]:
    """Find files that a run has left, where no tool can have made them and the process had time to remove them."""
    played = seen.played
    has_tools = any(event.type == "tool_started" for event in seen.output.events)
    if played.exit_code is None or played.exit_code < 0 or has_tools:
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


def judge_side_effects(seen: Evidence) -> Iterator[Finding]:
    """Find a failure that says that nothing was done, though something was."""
    for run in seen.output.runs:
        terminal, changed = run[-1], seen.played.workspace_changed
        if terminal.error.get("side_effects") != "none":
            continue
        if any(event.type == "tool_started" for event in run):
            yield terminal.breaks("AOX-103", "side_effects possible, for a tool was started", "none")
        elif changed:
            expected = f"side_effects possible, or no change in the project directory; {OWN_FILES}"
            yield terminal.breaks("AOX-103", expected, f"side_effects none, and {', '.join(changed[:5])} changed")


def judge_input(seen: Evidence) -> Iterator[Finding]:
    """Find where the executable stopped reading and nothing else explains it."""
    if seen.played.untaken_input and seen.played.exit_code is None:
        yield Finding("AOX-040", "the invocation is read", "the process took only a part of its line")
