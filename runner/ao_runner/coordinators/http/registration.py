"""The identity of a worker, and its registration at the server.

A worker registers again if the server has forgotten it. The server keeps a killed worker registered for about 150 s,
and its open poll claims runs for up to 30 s. A worker writes its registration to a file and locks it. The system
releases the lock when the process dies. An unlocked file with the id of the blocking registration therefore proves
that its worker is dead.
"""

import asyncio
import hashlib
import json
import os
import re
import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, NoReturn, Self
from urllib.parse import quote

from ao_protocol.framing import is_identifier
from ao_protocol.version import MalformedSchemaVersion, SchemaVersion
from ao_protocol.wire import JsonObject
from ao_runner.blueprints.loading import load_blueprint
from ao_runner.coordinators.http.transport import (
    COORDINATOR_VERSIONS,
    Exchange,
    ServerReply,
    Timing,
    Unanswered,
    is_name,
    shortened,
)
from ao_runner.coordinators.port import CoordinatorUnavailable, CoordinatorUnusable
from ao_runner.errors import RunnerError
from ao_runner.home import make_private, take_lock


class UnusableAgent(RunnerError):
    """A blueprint that cannot be offered as a procedural agent."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path} cannot be offered as an agent: {reason}")


@dataclass(frozen=True, slots=True)
class OwnedAgent:
    """An agent that runs on this worker only. `commands_dir` is the folder that its command is relative to."""

    document: JsonObject
    commands_dir: str

    @property
    def name(self) -> str:
        """The agent's name."""
        return str(self.document["name"])

    def announcement(self) -> JsonObject:
        """Return the agent's part of the registration."""
        announced = ("name", "description", "command", "parameters_schema", "output_schema")
        return {field: self.document[field] for field in announced if self.document.get(field) is not None}


def load_agents(folder: Path, project_dir: Path) -> Sequence[OwnedAgent]:
    """Read every blueprint (.json, .yaml, .yml) in a folder, in the order of the file names.

    A command is a path below the folder or, if the folder has no such file, below `project_dir` or the folder's parent:
    the existing runner keeps `agents` beside `scripts` in the folder of its executor.

    Raises:
        UnusableAgent: The folder has no blueprints, a blueprint has no valid command, or two have the same name.
        RunnerError: A file cannot be read, or is not a blueprint.
    """
    paths = sorted(path for path in folder.iterdir() if path.suffix in {".json", ".yaml", ".yml"})
    if not paths:
        raise UnusableAgent(folder, "it holds no blueprint (*.json, *.yaml)")
    agents: dict[str, OwnedAgent] = {}
    for path in paths:
        agent = _load(path, folder, project_dir)
        if agent.name in agents:
            raise UnusableAgent(path, f"another blueprint of the folder has the name {agent.name!r}")
        agents[agent.name] = agent
    return tuple(agents.values())


def _load(path: Path, folder: Path, project_dir: Path) -> OwnedAgent:
    document = load_blueprint(path, may_wait=False).document
    if document.get("type", "procedural") != "procedural":
        raise UnusableAgent(path, f"its type is {document['type']!r}; only procedural agents can be offered")
    command = document.get("command")
    try:
        words = shlex.split(command) if isinstance(command, str) else []
    except ValueError as error:
        raise UnusableAgent(path, f"its command cannot be split into words: {error}") from error
    if not words:
        raise UnusableAgent(path, "it has no command; expected the path of a program")
    places = (folder, project_dir, folder.resolve().parent)
    for place in places:
        if (place / words[0]).is_file():
            return OwnedAgent(document, str(place.resolve()))
    raise UnusableAgent(path, f"its command {words[0]!r} is not below any of {', '.join(map(str, places))}")


