"""Observers of a worker: its log and its traces (metrics are in `metrics`). None may delay a run.

A run's span is a child of its `metadata.traceparent` and replaces it there, so that spans of the executor and its model
are below it. Without OpenTelemetry the metadata are unchanged. Names follow the GenAI conventions for
`invoke_agent` (semantic-conventions 1.41, in development).
"""

import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ao_protocol.events import Failure, Terminal
from ao_runner.run_events import RunKey
from ao_runner.runs.outcome import error_type_of, status_of
from ao_runner.worker.held_runs import HeldRun
from ao_runner.worker.log import WorkerLog

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span


class Observer:
    """Receives the state changes of each run. The methods do nothing; an observer overrides those that it needs."""

    def run_claimed(self, held: HeldRun) -> None:
        """A run was assigned to this worker."""

    def run_begins(self, held: HeldRun) -> None:
        """The coordinator lets a run begin. `held.assignment` is read only after this."""

    def run_ended(self, held: HeldRun, terminal: Terminal) -> None:
        """The process of a run has ended. Its record is in `held.journal`; its events may not be delivered yet.

        `terminal` is the end that the coordinator has, as far as it is known by then.
        """

    def end_delivered(self, held: HeldRun, terminal: Terminal) -> None:
        """After `run_ended`: the coordinator has the end, which is the run's own or the failure that replaced it."""

    def lease_lost(self, held: HeldRun) -> None:
        """A run is no longer this worker's, before it has ended."""


class RunLog(Observer):
    """Logs the beginning and the end of each run."""

    def __init__(self, log: WorkerLog) -> None:
        self._log = log

    def run_begins(self, held: HeldRun) -> None:
        """WorkerLog it."""
        assignment = held.assignment
        self._log.info(
            "run begins", **_names_of(held), agent=assignment.session.agent_name, profile=assignment.run.profile,
            queued_seconds=round(assignment.queued_seconds, 3),
        )  # fmt: skip

    def run_ended(self, held: HeldRun, terminal: Terminal) -> None:
        """WorkerLog the outcome, the times and the process."""
        journal, record = held.journal, held.journal.record
        told = self._log.warning if isinstance(terminal, Failure) and terminal.status == "failed" else self._log.info
        told(
            "run ended", **_names_of(held), outcome=status_of(terminal), error_type=error_type_of(terminal),
            seconds={"queued": round(held.assignment.queued_seconds, 3), **journal.marks.seconds},
            events=journal.events, problems=0 if record is None else record.problem_count,
            launched=record and record.launched, containment=record and record.containment,
            exit_code=record and record.exit_code,
        )  # fmt: skip


def _names_of(held: HeldRun) -> dict[str, Any]:
    return {
        "run_id": held.key.run_id,
        "session_id": held.assignment.session.session_id,
        "attempt": held.key.attempt,
    }


ENDPOINT_VARIABLES: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
LAST_EXPORT_SECONDS: Final = 5.0
"""How long a leaving worker waits until its last spans are exported."""
COMPLAINT_SECONDS: Final = 60.0


def is_wanted(environ: Mapping[str, str]) -> bool:
    """Return whether the environment names a receiver of spans and does not disable them."""
    is_off = environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    is_off = is_off or environ.get("OTEL_TRACES_EXPORTER", "").strip().lower() == "none"
    return not is_off and any(environ.get(name, "").strip() for name in ENDPOINT_VARIABLES)


