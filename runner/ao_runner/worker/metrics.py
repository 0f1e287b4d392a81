"""The worker's metrics for Prometheus. Gauges are read when a scrape comes.

Labels have bounded values: outcomes, error types of the protocol, calls of the port, the first hundred profiles.

The worker's event loop serves them as `GET /metrics` and `GET /healthz`: no thread, no framework. A foreign `Host` is
refused.
"""

import asyncio
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Self, TypeVar

from ao_protocol.errors import ErrorType
from ao_protocol.events import Terminal
from ao_protocol.wire import JsonObject
from ao_runner.coordinators.port import (
    Assignment,
    Coordinator,
    CoordinatorUnavailable,
    EventBatch,
    LeaseLost,
    Orders,
    Refused,
)
from ao_runner.errors import RunnerError
from ao_runner.outbox.outbox import Outbox
from ao_runner.own_host import is_own_host
from ao_runner.run_events import RunKey
from ao_runner.runs.outcome import error_type_of, status_of
from ao_runner.store.records import RunRecord, seconds_since
from ao_runner.store.store_errors import StoreUnusable, StoreUnwritable
from ao_runner.store.worker_table import Fleet
from ao_runner.worker.delivery import oldest_age_seconds
from ao_runner.worker.held_runs import HeldRun, HeldRuns
from ao_runner.worker.observers import Observer

if TYPE_CHECKING:
    from prometheus_client import Metric


MOST_VALUES: Final = 100
OTHER: Final = "other"
SHORT_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
LONG_SECONDS: Final = (0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200)
_ERROR_TYPES: Final = frozenset(str(error_type) for error_type in ErrorType)

Returned = TypeVar("Returned")


@dataclass(frozen=True, slots=True)
class Watched:
    """The state of a worker that a scrape reads."""

    held: HeldRuns
    outbox: Outbox
    quota_bytes: int
    slots: int
    waiting_processes: Callable[[], Mapping[str, int]] = dict
    """How many processes wait for runs, by their launch mode: `parked`, `kept`."""
    unreadable_runs: Callable[[], int] = int
    """How many runs have events that cannot be read from the disk now."""


