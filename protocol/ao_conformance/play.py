"""Play one vector with the executable, and collect its input, its output and its leftovers without judging them."""

import contextlib
import random
import shutil
import signal
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from ao_conformance.driver.leftovers import temporary_folder
from ao_conformance.driver.process import Process, Start
from ao_conformance.driver.transcript import Transcript, count_of_type, is_terminal, member
from ao_conformance.driver.watches import SocketWatch, WatchedAddress, WatchedFile
from ao_conformance.model_stand_in import StandIn, find_wrong_prompt, stand_in, wanted_prompt
from ao_conformance.placeholders import Placeholders, input_chunks, invocation_in
from ao_conformance.play_result import DESCRIBE_SECONDS, PlayResult
from ao_conformance.surroundings import IDLE_LOOKS, Surroundings, hermetic_command, observe, snapshot, wait_until_idle
from ao_conformance.vectors import Action, Prior, ProcessVector
from ao_protocol.framing import encode_line

REFERENCE: Final = (sys.executable, "-I", "-S", "-c", "for _ in range(2_000_000): pass")
"""A process with a fixed amount of work, which shows how much the machine delays one."""
REFERENCE_CPU_SECONDS: Final = 0.2
"""The CPU seconds that it takes on a slow machine; a machine that needs more gives more time to executors, too."""
START_SECONDS: Final = 30.0
"""How long a play waits for the moment of an action, or for the end of an earlier process."""
AFTER_TERMINAL_SECONDS: Final = 6.0
"""SPEC 10 requires an exit within five seconds of the terminal event; a play waits one second longer."""
EXIT_SECONDS: Final = 1.0
"""How long a process may take to exit after the play closes its stdin."""
SEEDED_WITHIN_SECONDS: Final = 0.5
LOOK_SECONDS: Final = 0.02
"""The interval between two checks for a file."""


def play(vector: ProcessVector, surroundings: Surroundings, seed: int, *, feeds: bool = False) -> PlayResult:
    """Play a vector and return the observations.

    After the play, none of its processes is alive, and none of its files is left but those on other mounts.

    Args:
        vector: The vector.
        surroundings: The executable and its environment.
        seed: The seed of the random delays.
        feeds: Whether the executable gets its input as from a conforming runner.

    Raises:
        CannotFill: A placeholder has no value for this executable.
        NoModel: The vector scripts a model that cannot be simulated.
        NoSession: The run before bound no session that can be resumed.
        OSError: The machine cannot start a process.
        Stopped: The tester interrupted the suite.
    """
    with temporary_folder("ao-conformance-") as scratch:
        player = _Player(vector, surroundings, scratch, random.Random(f"{seed}:{vector.id}"), feeds)  # noqa: S311  # a seed must reproduce the same moments
        return player.perform()


def reference_start() -> tuple[float, float]:
    """Return how many seconds a busy process waits here per CPU second, and how much slower than usual the CPU is."""
    with Process(Start(REFERENCE, Path.cwd(), {}, "closed"), Transcript()) as process:
        process.wait_for(lambda: False, START_SECONDS)
        used = process.used_seconds or REFERENCE_CPU_SECONDS
        took = (process.exited_at or used) - process.started_at
    return max(0.0, took / used - 1), max(1.0, used / REFERENCE_CPU_SECONDS)


