"""The launcher of a worker: a run gets the process that its session has kept, an idle one, or a new one."""

import asyncio
import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from ao_lifeline.lifelines import Lifelines
from ao_protocol.documents import Description
from ao_protocol.framing import encode_line
from ao_protocol.wire import JsonObject
from ao_runner.blueprints.loading import UnreadableFile, load_object
from ao_runner.discovery import Executor, describe
from ao_runner.processes.cleanup_journal import NOT_NOTED, CleanupJournal
from ao_runner.processes.spawn import STDERR_TAIL_BYTES, Tail
from ao_runner.runs.attempt import ColdLauncher, ContainmentNotThere, Launched, LaunchMode, rlimits_of, start
from ao_runner.runs.run_request import RunRequest, bare_environment, environment_of, invocation_of
from ao_runner.warm.pooled_process import PooledProcess

PARKED_SECONDS: Final = 600.0
"""LaunchMode long a process waits for its run, where the profile does not say."""
KEPT_SECONDS: Final = 300.0
"""LaunchMode long a process waits for the next turn of its session, where the profile does not say."""
MOST_KEPT: Final = 64
BETWEEN_STARTS_SECONDS: Final = 0.05
"""LaunchMode far apart processes are parked: what they import must not hold up the runs that are there."""
_OF_ONE_RUN: Final = ("run_id", "session_id", "parameters", "prompt")
_OF_ONE_TURN: Final = (*_OF_ONE_RUN, "mode", "executor_session_id", "metadata")


MAX_AGE_SECONDS: Final = 300.0
"""An executor may change without its own file, by an update of what it imports."""


class Identity(NamedTuple):
    """Which file it was that was asked."""

    path: str
    device: int
    inode: int
    size: int
    modified: int


@dataclass(slots=True)
class Descriptions:
    """Remembers descriptions for a while, each for the very file and environment that it was given for."""

    lines: Lifelines | None = None
    cleanup: CleanupJournal = NOT_NOTED
    clock: Callable[[], float] = time.monotonic
    _known: dict[tuple[Identity, frozenset[tuple[str, str]]], tuple[float, Description]] = field(default_factory=dict)

    async def describe(self, executor: Executor, environment: Mapping[str, str]) -> Description:
        """Return what an executor says; raises as `describe` does. Failures are not remembered."""
        key = (identity_of(executor), frozenset(environment.items()))
        known = self._known.get(key)
        if known is not None and self.clock() - known[0] < MAX_AGE_SECONDS:
            return known[1]
        description = await describe(executor, environment, self.lines, self.cleanup)
        self._known[key] = (self.clock(), description)
        return description