@dataclass(frozen=True, slots=True)
class RunnerIdentity:
    """One worker of one executor. The server derives its id from hostname, project_dir, profile and command.

    `agents` are the procedural agents that only this worker performs.
    """

    hostname: str
    project_dir: str
    profile: str
    executor_type: Literal["autonomous", "procedural"]
    command: str
    config: JsonObject = field(default_factory=dict)
    lifecycle: str = "one_shot"
    """The lifecycle of the executor's process, which the server shows to people."""
    tags: Sequence[str] = ()
    require_matching_tags: bool = False
    agents: Sequence[OwnedAgent] = ()

    def agent(self, name: str) -> OwnedAgent | None:
        """Return an agent of this worker by name; None for any other."""
        return next((agent for agent in self.agents if agent.name == name), None)

    def to_document(self) -> JsonObject:
        """Return the body of a registration."""
        document: JsonObject = {
            "hostname": self.hostname,
            "project_dir": self.project_dir,
            "executor_profile": self.profile,
            "executor": {
                "type": self.executor_type,
                "command": self.command,
                "config": self.config,
                "lifecycle": self.lifecycle,
            },
            "require_matching_tags": self.require_matching_tags,
        }
        if self.tags:
            document["tags"] = list(self.tags)
        if self.agents:
            document["agents"] = [agent.announcement() for agent in self.agents]
        return document


class RegistrationNote:
    """The file with one worker's registration, the registration note. A `with` block owns the file.

    Args:
        folder: The folder of the notes for one coordinator. With None no note is kept, and nothing can be proved.
        identity: The identity of the worker.
    """

    def __init__(self, folder: Path | None, identity: RunnerIdentity) -> None:
        who = [identity.hostname, identity.project_dir, identity.profile, identity.command]
        name = hashlib.sha256(json.dumps(who).encode()).hexdigest()[:16]
        self._path = None if folder is None else folder / name
        self._descriptor: int | None = None
        self._left_behind = ""

    def __enter__(self) -> Self:
        """Open and lock the file, unless another living worker of the same home and identity holds it."""
        if self._path is None or self._descriptor is not None:
            return self
        make_private(self._path.parent)
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if take_lock(descriptor):
            self._descriptor = descriptor
            self._left_behind = os.pread(descriptor, 4096, 0).decode(errors="replace")
        else:
            os.close(descriptor)
        return self

    def __exit__(self, *_: object) -> None:
        """Release the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def proves_dead(self, runner_id: str) -> bool:
        """Return whether the worker that registered as `runner_id` died without deregistering."""
        return runner_id != "" and runner_id == self._left_behind

    def write(self, runner_id: str) -> None:
        """Write the registration; an empty text if it has ended."""
        self._left_behind = ""
        if self._descriptor is not None:
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, runner_id.encode(), 0)


MAX_GARBAGE: Final = 5
"""After this many invalid responses in a row, the address is not that of a coordinator."""

MOST_LOST_POLLS: Final = 3
"""The maximum number of polls to end. Each broken connection leaves one, for half a minute."""
LONGEST_SECONDS: Final = 3600.0
"""The upper limit of the server's values for the time of a poll and between heartbeats."""

_POLL_PATH: Final = re.compile(r"/[!\"$-;=@-~]{0,2000}")

Tell = Callable[[str], None]


