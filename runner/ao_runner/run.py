"""The story of one run: describe, environment, spawn, invocation, events, stop, terminal event, record.

It names every step in its order and contains none. Whatever happens, the run ends with exactly one terminal event.
"""

import selectors
from dataclasses import replace
from pathlib import Path
from typing import Final, Protocol

from ao_protocol.describe import Description
from ao_protocol.events import ExecutorIdentity, Terminal
from ao_protocol.version import CURRENT, SchemaVersion
from ao_runner.conversation import Conversation, RunIdentity
from ao_runner.environment import bare_environment, executor_environment, redact, secret_values
from ao_runner.inquiry import DescribeFailed, describe_executor
from ao_runner.journal import Journal, timestamp
from ao_runner.order import RunOrder, invocation_line
from ao_runner.outcome import (
    CancelledBeforeStart,
    ContractNotKept,
    Ending,
    NoCommonVersion,
    NotDescribed,
    NotStarted,
    disagreement,
    failure_for,
    settle_terminal,
)
from ao_runner.records import RunRecord
from ao_runner.spawn import Child
from ao_runner.stopping import Stopping
from ao_runner.supervision import Patience, Supervision, drive

SILENT_INTERVALS: Final = 6
"""After so many heartbeats that did not come, an executor that sends them is stalled (SPEC 11.2)."""


class StopRequests(Protocol):
    """Where the wish to stop comes from. The first request asks, the second kills."""

    def fileno(self) -> int:
        """Return a descriptor that is readable while there is a request that was not taken."""

    def take(self) -> int:
        """Take what came, and return how many requests there were in all."""


class CannotStart(Exception):
    """The run is over before there was a process."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(ending)
        self.ending = ending


def perform_run(order: RunOrder, journal: Journal, stops: StopRequests) -> Terminal:
    """Perform a run and return its terminal event's body; by then it is stored and told.

    Raises:
        SessionBusy: the session has a run that is not over.
    """
    journal.begin()
    identity = ExecutorIdentity(name=order.executor.name, version="unknown")
    try:
        description = _describe(order, stops)
        identity = description.executor
        _demand_contract(order, description)
        journal.mark("described")
        environment = executor_environment(order.environ, description, order.simulation)
        hidden = secret_values(environment, description.secrets)
        with _spawn(order, environment, stops) as child, selectors.DefaultSelector() as selector:
            journal.mark("spawned")
            _remark(order, description, journal)
            conversation = _conversation(order, identity, hidden)
            supervision = _supervision(order, description, child, conversation, selector)
            _obey(stops, supervision, journal)
            supervision.begin(invocation_line(order))
            for batch in drive(supervision):
                journal.relay(batch)
            journal.mark("reaped")
        return _conclude(order, journal, supervision, hidden)
    except CannotStart as error:
        journal.relay(list(_conversation(order, identity, []).conclude(failure_for(error.ending))))
        journal.end(RunRecord(argv=_argv(order)))
        return failure_for(error.ending)


def _describe(order: RunOrder, stops: StopRequests) -> Description:
    try:
        description = describe_executor(order.executor, bare_environment(order.environ), stops.fileno())
    except DescribeFailed as error:
        raise CannotStart(CancelledBeforeStart() if stops.take() else NotDescribed(str(error))) from error
    except OSError as error:
        raise CannotStart(NotStarted(str(order.executor.path), error)) from error
    if all(SchemaVersion.parse(text).major != CURRENT.major for text in description.schema_versions):
        raise CannotStart(NoCommonVersion(str(CURRENT), description.schema_versions))
    return description


def _demand_contract(order: RunOrder, description: Description) -> None:
    """An answer that nobody has validated must not pass for one that fits the agent's schema."""
    if order.session.blueprint.get("output_schema") is not None and not description.capabilities.output_schema:
        raise CannotStart(ContractNotKept(order.executor.name))


def _remark(order: RunOrder, description: Description, journal: Journal) -> None:
    if order.simulation is not None and not description.model_endpoint:
        journal.note(f"executor {order.executor.name} asks no model: the script is not used")


def _spawn(order: RunOrder, environment: dict[str, str], stops: StopRequests) -> Child:
    if stops.take():
        raise CannotStart(CancelledBeforeStart())
    try:
        return Child(_argv(order), environment, Path(order.session.project_dir))
    except OSError as error:
        raise CannotStart(NotStarted(str(order.executor.path), error)) from error


def _argv(order: RunOrder) -> tuple[str, ...]:
    return (str(order.executor.path),)


def _conversation(order: RunOrder, identity: ExecutorIdentity, hidden: list[str]) -> Conversation:
    return Conversation(
        identity=RunIdentity(order.run.run_id, order.run.session_id, identity),
        max_line_bytes=order.max_event_bytes,
        timestamp=timestamp,
        redact=lambda text: redact(text, hidden),
    )


def _supervision(
    order: RunOrder,
    description: Description,
    child: Child,
    conversation: Conversation,
    selector: selectors.BaseSelector,
) -> Supervision:
    stopping = Stopping(order.graces, can_ask=description.capabilities.cancel)
    conversation.settle = lambda terminal: settle_terminal(terminal, stopping.cause, order.timeout_seconds)
    return Supervision(
        child=child,
        conversation=conversation,
        selector=selector,
        stopping=stopping,
        patience=Patience(
            start_seconds=order.start_seconds,
            run_seconds=order.timeout_seconds,
            silence_seconds=SILENT_INTERVALS * order.heartbeat_seconds,
        ),
    )


def _obey(stops: StopRequests, supervision: Supervision, journal: Journal) -> None:
    def stop() -> tuple[()]:
        if stops.take() > 1:
            journal.note("killing the executor")
            supervision.kill()
        else:
            journal.note("asking the executor to stop; a second request kills it")
            supervision.cancel()
        return ()

    supervision.selector.register(stops, selectors.EVENT_READ, stop)


def _conclude(order: RunOrder, journal: Journal, supervision: Supervision, hidden: list[str]) -> Terminal:
    ending = supervision.ending()
    ending = replace(ending, stderr_tail=redact(ending.stderr_tail, hidden))
    conversation = supervision.conversation
    if conversation.terminal is None:
        terminal: Terminal = failure_for(ending)
        journal.relay(list(conversation.conclude(terminal)))
    else:
        terminal = conversation.terminal
        if complaint := disagreement(terminal, ending.exit_code, ending.cause):
            conversation.complain(complaint)
    for problem in conversation.late_problems:
        journal.note(problem)
    journal.end(
        RunRecord(
            argv=_argv(order),
            exit_code=ending.exit_code,
            stop_actions=tuple(supervision.stopping.taken),
            problem_count=conversation.problem_count,
            problems=tuple(conversation.problems),
            stderr_tail=ending.stderr_tail,
        )
    )
    return terminal
