"""The runners that speak the older contract, and what they report. The store behind it is that of all other workers.

A report carries no attempt. It counts if the run is still performed by this runner; the store refuses any other.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import Final

from pydantic import JsonValue

from ao_protocol.documents import ATTACHMENTS_FEATURE
from ao_protocol.errors import ErrorType
from ao_protocol.events import Body, Failure, Terminal
from ao_protocol.wire import JsonObject
from ao_runner.coordinators.port import Assignment, EventBatch, LeaseLost
from ao_runner.coordinators.stored_queue import StoreCoordinator
from ao_runner.run_events import RunKey
from ao_runner.runs.lost_runs import end_lost_run
from ao_runner.runs.outcome import failed
from ao_runner.runs.submission import DEFAULT_EXECUTORS
from ao_runner.store.agent_table import StoredAgent
from ao_runner.store.ownership import REMOTE, Owner, uptime_seconds
from ao_runner.store.records import RunState, timestamp
from ao_runner.store.store import Store
from ao_runner.store.worker_table import Offer
from ao_server.older.reports import OlderRun, bound
from ao_server.problems import refusal
from ao_server.store_access import StoreAccess

OLDER_OWNER: Final = f"{REMOTE}lnch_"
"""The prefix of the id of every runner of the older contract."""
HEARTBEAT_SECONDS: Final = 60
LEASE_SECONDS: Final = 2.5 * HEARTBEAT_SECONDS
STALE_SECONDS: Final = 120.0
"""After this time without a heartbeat, another runner may register under the same identity."""
REMOVE_SECONDS: Final = 600.0
BEGIN_SECONDS: Final = 60.0
"""How long a run may be handed out without a report that it begins: the answer to the poll was lost, or its runner."""
SILENT_SECONDS: Final = 600.0
"""How long a begun run may be without a report where a runner has registered since: it may be another process."""


_NO_ATTACHMENTS: Final = failed(
    ErrorType.UNSUPPORTED_CAPABILITY,
    "a runner of the older contract takes no attachments; let `ao worker` perform the run",
    side_effects="none",
    origin="caller",
    details={"missing": [ATTACHMENTS_FEATURE]},
)


@dataclass(eq=False)
class OlderRunner:
    """A registered runner."""

    runner_id: str
    registration: JsonObject
    coordinator: StoreCoordinator
    registered_at: str = field(default_factory=timestamp)
    last_heartbeat: str = field(default_factory=timestamp)
    heard_at: float = field(default_factory=uptime_seconds)
    is_known: bool = False
    """Whether it was registered at an earlier process of this server: it is still the process that began its runs."""
    is_leaving: bool = False
    told: dict[str, int] = field(default_factory=dict)
    """The number of requests to stop that were handed to it, by run."""
    idle: set[str] = field(default_factory=set)
    """The sessions for whose next run a process waits there."""
    idle_stops: set[str] = field(default_factory=set)
    """Those of them whose process has to leave."""
    runs: dict[RunKey, OlderRun] = field(default_factory=dict)
    """The runs of which this registration has reported something, as long as they go on."""
    seen: dict[RunKey, float] = field(default_factory=dict)
    """Since when each other run of this runner is waited for."""

    @property
    def silent_seconds(self) -> float:
        """The time since its last heartbeat."""
        return uptime_seconds() - self.heard_at

    def shown(self) -> JsonObject:
        """Return the JSON of the runner."""
        return {
            "runner_id": self.runner_id,
            "registered_at": self.registered_at,
            "last_heartbeat": self.last_heartbeat,
            **self.registration,
            "status": "online" if self.silent_seconds < STALE_SECONDS else "stale",
            "seconds_since_heartbeat": self.silent_seconds,
        }


class OlderRunners:
    """The registered runners by id. A server that is started again recognises them until their leases end."""

    def __init__(self, access: StoreAccess, tell: Callable[[str], None]) -> None:
        self._access = access
        self._tell = tell
        self._runners: dict[str, OlderRunner] = {}

    def all(self) -> list[OlderRunner]:
        """Return the runners, without those that were silent for too long."""
        for runner_id in [name for name, one in self._runners.items() if one.silent_seconds > REMOVE_SECONDS]:
            del self._runners[runner_id]
        return list(self._runners.values())

    def find(self, runner_id: str) -> OlderRunner | None:
        """Return a runner; None if it is not registered."""
        return next((one for one in self.all() if one.runner_id == runner_id), None)

    async def recognise(self, runner_id: str) -> OlderRunner | None:
        """Return a runner that makes a call, also one that an earlier process of this server has registered."""
        found = self.find(runner_id)
        if found is not None or not runner_id.startswith(OLDER_OWNER):
            return found
        owner = (await self._access.read(lambda store: store.workers.living())).get(runner_id)
        if owner is None or not owner.serves:
            return None
        tags: list[JsonValue] = [tag for tag in owner.tags if tag != f"host:{owner.host or ''}"]
        registration = {**registration_of(owner), "tags": tags, "executor_profile": owner.serves[0]}
        offer = Offer(
            runner_id,
            owner.serves,
            owner.tags,
            lease_seconds=LEASE_SECONDS,
            host=owner.host,
            needs_tag=owner.needs_tag,
        )
        return self._runners.setdefault(runner_id, await self._began(runner_id, registration, offer, is_known=True))

    @property
    def idle(self) -> frozenset[str]:
        """The sessions for whose next run a process of some runner waits."""
        return frozenset(session_id for one in self._runners.values() for session_id in one.idle)

    def stop_idle(self, session_id: str) -> bool:
        """Let the process leave that some runner keeps for a session without a run; return whether there is one."""
        runner = next((one for one in self.all() if session_id in one.idle), None)
        if runner is not None:
            runner.idle_stops.add(session_id)
            self._access.notify()
        return runner is not None

    @staticmethod
    def is_one(owner: str) -> bool:
        """Return whether an owner of runs is a runner of the older contract."""
        return owner.startswith(OLDER_OWNER)

    async def register(
        self, runner_id: str, registration: JsonObject, offer: Offer, agents: Sequence[JsonObject]
    ) -> None:
        """Add a runner, or replace one that is stale, and store the agents that it alone performs.

        Raises:
            HTTPException: Another agent has the name of one of them.
        """
        await self._access.write(lambda store: _put_agents(store, runner_id, agents))
        self._runners[runner_id] = await self._began(runner_id, registration, offer)

    async def _began(
        self, runner_id: str, registration: JsonObject, offer: Offer, *, is_known: bool = False
    ) -> OlderRunner:
        coordinator = StoreCoordinator(self._access.shared, offer, self._tell)
        await coordinator.__aenter__()
        return OlderRunner(runner_id, registration, coordinator, is_known=is_known)

    async def remove(self, runner: OlderRunner, *, ends_runs: bool) -> None:
        """Forget a runner; one that leaves by itself has ended its runs."""
        self._runners.pop(runner.runner_id, None)
        await self._access.write(lambda store: _put_agents(store, runner.runner_id, ()))
        await runner.coordinator.__aexit__()
        if ends_runs:
            await self._end(runner, lambda _: True)

    async def heartbeat(self, runner: OlderRunner) -> None:
        """Keep the leases of a runner, and end the runs that it cannot know of."""
        runner.heard_at, runner.last_heartbeat = uptime_seconds(), timestamp()
        await runner.coordinator.heartbeat([])
        await self.end_forgotten(runner)

    async def claim(self, runner: OlderRunner) -> Assignment | None:
        """Take one run from the queue, if there is one. A run with attachments ends: the older contract has none."""
        for assignment in await runner.coordinator.claim_now(1):
            if not assignment.run.attachments:
                return assignment
            find = partial(_state_of, run_id=assignment.key.run_id)
            run = await self.run_of(runner, await self._access.read(find), None)
            if run is not None:
                await self.end(runner, run, _NO_ATTACHMENTS)
        return None

    async def new_stops(self, runner: OlderRunner) -> list[str]:
        """Return the sessions that have to end and were not told yet."""
        stops = (await self._access.read(lambda store: store.workers.requests_to(runner.runner_id))).stops
        new = [run_id for run_id, count in stops.items() if count > runner.told.get(run_id, 0)]
        runner.told = {run_id: stops[run_id] for run_id in stops}

        def sessions(store: Store) -> list[str]:
            return [state.run.session_id for run_id in new for state in store.runs.find(run_id)]

        idle, runner.idle_stops = runner.idle_stops, set()
        return sorted({*idle, *(await self._access.read(sessions) if new else ())})

    async def end_forgotten(self, runner: OlderRunner) -> None:
        """End, or return to the queue, the runs that the store ascribes to a runner which says nothing of them."""
        reported = set(runner.runs)

        def is_forgotten(state: RunState) -> bool:
            key = RunKey(state.run.run_id, state.attempt)
            if state.has_begun and (runner.is_known or key in reported):
                return False
            since = runner.seen.setdefault(key, uptime_seconds())
            return uptime_seconds() - since > (SILENT_SECONDS if state.has_begun else BEGIN_SECONDS)

        await self._end(runner, is_forgotten)

    async def _end(self, runner: OlderRunner, has_to: Callable[[RunState], bool]) -> None:
        def states_of(store: Store) -> list[RunState]:
            return [one for one in store.runs.states("running") if one.owner == runner.runner_id]

        def end(store: Store, run_id: str, attempt: int) -> None:
            for state in states_of(store):
                if (state.run.run_id, state.attempt) == (run_id, attempt):
                    end_lost_run(store, state)

        states = await self._access.read(states_of)
        running = {RunKey(state.run.run_id, state.attempt) for state in states}
        runner.seen = {key: since for key, since in runner.seen.items() if key in running}
        for key in [RunKey(state.run.run_id, state.attempt) for state in states if has_to(state)]:
            await self._access.write(lambda store, key=key: end(store, key.run_id, key.attempt))  # type: ignore[misc]
            self._access.notify()

    async def run_of(self, runner: OlderRunner, state: RunState, attempt: int | None) -> OlderRun | None:
        """Return a run that a runner reports of, and that has begun by now; None if it has ended already.

        Raises:
            LeaseLost: The run is not this runner's, or the report is about another attempt.
        """
        key = RunKey(state.run.run_id, max(1, state.attempt))
        if state.owner != runner.runner_id or attempt not in {None, state.attempt}:
            raise LeaseLost(key, f"attempt {state.attempt} belongs to {state.owner or 'no runner'}")
        if state.run.status != "running":
            runner.runs.pop(key, None)
            return None
        if (run := runner.runs.get(key)) is None:
            run = await self._access.read(lambda store: _stored(store, key, state, runner))
            run = runner.runs.setdefault(key, run)
        async with run.lock:
            if not state.has_begun:
                await runner.coordinator.started(key)
            if run.last_seq == 0:
                await self._add(runner, run, run.lines_of([run.beginning()]))
                runner.idle.discard(run.session_id)
        return run

    async def add(
        self, runner: OlderRunner, run: OlderRun, bodies: Callable[[], Sequence[Body]], at: str | None = None
    ) -> None:
        """Store what is reported of a run, behind all that was stored before."""
        async with run.lock:
            await self._add(runner, run, run.lines_of(bodies(), at))

    async def end(self, runner: OlderRunner, run: OlderRun, terminal: Terminal, *, stays: bool = False) -> None:
        """End a run. Where a process `stays` for the session's next run, that one goes to this runner."""
        if stays and not isinstance(terminal, Failure):
            await self._keep_here(runner, run)
        async with run.lock:
            *before, line = run.ending(terminal)
            await self._add(runner, run, before)
            await runner.coordinator.terminal(run.key, run.last_seq + 1, line, stays=stays)
        runner.runs.pop(run.key, None)
        self._access.notify()

    async def _keep_here(self, runner: OlderRunner, run: OlderRun) -> None:
        """Bind a session to a runner that keeps a process for it, if its executor has not; else it has no resume."""
        session = await self._access.read(lambda store: store.sessions.find(run.session_id))
        if session.executor_session_id is None:
            await self.add(runner, run, lambda: [bound(f"{run.executor_name}-{run.session_id}")])
            await self._access.write(lambda store: store.sessions.place(run.session_id, run.executor_name, None))
        runner.idle.add(run.session_id)

    async def _add(self, runner: OlderRunner, run: OlderRun, lines: Sequence[bytes]) -> None:
        if lines:
            await runner.coordinator.events(EventBatch(run.key, run.last_seq + 1, lines))
            run.note(lines)