@dataclass(eq=False)
class Enrolment:
    """This worker's registration at the server. The server derives the id, so a new registration has the same one."""

    exchange: Exchange
    identity: RunnerIdentity
    tell: Tell
    timing: Timing
    note: RegistrationNote
    runner_id: str = ""
    poll_path: str = "/runner/runs"
    poll_seconds: float = 30.0
    heartbeat_seconds: float = 60.0
    _times: int = 0
    _garbage: int = 0
    _met_other_at: float | None = None
    _enrolling: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def place(self) -> str:
        """The server's address, for people."""
        return self.exchange.place

    async def begin(self) -> None:
        """Register.

        Raises:
            CoordinatorUnavailable: The server cannot be reached now, or another worker of this identity seems online.
            CoordinatorUnusable: The server will never accept this worker, or the other one has been online too long.
        """
        answer = await self._register()
        if answer.error == "duplicate_runner" and self.note.proves_dead(runner_id := _blocking_runner(answer)):
            # DELETE leaves a mark. An open poll of the killed worker, which claims runs for it, ends at the mark and
            # removes it. If no such poll is open, a poll of this worker removes the mark.
            self.tell("a worker of this host was killed and is still registered; taking its place")
            await self._end_poll(runner_id)
            answer = await self._register()
        if answer.error == "duplicate_runner":
            self._meet_other()
        self._accept(answer)

    async def _end_poll(self, runner_id: str) -> bool:
        """Deregister a worker, which ends one poll whose connection broke; False if no such poll was open."""
        await self.exchange.ask("DELETE", f"/runners/{quote(runner_id, safe='')}")
        await asyncio.sleep(self.timing.dead_poll_seconds)
        answer = await self.exchange.ask("GET", f"{self.poll_path}?runner_id={quote(runner_id, safe='')}")
        return answer.status == 401  # the other poll has removed the mark

    def _meet_other(self) -> NoReturn:
        patience = self.timing.duplicate_seconds
        if self._met_other_at is None:
            self._met_other_at = time.monotonic()
            self.tell(f"{self._is_taken}; waiting for up to {patience:g} s")
        if time.monotonic() - self._met_other_at < patience:
            raise CoordinatorUnavailable(self.place, self._is_taken, self.timing.duplicate_pause_seconds)
        advice = "stop the other worker, or use another project_dir or profile"
        raise CoordinatorUnusable(self.place, self._is_taken, advice)

    async def ask(
        self, method: str, path: str, document: JsonObject | None = None, seconds: float | None = None
    ) -> ServerReply:
        """Send a request. If the server has forgotten the worker, register again and repeat it.

        Raises:
            CoordinatorUnavailable: The server does not answer.
            CoordinatorUnusable: The server no longer accepts this worker.
        """
        times = self._times
        answer = await self.exchange.ask(method, path, document, seconds)
        if answer.status == 401:
            await self.again(times)
            self.tell(f"coordinator {self.place} no longer knew this worker; registered again")
            answer = await self.exchange.ask(method, path, document, seconds)
        if answer.status in {401, 403}:
            raise CoordinatorUnavailable(self.place, f"it knows this worker and answered {answer.reason}")
        return answer

    async def say(self, path: str, **fields: str) -> ServerReply:
        """Post fields with the worker's id. Raises as `ask` does."""
        return await self.ask("POST", path, {"runner_id": self.runner_id, **fields})

    async def poll(self) -> ServerReply:
        """Poll for runs and orders, for the server's poll time at most. Raises as `ask` does."""
        seconds = self.poll_seconds + self.timing.poll_margin_seconds
        path = f"{self.poll_path}?runner_id={quote(self.runner_id, safe='')}"
        return await self.ask("GET", path, seconds=seconds)

    async def withdraw(self) -> int:
        """Have the server answer the open poll or, if none is open, the next one with `deregistered`.

        Returns the argument for `again`. Raises as `ask` does.
        """
        times = self._times
        await self.exchange.ask("DELETE", f"/runners/{quote(self.runner_id, safe='')}")
        return times

    async def again(self, times: int) -> None:
        """Register again, unless another call has done so since there were `times`. Raises as `ask` does."""
        async with self._enrolling:
            if self._times != times:
                return
            answer = await self._register()
            if answer.error == "duplicate_runner":
                raise CoordinatorUnavailable(self.place, self._is_taken)
            self._accept(answer)

    async def end_lost_polls(self) -> None:
        """Have the server end the polls of this worker whose connections broke. It would continue them otherwise.

        Raises as `ask` does.
        """
        async with self._enrolling:  # a heartbeat would register in between, and the poll would wait for runs
            for _ in range(MOST_LOST_POLLS):
                was_there = await self._end_poll(self.runner_id)
                self._accept(await self._register())
                if not was_there:
                    return

    async def end(self) -> None:
        """Deregister. The server then fails this worker's remaining runs and finishes its idle sessions.

        Raises as `ask` does.
        """
        await self.exchange.ask(
            "DELETE", f"/runners/{quote(self.runner_id, safe='')}?self=true", seconds=self.timing.farewell_seconds
        )
        self.note.write("")

    async def _register(self) -> ServerReply:
        place = self.place
        try:
            answer = await self.exchange.ask("POST", "/runner/register", self.identity.to_document())
            found = answer.document.get("runner_id")
            if answer.is_success and not (is_name(found) and is_identifier(found)):
                raise Unanswered(place, "its answer to a registration holds no usable runner_id", is_garbage=True)
        except Unanswered as error:
            self._garbage = self._garbage + 1 if error.is_garbage else 0
            if self._garbage < MAX_GARBAGE:
                raise
            raise CoordinatorUnusable(place, f"{error.reason} ({self._garbage} times)", "check the address") from error
        self._garbage = 0
        if answer.status in {401, 403}:
            advice = "check the token and its permissions"
            raise CoordinatorUnusable(place, f"it denies access: {answer.reason}", advice)
        if answer.error == "agent_name_collision":
            raise CoordinatorUnusable(place, answer.reason, "rename the agent, or remove it")
        if not answer.is_success and answer.error != "duplicate_runner":
            advice = "check that it is a coordinator with a protocol version that this worker supports"
            raise CoordinatorUnusable(place, f"it rejects the registration: {answer.reason}", advice)
        return answer

    def _accept(self, answer: ServerReply) -> None:
        found = answer.document
        _require_common_version(self.place, found)
        self.runner_id = str(found["runner_id"])
        self.note.write(self.runner_id)
        path = found.get("poll_endpoint")
        if isinstance(path, str) and _POLL_PATH.fullmatch(path):
            self.poll_path = path
        elif path is not None:
            told = shortened(ascii(path))
            self.tell(f"poll_endpoint of the server is {told}, expected a path; using {self.poll_path}")
        self.poll_seconds = _positive(found, "poll_timeout_seconds", self.poll_seconds)
        self.heartbeat_seconds = _positive(found, "heartbeat_interval_seconds", self.heartbeat_seconds)
        self._times += 1

    @property
    def _is_taken(self) -> str:
        who = self.identity
        return (
            f"a worker of the same identity is online there ({who.profile} in {who.project_dir} on {who.hostname}; "
            "one that crashed is forgotten after about 150 s)"
        )