def identity_of(executor: Executor) -> Identity:
    """Return which file an executor is now.

    Raises:
        OSError: it is not there.
    """
    status = os.stat(executor.path)  # noqa: PTH116  # the fields are what is wanted
    return Identity(str(executor.path), status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


class PoolKey(NamedTuple):
    """What makes one parked process as good as another."""

    executor: Identity
    environment: frozenset[tuple[str, str]]
    limits: frozenset[tuple[str, int]]
    folder: str
    keeps_rejected_answers: bool


@dataclass(slots=True, eq=False)
class IdleProcess:
    """A process that has not been given its invocation; `prepared` is what it was told to expect."""

    waiting: PooledProcess
    key: PoolKey
    profile: str
    prepared: str | None = None
    replace: Callable[[], None] | None = None
    """Has another one wait in its place."""


@dataclass(slots=True, eq=False)
class SessionProcess:
    """A process that has performed a run of a session and waits for the next one."""

    waiting: PooledProcess
    invocation: JsonObject
    key: PoolKey


@dataclass(slots=True)
class _KeptLaunch(Launched):
    """The launch of a further run in a process that was kept."""

    def first_line(self, invocation: JsonObject) -> bytes:
        """Return the turn (SPEC 4.4)."""
        turn: JsonObject = {"type": "turn", "run_id": invocation["run_id"], "parameters": invocation["parameters"]}
        if "prompt" in invocation:
            turn["prompt"] = invocation["prompt"]
        return encode_line(turn)


class _Awaited(NamedTuple):
    """The last run of a profile, which the next one is expected to be like."""

    request: RunRequest
    description: Description
    environment: Mapping[str, str]


@dataclass
class WarmLauncher:
    """See `Launcher`. A `with` block owns the processes that wait; at its end they are ended."""

    lines: Lifelines | None
    cleanup: CleanupJournal = NOT_NOTED
    tell: Callable[[str], object] = lambda _: None
    """Gets a sentence for people, about what cannot be done ahead of runs."""
    on_session_left: Callable[[str], object] = lambda _: None
    """Gets a session whose process no longer waits for the next run, and was not given one."""
    parked: list[IdleProcess] = field(default_factory=list)
    kept: dict[str, SessionProcess] = field(default_factory=dict)
    _leaving: set[PooledProcess] = field(default_factory=set)
    _expected_agents: dict[str, str | None] = field(default_factory=dict)
    _awaited: dict[str, _Awaited] = field(default_factory=dict)
    """By the profiles whose processes are being parked."""

    def __post_init__(self) -> None:
        self._cold = ColdLauncher(self.lines, self.cleanup)
        self._descriptions = Descriptions(self.lines, self.cleanup)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._awaited.clear()
        parked, kept = [one.waiting for one in self.parked], [one.waiting for one in self.kept.values()]
        for waiting in {*parked, *kept, *self._leaving}:
            waiting.close()

    async def park_ahead(self, request: RunRequest) -> None:
        """Have processes wait for runs like this one, before there is any.

        Raises:
            DescribeFailed: the executor does not describe itself.
            OSError: it cannot be started.
            OwnCredentialGiven: it would get a credential of the runner.
        """
        description = await self.describe(request.executor, bare_environment(request.environ))
        self._refill(request, description, environment_of(request, description))

    async def describe(self, executor: Executor, environment: Mapping[str, str]) -> Description:
        """Return what an executor says of itself, perhaps some minutes ago."""
        return await self._descriptions.describe(executor, environment)

    def launch(self, request: RunRequest, description: Description, environment: Mapping[str, str]) -> Launched:
        """Return a process for the run, and park another for the next one where the profile wants that.

        Raises:
            OSError: a new one could not be started.
        """
        if request.simulation is not None:
            return self._cold.launch(request, description, environment)  # its model is gone after the run
        may_stay = request.wants_to_stay and description.capabilities.multi_turn
        launched = self._kept_for(request, environment) or self._parked_for(request, environment)
        if launched is None:
            launched = self._cold.launch(request, description, environment)
        launched.may_stay = may_stay
        if may_stay:
            launched.on_kept = lambda done: self._keep(request, environment, done)
        if request.profile is not None and request.profile.warm is not None:
            asyncio.get_running_loop().call_soon(self._refill, request, description, dict(environment))
        return launched

    def _kept_for(self, request: RunRequest, environment: Mapping[str, str]) -> Launched | None:
        kept = self.kept.pop(request.session.session_id, None)
        if kept is None:
            return None
        is_the_same = kept.invocation == _without(invocation_of(request), _OF_ONE_TURN)
        if request.run.mode != "resume" or not is_the_same or kept.key != _key_of(request, environment):
            self._retire(kept.waiting)  # what it was begun with does not hold any more
            return None
        if not kept.waiting.is_there:
            self._retire(kept.waiting)
            return None
        return _KeptLaunch(kept.waiting.take(), kept.waiting.scratch, launch_mode="kept", stderr=kept.waiting.stderr)

    def _keep(self, request: RunRequest, environment: Mapping[str, str], launched: Launched) -> None:
        """Let a process wait for the session's next run."""
        session_id = request.session.session_id
        waiting = PooledProcess(launched.child, launched.scratch, launched.stderr, self._forget)
        invocation = _without(invocation_of(request), _OF_ONE_TURN)
        self.kept[session_id] = SessionProcess(waiting, invocation, _key_of(request, environment))
        profile = request.profile
        seconds = KEPT_SECONDS if profile is None or profile.idle_exit_seconds is None else profile.idle_exit_seconds
        waiting.wait()
        waiting.retire_at(seconds)
        if len(self.kept) > MOST_KEPT:
            self.retire_session(next(iter(self.kept)))

    def keeps(self, session_id: str) -> bool:
        """Tell whether a session has kept its process."""
        return session_id in self.kept

    def retire_session(self, session_id: str) -> None:
        """Let the process go that a session has kept, if it has."""
        if (kept := self.kept.pop(session_id, None)) is not None:
            self._retire(kept.waiting)
            self.on_session_left(session_id)

    def _retire(self, waiting: PooledProcess) -> None:
        self._leaving.add(waiting)
        waiting.retire()

    def _parked_for(self, request: RunRequest, environment: Mapping[str, str]) -> Launched | None:
        if not self.parked:
            return None
        key, expected = _key_of(request, environment), _expectation(invocation_of(request))
        fitting = [one for one in self.parked if one.key == key and one.waiting.is_there]
        # One that was prepared for another agent would do, but has worked in vain.
        fitting.sort(key=lambda one: (one.prepared != expected, one.prepared is not None))
        if not fitting:
            return None
        chosen = fitting[0]
        self.parked.remove(chosen)
        mode: LaunchMode = "prepared" if chosen.prepared == expected else "parked"
        return Launched(chosen.waiting.take(), chosen.waiting.scratch, launch_mode=mode, stderr=chosen.waiting.stderr)

    def _refill(self, request: RunRequest, description: Description, environment: Mapping[str, str]) -> None:
        """Have as many processes wait as the profile wants, fit for a run like this one, one after another."""
        if request.profile is None or request.profile.warm is None:
            return
        is_refilling = request.profile.name in self._awaited
        self._awaited[request.profile.name] = _Awaited(request, description, environment)
        if not is_refilling:
            self._park_next(request.profile.name)

    def _park_next(self, profile: str) -> None:
        awaited = self._awaited.get(profile)
        if awaited is not None and self._park_one(*awaited):
            asyncio.get_running_loop().call_later(BETWEEN_STARTS_SECONDS, self._park_next, profile)
        else:
            self._awaited.pop(profile, None)

    def _park_one(self, request: RunRequest, description: Description, environment: Mapping[str, str]) -> bool:
        """Park a process where one is missing, and return whether one was; what the profile parked otherwise leaves."""
        profile = request.profile
        if profile is None or profile.warm is None:
            return False
        try:
            key = _key_of(request, environment)
            prepared = self._preparation(request, description)
            fitting = [one for one in self.parked if one.key == key and one.prepared in {prepared, None}]
            for other in [one for one in self.parked if one.profile == profile.name and one not in fitting]:
                self.parked.remove(other)
                self._retire(other.waiting)
            if len(fitting) >= profile.warm.size:
                return False
            parked = self._park(request, key, prepared, environment)
            parked.replace = partial(self._refill, request, description, environment)
        except (OSError, ContainmentNotThere):
            return False  # the next run is cold, and says why it could not be started
        return True

    def _park(
        self, request: RunRequest, key: PoolKey, prepared: str | None, environment: Mapping[str, str]
    ) -> IdleProcess:
        child, scratch = start(request, environment, self.lines, self.cleanup)
        waiting = PooledProcess(child, scratch, Tail(STDERR_TAIL_BYTES), self._forget)
        profile = request.profile
        assert profile is not None and profile.warm is not None, "the caller has looked"  # noqa: S101, PT018
        parked = IdleProcess(waiting, key, profile.name, prepared)
        self.parked.append(parked)
        waiting.wait()
        waiting.retire_at(profile.warm.max_age_seconds or PARKED_SECONDS)
        if prepared is not None:
            waiting.send(encode_line({"type": "prepare", "invocation": json.loads(prepared)}))
        return parked

    def _preparation(self, request: RunRequest, description: Description) -> str | None:
        """Return what a process may be told ahead: the invocation of a run like this one, if its agent is expected."""
        warm = None if request.profile is None else request.profile.warm
        if (
            warm is None
            or warm.blueprint is None
            or not description.capabilities.prepare
            or request.run.mode != "start"
        ):
            return None
        if request.session.agent_name != self._expected_agent(warm.blueprint) or "traceparent" in request.metadata:
            return None  # another agent, or a trace that no other run shares
        if request.secret_values:
            return None  # the process may get a run of another session, which must not know them
        return _expectation(invocation_of(request))

    def _expected_agent(self, blueprint: str) -> str | None:
        """Return the agent's name; None where the blueprint cannot be read, which is told once."""
        if blueprint not in self._expected_agents:
            self._expected_agents[blueprint] = None
            try:
                self._expected_agents[blueprint] = str(load_object(Path(blueprint), may_wait=False).get("name"))
            except UnreadableFile as error:
                self.tell(f"no process is prepared for the agent of warm.blueprint: {error}")
        return self._expected_agents[blueprint]

    def _forget(self, waiting: PooledProcess) -> None:
        """Hear that one is of no use any more; it may still be about to leave. One that is merely old is replaced."""
        forgotten = [one for one in self.parked if one.waiting is waiting]
        self.parked = [one for one in self.parked if one.waiting is not waiting]
        for one in forgotten:
            if one.replace is not None and not waiting.is_gone and not waiting.is_leaving:
                asyncio.get_running_loop().call_soon(one.replace)
        for session_id in [name for name, one in self.kept.items() if one.waiting is waiting]:
            del self.kept[session_id]
            self.on_session_left(session_id)
        if waiting.is_gone:
            self._leaving.discard(waiting)
        else:
            self._leaving.add(waiting)


def _key_of(request: RunRequest, environment: Mapping[str, str]) -> PoolKey:
    limits = {} if request.profile is None else rlimits_of(request.profile.limits)
    executor, folder = identity_of(request.executor), request.session.project_dir
    variables = frozenset(environment.items())
    return PoolKey(executor, variables, frozenset(limits.items()), folder, request.keeps_rejected_answers)


def _expectation(invocation: JsonObject) -> str:
    return json.dumps(_without(invocation, _OF_ONE_RUN), sort_keys=True)


def _without(invocation: JsonObject, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in invocation.items() if name not in names}