class Metrics(Observer):
    """The metrics of one worker, on their own registry.

    Args:
        default_profile: The profile of runs that name none.
        labels: Names of the labels of runs by which ended runs are counted, too.
    """

    def __init__(self, default_profile: str | None = None, labels: Sequence[str] = ()) -> None:
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

        registry = self.registry = CollectorRegistry()
        ProcessCollector(registry=registry)

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"ao_worker_{name}", text, labels, registry=registry)

        def histogram(name: str, text: str, buckets: Sequence[float]) -> Histogram:
            return Histogram(f"ao_worker_{name}_seconds", text, registry=registry, buckets=buckets)

        self.runs = counter(
            "runs",
            "Runs that ended here, as the coordinator was told.",
            *("outcome", "error_type", "profile"),
            *(f"label_{re.sub('[^A-Za-z0-9]', '_', name)}" for name in labels),
        )
        self.launches = counter("launches", "Runs that ended here, by where their process came from.", "launched")
        self.claims = counter("claims", "Runs assigned to this worker.")
        self.problems = counter("protocol_problems", "Breaches of the protocol by executors.")
        self.leases_lost = counter("leases_lost", "Runs revoked from this worker.")
        self.fenced = counter("fenced_runs", "Runs stopped because they no longer belonged to this worker.")
        self.delivered = counter("events_delivered", "Events that the coordinator has accepted.")
        self.refused = counter("events_refused", "Events that the coordinator rejected; they are in refused.jsonl.")
        self.failures = counter("coordinator_failures", "Calls that found the coordinator unavailable.", "call")
        self.up = Gauge("ao_worker_coordinator_up", "1 if the last call reached the coordinator.", registry=registry)
        self.queued = histogram("queue", "Time that runs waited before they were assigned.", LONG_SECONDS)
        self.moments = {
            "spawned": histogram("spawn", "From the start of a run until it has its process.", SHORT_SECONDS),
            "first_event": histogram("first_event", "From the start of a run to its first event.", SHORT_SECONDS),
            "reaped": histogram("run", "From the start of a run until its process has exited.", LONG_SECONDS),
        }
        self.fleet: _FleetGauges | None = None
        self.events_of_ended_runs = 0
        self.is_reaching = False
        """Whether the last call reached the coordinator."""
        self._default_profile = default_profile or "default"
        self._labels = labels
        self._known: dict[str, set[str]] = {}

    def watch(self, watched: Watched) -> None:
        """Read gauges from this worker."""
        self._watched = watched
        self.registry.register(self)

    def watch_fleet(self, look: Callable[[], Awaitable[Fleet | None]]) -> None:
        """Ask, at each scrape, for the load that all workers share."""
        self.fleet = _FleetGauges(look)
        self.registry.register(self.fleet)

    def run_claimed(self, held: HeldRun) -> None:
        """Count it."""
        self.claims.inc()
        self.queued.observe(held.assignment.queued_seconds)

    def run_ended(self, held: HeldRun, terminal: Terminal) -> None:
        """Observe the run's durations. The outcome is counted later, because the coordinator may refuse the end."""
        self.events_of_ended_runs += held.journal.events
        self.fenced.inc(held.stops.is_fenced)
        if (record := held.journal.record) is None:
            return
        self.launches.labels(record.launched).inc()
        self.problems.inc(record.problem_count)
        for moment, histogram in self.moments.items():
            if moment in record.seconds:
                histogram.observe(record.seconds[moment])

    def end_delivered(self, held: HeldRun, terminal: Terminal) -> None:
        """Count it."""
        profile, error_type = held.assignment.run.profile or self._default_profile, error_type_of(terminal) or ""
        self.runs.labels(
            status_of(terminal),
            error_type if error_type in {"", *_ERROR_TYPES} else OTHER,
            self.bounded(profile),
            *(self.bounded(held.assignment.run.labels.get(name, ""), name) for name in self._labels),
        ).inc()

    def lease_lost(self, held: HeldRun) -> None:
        """Count it."""
        self.leases_lost.inc()

    def reached(self, *, reaching: bool) -> None:
        """Record whether a call reached the coordinator."""
        self.is_reaching = reaching
        self.up.set(reaching)

    def bounded(self, value: str, name: str = "") -> str:
        """Return a profile's name, or the text of a label; after the first hundred, one text for all others."""
        known = self._known.setdefault(name, set())
        if value not in known and len(known) >= MOST_VALUES:
            return OTHER
        known.add(value)
        return value

    def collect(self) -> "Iterator[Metric]":
        """Yield the current gauges of the watched worker; between scrapes they cost nothing."""
        from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily

        watched, held = self._watched, list(self._watched.held)
        keys = watched.outbox.open_keys()
        running = sum(one.journal.events for one in held if one.phase != "delivering")
        relayed = self.events_of_ended_runs + running
        yield CounterMetricFamily("ao_worker_events_relayed", "Events received from executors.", relayed)
        by_phase = GaugeMetricFamily("ao_worker_runs_in_progress", "Runs that this worker holds.", labels=["phase"])
        for phase in ("claimed", "running", "delivering"):
            by_phase.add_metric([phase], sum(one.phase == phase for one in held))
        yield by_phase
        waiting = GaugeMetricFamily("ao_worker_waiting_processes", "Processes that wait for runs.", labels=["how"])
        for how, count in watched.waiting_processes().items():
            waiting.add_metric([how], count)
        yield waiting
        oldest = oldest_age_seconds(watched.outbox)
        for name, text, value in (
            ("slots", "Maximum number of concurrent runs.", watched.slots),
            ("outbox_bytes", "Size of the outbox.", watched.outbox.used_bytes),
            ("outbox_quota_bytes", "Maximum size of the outbox.", watched.quota_bytes),
            ("outbox_open_runs", "Runs whose end is not delivered yet.", len(keys)),
            ("outbox_unreadable_runs", "Runs whose events cannot be read from the disk.", watched.unreadable_runs()),
            ("outbox_oldest_event_age_seconds", "Age of the oldest undelivered event.", oldest),
        ):
            yield GaugeMetricFamily(f"ao_worker_{name}", text, value)


