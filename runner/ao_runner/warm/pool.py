"""The launcher of a worker: a run gets the kept process of its session, an idle process, or a new one."""

import asyncio
import json
import os
import select
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, Self, TypeAlias

from ao_lifeline.lifelines import Lifelines
from ao_protocol.documents import Description
from ao_protocol.framing import encode_line
from ao_protocol.redaction import NO_SECRETS
from ao_protocol.version import CURRENT
from ao_protocol.wire import JsonObject
from ao_runner.blueprints.loading import InvalidBlueprint, UnreadableFile, load_blueprint
from ao_runner.discovery import Executor, describe
from ao_runner.processes.cleanup_journal import NOT_NOTED, CleanupJournal, Scratch
from ao_runner.processes.spawn import STDERR_TAIL_BYTES, Child, Tail, read_available
from ao_runner.runs.attempt import ColdLauncher, ContainmentNotThere, Launched, LaunchMode, rlimits_of, start
from ao_runner.runs.run_request import (
    ReadyRun,
    RunRequest,
    SandboxNotThere,
    bare_environment,
    environment_of,
    invocation_of,
    sandboxed,
)

PARKED_SECONDS: Final = 600.0
"""Default time that a process waits for its run."""
KEPT_SECONDS: Final = 300.0
"""Default time that a process waits for the next turn of its session."""
MOST_KEPT: Final = 64
BETWEEN_STARTS_SECONDS: Final = 0.05
"""The interval between starts of parked processes, so that their imports do not delay active runs."""
QUIET_SECONDS: Final = 0.25
"""Processes are parked when no run was launched for this long. A parked process uses more CPU time than it saves a run,
because it rehearses, so that parking would slow down a burst."""
LEAVE_SECONDS: Final = 5.0
"""How long an unneeded process may take to exit by itself."""
KILL_SECONDS: Final = 1.0
_OF_ONE_RUN: Final = ("run_id", "session_id", "parameters", "prompt", "attachments", "requires")
_OF_ONE_TURN: Final = (*_OF_ONE_RUN, "mode", "executor_session_id", "metadata")
MAX_AGE_SECONDS: Final = 300.0
"""How long a description is cached: an updated import may change an executor without changing its file."""


Identity: TypeAlias = tuple[object, ...]
"""Equal for equal things only: an executable file that was described, or parked processes that are interchangeable."""


def identity_of(executor: Executor) -> Identity:
    """Return the current identity of an executor's file.

    Raises:
        OSError: The file does not exist.
    """
    status = os.stat(executor.path)  # noqa: PTH116  # the fields are what is wanted
    return str(executor.path), status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