def _blocking_runner(answer: ServerReply) -> str:
    """Return the id of the worker that is already registered, from the response `duplicate_runner`."""
    detail = answer.document.get("detail")
    runner_id = detail.get("runner_id") if isinstance(detail, dict) else None
    return runner_id if isinstance(runner_id, str) else ""


def _positive(document: JsonObject, name: str, default: float) -> float:
    """Return a positive number of seconds, at most an hour; the default if the field is missing or invalid."""
    value = document.get(name)
    return float(min(value, LONGEST_SECONDS)) if isinstance(value, int | float) and value > 0 else default


def _require_common_version(place: str, registration: JsonObject) -> None:
    """Refuse a server without a common major version. A server that names no version speaks the first."""
    named = registration.get("ao_protocol")
    if named is None:
        return
    texts = named.get("versions") if isinstance(named, dict) else None
    try:
        theirs = [SchemaVersion.parse(text) for text in texts] if isinstance(texts, list) else []
    except MalformedSchemaVersion as error:
        raise CoordinatorUnusable(place, f"ao_protocol.versions: {error}", "upgrade the coordinator") from error
    ours = [SchemaVersion.parse(text) for text in COORDINATOR_VERSIONS]
    if {version.major for version in theirs} & {version.major for version in ours}:
        return
    who = "worker" if theirs and min(theirs) > max(ours) else "coordinator"
    spoken = ", ".join(map(str, theirs)) or "none"
    reason = f"it speaks coordinator protocol {spoken}, and this worker {', '.join(COORDINATOR_VERSIONS)}"
    raise CoordinatorUnusable(place, reason, f"upgrade the {who}")