@dataclass(eq=False)
class _FleetGauges:
    """Gauges of a store; each of its workers exports the same values. They are absent if it does not answer in time."""

    look: Callable[[], Awaitable[Fleet | None]]
    fleet: Fleet | None = None

    async def refresh(self) -> None:
        """Query the store before a scrape, which could not wait for it without blocking the event loop."""
        self.fleet = None
        with suppress(TimeoutError, StoreUnusable, StoreUnwritable):
            async with asyncio.timeout(FLEET_SECONDS):
                self.fleet = await self.look()

    def collect(self) -> "Iterator[Metric]":
        """Yield the gauges."""
        from prometheus_client.metrics_core import GaugeMetricFamily

        if self.fleet is None:
            return
        yield GaugeMetricFamily("ao_fleet_workers", "Active workers of the store.", self.fleet.workers)
        queued = GaugeMetricFamily("ao_fleet_queued_runs", "Queued runs of the store.", labels=["profile"])
        running = GaugeMetricFamily("ao_fleet_running_runs", "Running runs of the store.", labels=["profile"])
        age = GaugeMetricFamily("ao_fleet_oldest_queued_seconds", "Age of the oldest queued run.", labels=["profile"])
        for profile, queued_runs, running_runs, since in self.fleet.profiles:
            queued.add_metric([profile or ""], queued_runs)
            running.add_metric([profile or ""], running_runs)
            age.add_metric([profile or ""], seconds_since(since, self.fleet.now) if since else 0)
        yield from (queued, running, age)


@dataclass
class WatchedCoordinator(Coordinator):
    """A coordinator whose calls are counted; see `ao_runner.coordinators.port.Coordinator`."""

    inner: Coordinator
    metrics: Metrics

    async def __aenter__(self) -> Self:
        await self._noted("open", self.inner.__aenter__())
        return self

    async def __aexit__(self, *details: object) -> None:
        await self.inner.__aexit__(*details)

    async def claim(self, slots: int) -> Sequence[Assignment]:
        """Pass on. An empty answer does not prove that the coordinator was reached."""
        return await self._noted("claim", self.inner.claim(slots), tells=bool)

    async def started(self, key: RunKey) -> None:
        """Pass on."""
        await self._noted("started", self.inner.started(key))

    async def events(self, batch: EventBatch) -> int:
        """Pass on, and count the acknowledged events."""
        through = await self._noted("events", self.inner.events(batch))
        self.metrics.delivered.inc(max(0, min(through, batch.last_seq) - batch.first_seq + 1))
        return through

    async def terminal(self, key: RunKey, seq: int, line: bytes, *, stays: bool = False) -> None:
        """Pass on and count."""
        await self._noted("terminal", self.inner.terminal(key, seq, line, stays=stays))
        self.metrics.delivered.inc()

    async def heartbeat(self, held: Sequence[RunKey], outbox_seconds: float = 0.0) -> Orders:
        """Pass on."""
        return await self._noted("heartbeat", self.inner.heartbeat(held, outbox_seconds))

    async def orders(self) -> Orders:
        """Pass on; see `claim`."""
        return await self._noted("orders", self.inner.orders(), tells=lambda orders: orders != Orders())

    async def decide(self, key: RunKey, request_id: str, answer: JsonObject) -> JsonObject:
        """Pass on."""
        return await self._noted("decide", self.inner.decide(key, request_id, answer))

    def drain(self) -> None:
        """Pass on."""
        self.inner.drain()

    @property
    def hands_on(self) -> bool:  # type: ignore[override]
        """Pass on."""
        return self.inner.hands_on

    async def has_unclaimed(self) -> bool:
        """Pass on."""
        return await self.inner.has_unclaimed()

    async def release(self, key: RunKey, record: RunRecord | None) -> None:
        """Pass on."""
        await self._noted("release", self.inner.release(key, record))

    async def session_left(self, session_id: str) -> None:
        """Pass on."""
        await self._noted("session_left", self.inner.session_left(session_id))

    async def _noted(
        self, call: str, answer: Awaitable[Returned], tells: Callable[[Returned], bool] = lambda _: True
    ) -> Returned:
        """Record whether a call reached the coordinator, unless its result does not show that."""
        try:
            returned = await answer
        except CoordinatorUnavailable:
            self.metrics.failures.labels(call).inc()
            self.metrics.reached(reaching=False)
            raise
        except (Refused, LeaseLost) as error:
            self.metrics.refused.inc(isinstance(error, Refused) and call in {"events", "terminal"})
            self.metrics.reached(reaching=True)
            raise
        if tells(returned):
            self.metrics.reached(reaching=True)
        return returned