@dataclass(slots=True, eq=False)
class PooledProcess:
    """Owns a child from `wait` until `take` or `retire`; `on_gone` is called when it becomes unusable."""

    child: Child
    scratch: Scratch
    stderr: Tail
    on_gone: Callable[["PooledProcess"], None]
    is_leaving: bool = False
    is_gone: bool = False
    _is_writing: bool = False
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    _due: asyncio.TimerHandle | None = None

    def wait(self, seconds: float) -> None:
        """Watch the process, and retire it after `seconds`, unless it is taken before."""
        self._due = self._loop.call_later(seconds, self._expire)
        self._loop.add_reader(self.child.exit_fd, self._gone)
        self._loop.add_reader(self.child.stdout_fd, self._speaks)
        self._loop.add_reader(self.child.stderr_fd, self._read_stderr)

    @property
    def is_there(self) -> bool:
        """Whether the process waits silently now; the event loop notices its exit a little later."""
        poll = select.poll()  # `select.select` does not support descriptors above 1023
        for fd in (self.child.exit_fd, self.child.stdout_fd):
            poll.register(fd, select.POLLIN)
        return not self.is_gone and not poll.poll(0)

    def take(self) -> Child:
        """Hand the child to a run."""
        self._unwatch()
        return self.child

    def send(self, data: bytes) -> None:
        """Write to the stdin of the process without blocking."""
        self.child.stdin.send(data)
        if self.child.stdin.wants_to_write and not self._is_writing:
            self._loop.add_writer(self.child.stdin.fd, self._write)
            self._is_writing = True

    def retire(self) -> None:
        """Ask the process to exit, and end it if it does not."""
        if self.is_leaving:
            return
        self.is_leaving = True
        self._cancel_due()
        self._loop.remove_reader(self.child.stdout_fd)
        self._stop_writing()
        self.child.stdin.send(encode_line({"type": "shutdown"}))
        self.child.stdin.close()
        self._due = self._loop.call_later(LEAVE_SECONDS, self._end)

    def close(self) -> None:
        """End the process now."""
        self.is_gone = True
        self._unwatch()
        self.child.close()
        self.scratch.remove()

    def _expire(self) -> None:
        self.on_gone(self)
        self.retire()

    def _end(self) -> None:
        self._cancel_due()
        self.child.signal_group(signal.SIGKILL)
        self._due = self._loop.call_later(KILL_SECONDS, self._gone)

    def _gone(self) -> None:
        self.close()
        self.on_gone(self)

    def _speaks(self) -> None:
        """Discard the process: its output, or the end of stdout, would be attributed to the next run."""
        self.is_leaving = True
        self.on_gone(self)
        self._loop.remove_reader(self.child.stdout_fd)
        self._end()

    def _write(self) -> None:
        self.child.stdin.write_pending()
        if not self.child.stdin.wants_to_write:
            self._stop_writing()

    def _stop_writing(self) -> None:
        if self._is_writing:
            self._loop.remove_writer(self.child.stdin.fd)
            self._is_writing = False

    def _read_stderr(self) -> None:
        chunk = read_available(self.child.stderr_fd)
        if chunk:
            self.stderr.feed(chunk)
        elif chunk is not None:
            self._loop.remove_reader(self.child.stderr_fd)

    def _unwatch(self) -> None:
        self._cancel_due()
        self._stop_writing()
        for fd in (self.child.exit_fd, self.child.stdout_fd, self.child.stderr_fd):
            self._loop.remove_reader(fd)

    def _cancel_due(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None


@dataclass(slots=True, eq=False, kw_only=True)
class IdleProcess(PooledProcess):
    """A process without an invocation; `prepared` is the invocation that it was asked to prepare for."""

    key: Identity
    profile: str
    prepared: str | None
    replace: Callable[[], None]
    """Starts another process in its place."""


@dataclass(slots=True, eq=False, kw_only=True)
class SessionProcess(PooledProcess):
    """A process that has performed a run of a session and waits for the next one."""

    key: Identity
    invocation: JsonObject


@dataclass(slots=True)
class _KeptLaunch(Launched):
    """The launch of a further run in a kept process."""

    def first_line(self, invocation: JsonObject) -> bytes:
        """Return the turn (SPEC 4.4)."""
        of_the_run = ("run_id", "parameters", "prompt", "attachments")
        turn: JsonObject = {name: invocation[name] for name in of_the_run if name in invocation}
        return encode_line({"type": "turn", **turn})


@dataclass
class WarmLauncher:
    """See `Launcher`. A `with` block owns the waiting processes and ends them."""

    lines: Lifelines | None
    cleanup: CleanupJournal = NOT_NOTED
    tell: Callable[[str], object] = lambda _: None
    """Receives messages for people about preparations that failed."""
    on_session_left: Callable[[str], object] = lambda _: None
    """Receives a session whose process no longer waits and was not given a run."""
    is_full: Callable[[], bool] = lambda: False
    """Whether no further run can be launched now. Then other runs may wait, and no process is parked."""
    parked: list[IdleProcess] = field(default_factory=list)
    kept: dict[str, SessionProcess] = field(default_factory=dict)
    _leaving: set[PooledProcess] = field(default_factory=set)
    _expected_agents: dict[str, str | None] = field(default_factory=dict)
    _awaited: dict[str, ReadyRun] = field(default_factory=dict)
    """The last run of each profile whose processes are being parked; the next one is expected to be similar."""

    def __post_init__(self) -> None:
        self._quiet_from = 0.0
        self._cold = ColdLauncher(self.lines, self.cleanup)
        self._known: dict[tuple[Identity, Executor, frozenset[tuple[str, str]]], tuple[float, Description]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._awaited.clear()
        for waiting in {*self.parked, *self.kept.values(), *self._leaving}:
            waiting.close()

    async def park_ahead(self, request: RunRequest) -> None:
        """Park processes for runs like this one, before there is any.

        Raises:
            DescribeFailed: The executor does not describe itself.
            OSError: It cannot be started.
            OwnCredentialGiven: It would receive a credential of the runner.
            SandboxNotThere: The program of its sandbox is not there.
        """
        environment, session = bare_environment(request.environ), request.session
        description = await self.describe(sandboxed(request, session.project_dir, environment), environment)
        invocation = invocation_of(request, session, str(CURRENT), has_inputs=False)
        environment = environment_of(request, description)
        self._refill(ReadyRun(request, session, description, environment, NO_SECRETS, invocation))

    async def describe(self, executor: Executor, environment: Mapping[str, str]) -> Description:
        """Return the description of an executor, possibly cached for some minutes; raise the errors of `describe`.

        The cache key is the executor's file and environment. Failures are not cached.
        """
        key = (identity_of(executor), executor, frozenset(environment.items()))
        known = self._known.get(key)
        if known is not None and time.monotonic() - known[0] < MAX_AGE_SECONDS:
            return known[1]
        description = await describe(executor, environment, self.lines, self.cleanup)
        self._known[key] = (time.monotonic(), description)
        return description

    def launch(self, ready: ReadyRun) -> Launched:
        """Return a process for the run, and park another for the next run if the profile requests that.

        Raises:
            OSError: A new process could not be started.
        """
        request = ready.request
        if request.simulation is not None:
            return self._cold.launch(ready)  # its model ends with the run
        may_stay = request.wants_to_stay and ready.description.capabilities.multi_turn
        launched = self._kept_for(ready) or self._parked_for(ready) or self._cold.launch(ready)
        launched.may_stay = may_stay
        if may_stay:
            launched.on_kept = lambda done: self._keep(ready, done)
        if request.profile is not None and request.profile.warm is not None:
            loop = asyncio.get_running_loop()
            self._quiet_from = loop.time() + QUIET_SECONDS
            loop.call_soon(self._refill, ready)
        return launched

    def _kept_for(self, ready: ReadyRun) -> Launched | None:
        kept = self.kept.pop(ready.session.session_id, None)
        if kept is None:
            return None
        is_the_same = kept.invocation == _without(ready.invocation, _OF_ONE_TURN) and kept.key == _key_of(ready)
        if ready.request.run.mode != "resume" or not is_the_same or not kept.is_there:
            self._retire(kept)  # its invocation or environment has changed, or it has exited
            return None
        return _KeptLaunch(kept.take(), kept.scratch, launch_mode="kept", stderr=kept.stderr)

    def _keep(self, ready: ReadyRun, launched: Launched) -> None:
        """Keep a process for the session's next run."""
        session_id, profile = ready.session.session_id, ready.request.profile
        process = launched.child, launched.scratch, launched.stderr
        invocation = _without(ready.invocation, _OF_ONE_TURN)
        kept = SessionProcess(*process, self._forget, key=_key_of(ready), invocation=invocation)
        self.kept[session_id] = kept
        seconds = KEPT_SECONDS if profile is None or profile.idle_exit_seconds is None else profile.idle_exit_seconds
        kept.wait(seconds)
        if len(self.kept) > MOST_KEPT:
            self.retire_session(next(iter(self.kept)))

    def keeps(self, session_id: str) -> bool:
        """Return whether a session has a kept process."""
        return session_id in self.kept

    def retire_session(self, session_id: str) -> None:
        """Retire the kept process of a session, if there is one."""
        if (kept := self.kept.pop(session_id, None)) is not None:
            self._retire(kept)
            self.on_session_left(session_id)

    def _retire(self, waiting: PooledProcess) -> None:
        self._leaving.add(waiting)
        waiting.retire()

    def _parked_for(self, ready: ReadyRun) -> Launched | None:
        if not self.parked:
            return None
        key, expected = _key_of(ready), _expectation(ready.invocation)
        fitting = [one for one in self.parked if one.key == key and one.is_there]
        if not fitting:
            return None
        # A process that was prepared for another agent would work, but its preparation would be wasted.
        chosen = min(fitting, key=lambda one: (one.prepared != expected, one.prepared is not None))
        self.parked.remove(chosen)
        mode: LaunchMode = "prepared" if chosen.prepared == expected else "parked"
        return Launched(chosen.take(), chosen.scratch, launch_mode=mode, stderr=chosen.stderr)

    def _refill(self, ready: ReadyRun) -> None:
        """Park the profile's number of processes for runs like this one, one after another."""
        profile = ready.request.profile
        if profile is None or profile.warm is None:
            return
        is_refilling = profile.name in self._awaited
        self._awaited[profile.name] = ready
        if not is_refilling:
            self._park_next(profile.name)

    def _park_next(self, profile: str) -> None:
        awaited, loop = self._awaited.get(profile), asyncio.get_running_loop()
        if awaited is not None and (loop.time() < self._quiet_from or self.is_full()):
            loop.call_later(QUIET_SECONDS, self._park_next, profile)
        elif awaited is not None and self._park_one(awaited):
            loop.call_later(BETWEEN_STARTS_SECONDS, self._park_next, profile)
        else:
            self._awaited.pop(profile, None)

    def _park_one(self, ready: ReadyRun) -> bool:
        """Park a process if one is missing, and return whether it was; retire the profile's unsuitable processes."""
        profile = ready.request.profile
        if profile is None or profile.warm is None:
            return False
        try:
            key, prepared = _key_of(ready), self._preparation(ready)
            fitting = [one for one in self.parked if one.key == key and one.prepared in {prepared, None}]
            for other in [one for one in self.parked if one.profile == profile.name and one not in fitting]:
                self.parked.remove(other)
                self._retire(other)
            if len(fitting) >= profile.warm.size:
                return False
            child, scratch = start(ready, self.lines, self.cleanup)
        except (OSError, ContainmentNotThere, SandboxNotThere):
            return False  # the next run starts cold and reports why it could not be started
        process, replace = (child, scratch, Tail(STDERR_TAIL_BYTES)), partial(self._refill, ready)
        parked = IdleProcess(*process, self._forget, key=key, profile=profile.name, prepared=prepared, replace=replace)
        self.parked.append(parked)
        parked.wait(profile.warm.max_age_seconds or PARKED_SECONDS)
        if prepared is not None:
            parked.send(encode_line({"type": "prepare", "invocation": json.loads(prepared)}))
        return True

    def _preparation(self, ready: ReadyRun) -> str | None:
        """Return the invocation to prepare for: that of a run like this one, if its agent is the expected one."""
        request = ready.request
        warm = None if request.profile is None else request.profile.warm
        if warm is None or warm.blueprint is None or not ready.description.capabilities.prepare:
            return None
        if request.run.mode != "start" or request.secret_values:
            return None  # the process may get a run of another session, which must not see the secrets
        if ready.session.agent_name != self._expected_agent(warm.blueprint) or "traceparent" in request.metadata:
            return None  # another agent, or a trace that no other run shares
        return _expectation(ready.invocation)

    def _expected_agent(self, blueprint: str) -> str | None:
        """Return the agent's name; None if the blueprint cannot be read, which is reported once."""
        if blueprint not in self._expected_agents:
            self._expected_agents[blueprint] = None
            try:
                self._expected_agents[blueprint] = load_blueprint(Path(blueprint), may_wait=False).blueprint.name
            except (UnreadableFile, InvalidBlueprint) as error:
                self.tell(f"no process is prepared for the agent of warm.blueprint: {error}")
        return self._expected_agents[blueprint]

    def _forget(self, waiting: PooledProcess) -> None:
        """Remove a process that became unusable; it may still be exiting. Replace one that is merely too old."""
        if isinstance(waiting, IdleProcess) and waiting in self.parked:
            self.parked.remove(waiting)
            if not waiting.is_gone and not waiting.is_leaving:
                asyncio.get_running_loop().call_soon(waiting.replace)
        for session_id in [name for name, one in self.kept.items() if one is waiting]:
            del self.kept[session_id]
            self.on_session_left(session_id)
        if waiting.is_gone:
            self._leaving.discard(waiting)
        else:
            self._leaving.add(waiting)


def _key_of(ready: ReadyRun) -> Identity:
    request = ready.request
    limits = {} if request.profile is None else rlimits_of(request.profile.limits)
    sandbox = () if request.sandbox is None else tuple(request.sandbox.command)
    variables, folder = frozenset(ready.environment.items()), ready.session.project_dir
    keeps, executor = request.keeps_rejected_answers, identity_of(request.executor)
    return executor, variables, frozenset(limits.items()), folder, keeps, sandbox


def _expectation(invocation: JsonObject) -> str:
    return json.dumps(_without(invocation, _OF_ONE_RUN), sort_keys=True)


def _without(invocation: JsonObject, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in invocation.items() if name not in names}