class _Player:
    def __init__(
        self, vector: ProcessVector, surroundings: Surroundings, scratch: Path, dice: random.Random, feeds: bool
    ) -> None:
        self.vector = vector
        self.surroundings = surroundings
        self.scratch = scratch
        self.dice = dice
        self.transcript = Transcript(surroundings.stop, surroundings.redactor)
        self.project_dir = scratch / "project"
        self.project_dir.mkdir()
        for name, text in vector.source.get("files", {}).items():
            path = self.project_dir / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        for name, target in vector.source.get("links", {}).items():
            (self.project_dir / name).symlink_to(target)
        self.placeholders = Placeholders(surroundings.subject, self.project_dir, feeds=feeds)
        self.played = PlayResult(vector, None, self.project_dir, began_clock=self.transcript.began_clock)

    def perform(self) -> PlayResult:
        subject = self.surroundings.subject
        with stand_in(subject, self.vector, self.project_dir) as model, contextlib.ExitStack() as living:
            watched = self._watch(living)
            environment = self.surroundings.environment(self.vector, self.scratch, model)
            priors = PriorProcesses(self.surroundings, self.transcript, self.placeholders, environment)
            priors.play(self.vector.priors, living)
            self.played.unreached.extend(priors.unreached)
            prior = priors.last
            if prior is not None and priors.is_stuck:  # it wrote nothing, so the play cannot go on
                self.played.killed, self.played.waits_for_events = True, True
                self.played.stderr, self.played.transcript = prior.stderr, self.transcript.entries
                return self.played
            told = prior.lines if prior is not None else []
            self.placeholders = replace(self.placeholders, session=priors.session).asked_in(told)
            before, names_before = snapshot(self.project_dir), self._names()
            self.played.expectations = [self.placeholders.fill(expected) for expected in self.vector.expectations]
            process = living.enter_context(self._start(environment))
            if priors.together:
                wait_until_idle(process, IDLE_LOOKS)
            for beside, line in priors.together:
                beside.write(line)
            self._write_invocation(process)
            for action in self.vector.actions:
                self._act(action, process, model)
            self._wait_for_the_end(process)
            self._note_what_was_touched(*watched)
            self.played.left_files = sorted(self._names() - names_before)
            for each in (*(beside for beside, _ in priors.together), *filter(None, [prior])):
                each.wait_for(lambda: False, self.transcript.seconds() + START_SECONDS)
                self.played.prior_exit_code = self.played.prior_exit_code or each.exit_code
                self.played.prior_lines += each.lines
            self._collect(process, model, before, environment)
        return self.played

    def _watch(self, living: contextlib.ExitStack) -> tuple[WatchedAddress | None, WatchedFile | None]:
        """Create the address, the file and the socket watch that the vector needs."""
        source = str(self.vector.source)
        address = living.enter_context(WatchedAddress()) if "${watched_url}" in source else None
        path = self.scratch / "watched" / "schema.json"
        file = living.enter_context(WatchedFile(path, "{}")) if "${watched_file}" in source else None
        self._sockets = living.enter_context(SocketWatch()) if self.vector.source.get("opens_no_socket") else None
        self.placeholders = replace(
            self.placeholders,
            watched_url=address.url if address else None,
            watched_file=str(file.path) if file else None,
        )
        return address, file

    def _note_what_was_touched(self, address: WatchedAddress | None, file: WatchedFile | None) -> None:
        if address is not None and address.callers:
            self.played.remarks.append(("watched", f"{address.url} was called {address.callers} times"))
        if file is not None and file.is_opened:
            self.played.remarks.append(("watched", f"{file.path} was opened"))
        if self._sockets is not None and self._sockets.openers:
            self.played.remarks.append(("no_socket", f"opened by {', '.join(self._sockets.openers[:3])}"))

    def _names(self) -> set[str]:
        folders = (self.scratch / "home", self.scratch / "tmp", self.project_dir)
        return {str(path.relative_to(self.scratch)) for folder in folders for path in folder.rglob("*")}

    def _start(self, environment: Mapping[str, str]) -> Process:
        source = self.vector.source
        command = [*self.surroundings.subject.command, *source.get("arguments", [])]
        if source.get("hermetic"):
            command = hermetic_command(command)
        if self._sockets is not None:
            command = self._sockets.command(command)
        stdin_file = None
        if self.vector.stdin == "file":
            stdin_file = self.scratch / "stdin"
            stdin_file.write_bytes(self.placeholders.stdin(source))
        start = Start(
            command,
            self.project_dir,
            environment,
            self.vector.stdin,
            stdin_file,
            source.get("reads") == "slowly",
            inherited=(self._sockets.descriptor,) if self._sockets else (),
        )
        first = self.placeholders.stdin(source)
        if "invocation" in source:
            self.played.invocation = self.placeholders.invocation(source, source["invocation"])
        elif source.get("raw_stdin"):
            self.played.invocation = invocation_in(first)
        self._first = first
        return Process(start, self.transcript)

    def _write_invocation(self, process: Process, *, now: bool = False) -> None:
        later = any(action.do == "write_invocation" for action in self.vector.actions)
        if (later and not now) or self.vector.stdin != "pipe" or not self._first:
            return
        pieces = self.vector.source.get("pieces")
        self.played.asked_at = self.transcript.seconds()
        if pieces is None:
            taken = process.write(self._first, max(START_SECONDS, self.vector.within_seconds))
        else:
            taken = process.write_in_pieces(input_chunks(self._first, pieces))
        self.played.untaken_input = not taken
        self.played.waits_for_events = self._first.endswith(b"\n")
        self.played.began_at = self.played.last_action_at = self.transcript.seconds()

    def _act(self, action: Action, process: Process, model: StandIn) -> None:
        if not self._await_moment(action.at, process, model):
            self.played.unreached.append(action.at)
            return
        match action.do:
            case "close_stdin":
                process.close_stdin()
                self.played.waits_for_events = False
                self.played.closed_at = self.transcript.seconds()
            case "write_line":
                line = self.placeholders.asked_in(process.lines).control_line(action.line or {})
                process.write(encode_line(line))
                if line.get("type") == "turn":
                    self.played.turns.append(line)
                self._note_cancel(is_cancel=(action.line or {}).get("type") == "cancel")
            case "write_raw":
                process.write(str(self.placeholders.fill(action.text)).encode())
            case "write_invocation":
                self._write_invocation(process, now=True)
            case "send_sigterm" | "send_sigterm_to_group":
                process.signal(signal.SIGTERM, to_group=action.do == "send_sigterm_to_group")
                self._note_cancel(is_cancel=True)
            case "stop_reading":
                process.stop_reading()
            case "wait":
                pass
            case _:
                seen = observe(action.do, process, model, self.surroundings.subject.canary)
                self.played.remarks.extend((action.do, text) for text in seen)
        self.played.last_action_at = self.transcript.seconds()

    def _note_cancel(self, *, is_cancel: bool) -> None:
        if is_cancel and self.played.cancelled_at is None:
            self.played.cancelled_at = self.transcript.seconds()

    def _await_moment(self, at: str, process: Process, model: StandIn) -> bool:
        """Wait for the moment of an action; return whether it came."""
        kind, _, argument = at.partition(":")
        came = True
        match kind:
            case "after":
                process.pause(float(argument))
                came = not process.is_over
            case "idle":
                wait_until_idle(process, int(START_SECONDS))
                came = not process.is_over
            case "seeded":
                came = self._await_event(process, "run_started", 1)
                process.pause(self.dice.uniform(0, SEEDED_WITHIN_SECONDS) if came else 0.0)
            case "event":
                name, _, times = argument.partition(":")
                came = self._await_event(process, name, int(times or 1))
            case "model" if model.simulator is not None:
                came = model.simulator.wait_for_requests(int(argument), START_SECONDS)
            case "model":
                came = self._await_event(process, "run_started", 1)
            case "file":
                path, limit = self.project_dir / argument, self.transcript.seconds() + START_SECONDS
                while not path.exists() and not process.is_over and self.transcript.seconds() < limit:
                    process.pause(LOOK_SECONDS)
                came = path.exists()
        return came

    def _await_event(self, process: Process, event_type: str, times: int) -> bool:
        limit = self.transcript.seconds() + START_SECONDS
        return process.wait_for(lambda: count_of_type(process.lines, event_type) >= times, limit)

    def _wait_for_the_end(self, process: Process) -> None:
        def has_exited() -> bool:
            return process.exit_code is not None

        def has_ended() -> bool:
            return not self.played.takes_turns and is_terminal(process.last_line)

        limit = max(self.played.last_action_at, self.played.began_at) + self.vector.within_seconds
        process.wait_for(lambda: has_exited() or process.has_flooded or has_ended(), limit)
        if process.has_flooded:
            return
        ended = [line.seconds for line in process.lines if is_terminal(line.raw)]
        if not has_exited() and ended:
            process.wait_for(has_exited, max(ended) + AFTER_TERMINAL_SECONDS)
            if not has_exited() and not self.played.takes_turns:
                process.close_stdin()
                process.wait_for(has_exited, self.transcript.seconds() + EXIT_SECONDS)
                self.played.left_with_stdin = has_exited()
        if has_exited():
            process.wait_for(lambda: False, (process.exited_at or 0.0) + AFTER_TERMINAL_SECONDS)
            self.played.left_behind = self.surroundings.survivors(process)
        self.played.killed = not has_exited()

    def _collect(
        self, process: Process, model: StandIn, before: Mapping[str, str], environment: Mapping[str, str]
    ) -> None:
        played = self.played
        played.lines, played.unfinished_line = process.lines, process.unfinished_line
        played.flooded, played.stderr = process.has_flooded, process.stderr
        played.exit_code, played.exited_at = process.exit_code, process.exited_at
        played.stdout_ended_at = process.stdout_ended_at
        played.working_seconds = (process.exited_at or 0.0) - process.started_at
        if self.vector.source.get("arguments") and played.working_seconds > DESCRIBE_SECONDS and process.used_seconds:
            waited_share, speed = reference_start()
            played.working_seconds -= process.used_seconds * (waited_share + 1 - 1 / speed)
        after = snapshot(self.project_dir)
        names = before.keys() | after.keys()
        played.workspace_changed = sorted(name for name in names if before.get(name) != after.get(name))
        expected = {name for expected in played.expectations for name in expected.get("files", {})}
        paths = {name: self.project_dir / name for name in expected}
        played.files = {
            name: path.read_text(encoding="utf-8", errors="replace") if path.is_file() else None
            for name, path in paths.items()
        }
        played.told_secret = self.surroundings.secrets_told(process, environment, self.scratch)
        if model.is_echo:
            script = self.placeholders.fill(self.vector.model_script)
            played.model_problems = find_wrong_prompt(wanted_prompt(script) or {}, process.lines)
        if model.simulator is not None:
            played.model_requests = model.requests
            played.model_problems = model.simulator.find_problems()
            played.answers_left = model.simulator.answers_left
            played.asked = [request.conversation_text for request in model.simulator.requests]
            traces = [request.headers.get("traceparent", "") for request in model.simulator.all_requests]
            played.trace_ids = [trace.split("-")[1] if trace.count("-") == 3 else None for trace in traces]
            if not self.vector.priors and model.simulator.requests:  # else an earlier process may have sent the request
                played.model_asked_at = self.transcript.seconds_at(model.simulator.requests[0].received_at)
            for request in model.simulator.requests:
                self.transcript.note("model", f"asked: {request.last_user_text or ''}")
        played.transcript = self.transcript.entries