@contextmanager
def exported_traces(environ: Mapping[str, str], log: WorkerLog) -> "Iterator[TracerProvider | None]":
    """Yield a tracer whose spans go to the receiver of the environment; None if there is none or the SDK is missing.

    A thread of the SDK sends them. Spans that are left at the end of the `with` block get a few seconds.
    """
    if not is_wanted(environ):
        yield None
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ModuleNotFoundError as error:
        advice = 'pip install "ao-executor-protocol[otel]"'
        log.warning("no traces are sent: a package is missing", package=error.name, install=advice)
        yield None
        return
    is_named = "OTEL_SERVICE_NAME" in environ or "service.name=" in environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    resource = Resource.create({} if is_named else {"service.name": "ao-worker"})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    with _complaints_to(log):
        exporter = OTLPSpanExporter()
        provider.add_span_processor(BatchSpanProcessor(exporter))
        try:
            yield provider
        finally:
            # The SDK would wait half a minute for a receiver that is not available.
            hurry = threading.Timer(LAST_EXPORT_SECONDS, exporter.shutdown)
            hurry.start()
            provider.shutdown()
            hurry.cancel()


@contextmanager
def _complaints_to(log: WorkerLog) -> Iterator[None]:
    """Write warnings of the SDK into the worker's log."""
    logger, handler = logging.getLogger("opentelemetry"), _Complaints(log)
    was_propagating, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = was_propagating


class _Complaints(logging.Handler):
    """Logs once a minute that spans are lost; the SDK logs each attempt."""

    def __init__(self, log: WorkerLog) -> None:
        super().__init__(logging.WARNING)
        self._log = log
        self._quiet_until = 0.0

    def emit(self, record: logging.LogRecord) -> None:
        if record.created < self._quiet_until:
            return
        self._quiet_until = record.created + COMPLAINT_SECONDS
        self._log.warning("traces are not sent", reason=record.getMessage())


class Tracing(Observer):
    """Creates the spans of a worker's runs."""

    def __init__(self, provider: "TracerProvider") -> None:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._tracer = provider.get_tracer("ao_runner")
        self._propagator = TraceContextTextMapPropagator()
        self._spans: dict[RunKey, Span] = {}

    def run_begins(self, held: HeldRun) -> None:
        """Begin the run's span, and set it as the run's parent."""
        from opentelemetry.trace import SpanKind, set_span_in_context

        assignment = held.assignment
        incoming = {name: value for name, value in assignment.run.metadata.items() if isinstance(value, str)}
        agent = assignment.session.agent_name
        span = self._tracer.start_span(
            f"invoke_agent {agent}".rstrip(),
            context=self._propagator.extract(incoming),
            kind=SpanKind.INTERNAL,
            attributes={
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.agent.name": agent,
                "gen_ai.conversation.id": assignment.session.session_id,
                "ao.run.id": held.key.run_id,
                "ao.run.attempt": held.key.attempt,
                "ao.run.mode": assignment.run.mode,
                "ao.run.queue_seconds": assignment.queued_seconds,
                **({} if assignment.run.profile is None else {"ao.profile": assignment.run.profile}),
            },
        )
        self._spans[held.key] = span
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier, set_span_in_context(span))
        run = assignment.run
        held.assignment = replace(assignment, run=replace(run, metadata={**run.metadata, **carrier}))

    def run_ended(self, held: HeldRun, terminal: Terminal) -> None:
        """End the run's span."""
        from opentelemetry.trace import Status, StatusCode

        if (span := self._spans.pop(held.key, None)) is None:
            return
        span.set_attributes(_figures(terminal))
        span.set_attribute("ao.run.outcome", status_of(terminal))
        if (record := held.journal.record) is not None:
            span.set_attributes({f"ao.run.{name}_seconds": value for name, value in record.seconds.items()})
            span.set_attribute("ao.run.launched", record.launched)
            if record.exit_code is not None:
                span.set_attribute("process.exit.code", record.exit_code)
        if isinstance(terminal, Failure):
            span.set_attribute("error.type", terminal.error.type)
            span.set_status(Status(StatusCode.ERROR))
        span.end()


def _figures(terminal: Terminal) -> dict[str, int | float]:
    usage = terminal.usage
    if usage is None:
        return {}
    figures = {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read_input_tokens,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_creation_input_tokens,
        "ao.usage.cost_usd": usage.cost_usd,
    }
    return {name: value for name, value in figures.items() if value is not None}