def _stored(store: Store, key: RunKey, state: RunState, runner: OlderRunner) -> OlderRun:
    run = OlderRun(key, state.run.session_id, str(runner.registration["executor_profile"]))
    run.note(event.line.encode() for event in store.events.of_session(state.run.session_id, run_id=key.run_id))
    return run


def _state_of(store: Store, run_id: str) -> RunState:
    return store.runs.find(run_id)[0]


def _put_agents(store: Store, runner_id: str, agents: Sequence[JsonObject]) -> None:
    for agent in store.agents.all():
        if agent.document.get("runner_id") == runner_id:
            store.agents.delete(agent.name)
    for document in agents:
        name, now = str(document["name"]), timestamp()
        if (known := store.agents.find(name)) is not None:
            owner = known.document.get("runner_id")
            message = f"Agent {name!r} is already registered" + (f" by runner {owner!r}" if owner else "")
            facts: JsonObject = {"agent_name": name, "existing_runner_id": owner}
            raise refusal(HTTPStatus.CONFLICT, "agent_name_collision", message, **facts)
        store.agents.put(StoredAgent(name, {**document, "runner_id": runner_id}, "active", now, now))


def runner_id_of(hostname: str, project_dir: str, profile: str, command: str) -> str:
    """Return the id of a runner, which is the same whenever it registers."""
    digest = hashlib.sha256("\0".join([hostname, project_dir, profile, command]).encode()).hexdigest()
    return f"{OLDER_OWNER}{digest[:12]}"


def registration_of(owner: Owner) -> JsonObject:
    """Return what a process that takes runs would have registered."""
    return {
        "tags": list(owner.tags),
        "hostname": owner.host,
        "project_dir": None,
        "executor_profile": ", ".join(owner.serves),
        "executor": {},
        "require_matching_tags": owner.needs_tag,
    }


def offer_of(runner_id: str, hostname: str, profile: str, executor_type: str, tags: Sequence[str]) -> Offer:
    """Return what a runner offers: runs of its profile, and runs of its type that name no profile."""
    usual = DEFAULT_EXECUTORS.get(executor_type)
    return Offer(
        runner_id,
        profiles=(profile,) if usual in {None, profile} else (profile, str(usual)),
        tags=tuple(dict.fromkeys([*tags, f"host:{hostname}"])),
        lease_seconds=LEASE_SECONDS,
        host=hostname,
    )