@dataclass(slots=True)
class PriorProcesses:
    """The processes that a play starts before the judged one."""

    surroundings: Surroundings
    transcript: Transcript
    placeholders: Placeholders
    environment: Mapping[str, str]
    last: Process | None = None
    together: list[tuple[Process, bytes]] = field(default_factory=list)
    """The processes that get their invocation, the bytes, at the same moment as the judged one."""
    session: str | None = None
    """The session that the first process bound, or a later resume: of several, the last one is valid (AOX-082)."""
    unreached: list[str] = field(default_factory=list)
    """The events that never came."""

    @property
    def is_stuck(self) -> bool:
        """Whether the last process is alive and has written nothing, so that the play cannot go on."""
        return self.last is not None and not self.last.lines and not self.last.is_over

    def play(self, priors: Iterable[Prior], living: contextlib.ExitStack) -> None:
        """Start each process when the one before it has reached its moment. They end with `living`.

        Raises:
            NoSession: A process resumes a session that no process before it bound.
            OSError: The machine cannot start a process.
        """
        for prior in priors:
            process, line = self._start(prior)
            living.enter_context(process)
            if prior.until == "start":
                self.together.append((process, line))
                continue
            process.write(line)
            self.last = process
            self._await(prior, process)
            if self.is_stuck:
                return
            # A call of a tool that the executor does not have has failed, and nothing follows from it.
            lines = [line for line in process.lines if not _is_failed_call(line.raw)]
            missing = [wanted for wanted in prior.tells if not count_of_type(lines, wanted)]
            self.unreached.extend(f"event:{wanted} of the process before" for wanted in missing)
            if self.session is None or prior.invocation.get("mode") == "resume":
                self.session = _bound_session(process) or self.session

    def _start(self, prior: Prior) -> tuple[Process, bytes]:
        folder = project_dir = self.placeholders.project_dir
        if prior.own_project_dir:
            folder = shutil.copytree(project_dir, project_dir.parent / f"other{len(self.together)}")
        placeholders = replace(self.placeholders, project_dir=folder, session=self.session)
        invocation = placeholders.invocation({}, prior.invocation)
        command = self.surroundings.subject.command
        start = Start(command, folder, self.environment)
        return Process(start, self.transcript, number=1), encode_line(invocation)

    def _await(self, prior: Prior, process: Process) -> None:
        if prior.until != "end":
            wanted = prior.until.removeprefix("event:")
            limit = self.transcript.seconds() + START_SECONDS
            if not process.wait_for(lambda: count_of_type(process.lines, wanted) > 0, limit):
                self.unreached.append(f"{prior.until} of the process before")
            if prior.line is not None:
                process.write(encode_line(self.placeholders.control_line(prior.line)))
            elif prior.ended_by is not None:
                process.signal(signal.Signals[prior.ended_by])
            else:
                return
        process.wait_for(lambda: False, self.transcript.seconds() + START_SECONDS)
        if process.is_over:
            self.transcript.note("note", "the process before has ended", 1)


def _is_failed_call(line: bytes) -> bool:
    return (member(line, "event_type"), member(line, "status")) == ("tool_finished", "failed")


def _bound_session(process: Process) -> str | None:
    found = (found for line in reversed(process.lines) if (found := member(line.raw, "executor_session_id")))
    session = next(found, None)
    return session if isinstance(session, str) else None