LOOPBACK: Final = "127.0.0.1"
REQUEST_SECONDS: Final = 5.0
FLEET_SECONDS: Final = 2.0
MAX_HEAD_BYTES: Final = 16 * 1024
MOST_CONNECTIONS: Final = 8
"""The maximum of connections, and of waiting ones: each uses a descriptor. A further one ends the oldest."""
_HOST_LINE: Final = re.compile(rb"[ \t]*host[ \t]*:[ \t]*(.*?)[ \t]*", re.IGNORECASE | re.DOTALL)


class CannotListen(RunnerError):
    """The port cannot be opened."""


@dataclass(frozen=True, slots=True)
class Exposition:
    """The content of the pages. `trouble` returns why runs do not progress here, as a sentence, or None."""

    metrics: Metrics
    trouble: Callable[[], str | None]
    _connections: dict[asyncio.Task[None], asyncio.StreamWriter] = field(default_factory=dict)

    @asynccontextmanager
    async def served(self, port: int) -> AsyncIterator[int]:
        """Serve inside the `with` block, on the loopback address only, and yield the port; 0 takes any free one.

        Raises:
            CannotListen: another process has the port, or permission is missing.
        """
        try:
            server = await asyncio.start_server(
                self._answer, LOOPBACK, port, limit=MAX_HEAD_BYTES, backlog=MOST_CONNECTIONS
            )
        except OSError as error:
            what, advice = os.strerror(error.errno or 0), "choose another --metrics-port, or 0"
            raise CannotListen(f"cannot serve metrics on {LOOPBACK}:{port}: {what}; {advice}") from error
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()
            for writer in self._connections.values():
                writer.transport.abort()
            await asyncio.gather(*self._connections)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "asyncio has made one for this connection"  # noqa: S101
        if len(self._connections) >= MOST_CONNECTIONS:
            self._connections.pop(next(iter(self._connections))).transport.abort()
        self._connections[task] = writer
        writer.transport.set_write_buffer_limits(0)  # the coordinator then has everything that is drained
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                if self.metrics.fleet is not None and head.startswith(b"GET /metrics"):
                    await self.metrics.fleet.refresh()
                writer.write(self._response(head))
                await writer.drain()
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            writer.transport.abort()  # such a client gets no response
        finally:
            self._connections.pop(task, None)
            writer.close()

    def _response(self, head: bytes) -> bytes:
        from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

        method, target, *_ = [*head.split(b"\r\n", 1)[0].split(b" "), b"", b""]
        status, kind, body = HTTPStatus.NOT_FOUND, "text/plain; charset=utf-8", b"there are /metrics and /healthz\n"
        path = target.partition(b"?")[0]
        hosts = [found[1] for line in head.split(b"\r\n")[1:] if (found := _HOST_LINE.fullmatch(line))]
        if hosts and not (len(hosts) == 1 and is_own_host(hosts[0].decode("latin-1"))):
            status, body = HTTPStatus.MISDIRECTED_REQUEST, b"foreign Host; ask for 127.0.0.1 or localhost\n"
        elif method not in {b"GET", b"HEAD"}:
            status, body = HTTPStatus.METHOD_NOT_ALLOWED, b"GET only\n"
        elif path == b"/metrics":
            status, kind, body = HTTPStatus.OK, CONTENT_TYPE_PLAIN_0_0_4, generate_latest(self.metrics.registry)
        elif path == b"/healthz":
            trouble = self.trouble()
            status = HTTPStatus.OK if trouble is None else HTTPStatus.SERVICE_UNAVAILABLE
            body = f"{trouble or 'working'}\n".encode()
        headers = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {kind}\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        return headers.encode() + (b"" if method == b"HEAD" else body)
