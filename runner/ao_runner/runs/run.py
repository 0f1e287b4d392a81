"""The steps of one run: check, describe, check against the description, environment, attempts, terminal event, record.

This module orders the steps and implements none. Every run ends with exactly one terminal event. An executor that
enforces output contracts gets one attempt; for any other executor the runner enforces the contract and asks the same
session again with a further attempt. The module also contains the journal of a run in the local store.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final, Protocol, TypeVar

from pydantic import JsonValue

from ao_protocol.documents import Description
from ao_protocol.errors import ErrorType
from ao_protocol.events import Body, ExecutorIdentity, Failure, Result, SessionBound, Terminal, Usage
from ao_protocol.redaction import NO_SECRETS, SHORTEST_SECRET, Redactor
from ao_runner.discovery import DescribeFailed
from ao_runner.home import WORKSPACES
from ao_runner.processes.cleanup_journal import own_cleanup_journal, sweep_left_behind
from ao_runner.processes.containment import Containment, lifelines
from ao_runner.processes.judging import with_judge
from ao_runner.profiles import InputWait, waiting_problem
from ao_runner.run_events import NOT_DESCRIBED, Relayed, RunIdentity
from ao_runner.runs.acceptance import (
    check_run,
    contract_as_asked,
    keeps_itself,
    version_for,
    with_placeholders_filled_in,
)
from ao_runner.runs.attempt import AttemptContext, ColdLauncher, Journal, Launcher, Mark, argv_of, new_conversation
from ao_runner.runs.run_request import (
    CannotStart,
    OwnCredentialGiven,
    RunRequest,
    SandboxNotThere,
    StopRequests,
    bare_environment,
    environment_of,
    invocation_of,
    redactor_of,
    refused,
    sandboxed,
)
from ao_runner.store.records import Run, RunRecord, Session, timestamp
from ao_runner.store.store import Store

MOST_VALUES: Final = 2000
MOST_CHARACTERS: Final = 100_000
"""A blueprint or schema within both limits is processed in a few milliseconds."""
_OF_INPUTS: Final = frozenset({"input_requested", "input_resolved"})
_REACTED_TO: Final = frozenset({"session_bound", "usage", "result", "failure"})

Returned = TypeVar("Returned")


async def perform_run(request: RunRequest, journal: Journal, stops: StopRequests, launcher: Launcher) -> Terminal:
    """Perform a run and return the body of its terminal event, which is then already stored and relayed.

    Raises:
        SessionBusy: The session has an unfinished run.
    """
    journal.begin()
    if request.refusal is None and request.profile is not None and request.profile.workspace != "none":
        from ao_runner.runs.workspace import perform_in_workspace  # only these runs need it

        return await perform_in_workspace(
            request, journal, lambda request, journal: _perform(request, journal, stops, launcher)
        )
    return await _perform(request, journal, stops, launcher)


async def _perform(request: RunRequest, journal: Journal, stops: StopRequests, launcher: Launcher) -> Terminal:
    identity = RunIdentity(
        request.run.run_id, request.run.session_id, ExecutorIdentity(name=request.executor.name, version=NOT_DESCRIBED)
    )
    redactor = NO_SECRETS
    try:
        if request.refusal is not None:
            raise CannotStart(request.refusal)
        request = await _beside_the_loop(with_placeholders_filled_in, request)
        is_turn = launcher.keeps(request.session.session_id)
        acceptable = await _beside_the_loop(partial(check_run, is_turn=is_turn), request)
        description = await _describe(request, stops, launcher)
        request = _with_inputs(replace(request, schema_version=version_for(description)), description)
        journal.mark("described")
        environment, redactor = _environment(request, description, journal)
        contract = await _beside_the_loop(
            partial(contract_as_asked, run=acceptable, description=description, is_turn=is_turn), request
        )
        del acceptable  # a run may last for hours, and its parsed invocation takes 4 KB
        context = AttemptContext(
            request=request,
            description=description,
            environment=environment,
            redactor=redactor,
            identity=replace(identity, executor=description.executor),
            journal=journal,
            stops=stops,
            launcher=launcher,
            limit_seconds=request.timeout_seconds,
            relay=journal.relay,
        )
        if contract is None or (keeps_itself(description, contract) and not request.verify_results):
            record = await context.perform(invocation_of(request))
        else:
            from ao_runner.runs.contract_loop import attempt_verified, retry_until_valid  # only these runs need it

            perform = attempt_verified if keeps_itself(description, contract) else retry_until_valid
            record = await perform(context, contract)
    except CannotStart as error:
        # No process was started, so the events name no executor version.
        journal.relay(list(new_conversation(request, identity, redactor).conclude(error.failure)))
        record = RunRecord(argv=argv_of(request))
    return journal.end(record)


def _with_inputs(request: RunRequest, description: Description) -> RunRequest:
    """Return the request without the promise of answers if its executor asks nobody.

    Raises:
        CannotStart: The profile expects of the executor what it cannot do.
    """
    wait = None if request.profile is None else request.profile.input
    if isinstance(wait, InputWait) and (problem := waiting_problem(wait, description)):
        raise refused(
            ErrorType.UNSUPPORTED_CAPABILITY, f"the profile's input: {problem}", details={"missing": ["input"]}
        )
    return request if description.capabilities.input else replace(request, inputs=None)


async def _beside_the_loop(step: Callable[[RunRequest], Returned], request: RunRequest) -> Returned:
    """Run a step, in a thread if the request is large, so that a slow step does not delay other runs."""
    if all(map(_is_small, (request.session.blueprint, request.run.contract, request.run.parameters))):
        return await with_judge(lambda: _at_once(step, request))
    return await with_judge(lambda: asyncio.to_thread(step, request))


async def _at_once(step: Callable[[RunRequest], Returned], request: RunRequest) -> Returned:
    return step(request)


def _is_small(document: JsonValue) -> bool:
    """Return whether a JSON value has few values and little text, and read no more of it than needed."""
    unread, values, characters = [document], 0, 0
    while unread and values <= MOST_VALUES and characters <= MOST_CHARACTERS:
        value = unread.pop()
        values += 1
        match value:
            case str():
                characters += len(value)
            case list():
                unread += value[: MOST_VALUES + 1]
            case dict():
                characters += sum(map(len, islice(value, MOST_VALUES)))
                unread += islice(value.values(), MOST_VALUES + 1)
            case _:
                pass
    return not unread and values <= MOST_VALUES and characters <= MOST_CHARACTERS


async def _describe(request: RunRequest, stops: StopRequests, launcher: Launcher) -> Description:
    environment = bare_environment(request.environ)
    try:
        asking = asyncio.ensure_future(launcher.describe(sandboxed(request, environment), environment))
        with stops.told_to(asking.cancel):
            description = await asking
    except asyncio.CancelledError:
        if not stops.count:
            raise
        raise stops.refusal() from None
    except SandboxNotThere as error:
        raise refused(ErrorType.DEPENDENCY_MISSING, str(error), origin="environment") from error
    except DescribeFailed as error:
        if request.profile is not None and request.sandbox is not None:
            sentence = f"in the sandbox of the profile {request.profile.name!r}, {error}"
            raise refused(ErrorType.DEPENDENCY_MISSING, sentence, origin="environment") from error
        raise refused(ErrorType.PROTOCOL_VIOLATION, str(error), origin="executor") from error
    except OSError as error:
        from ao_runner.runs.outcome import not_started

        raise CannotStart(not_started(str(request.executor.path), error)) from error
    return description


def _environment(request: RunRequest, description: Description, journal: Journal) -> tuple[dict[str, str], Redactor]:
    """Return the environment of the executor and its redactor; report oddities as notes."""
    if request.simulation is not None and not description.model_endpoint:
        journal.note(f"executor {request.executor.name} does not ask a model: the script is not used")
    try:
        environment = environment_of(request, description)
    except OwnCredentialGiven as error:
        raise refused(ErrorType.INVALID_INVOCATION, str(error)) from error
    redactor = redactor_of(request, description, environment)
    for name in redactor.too_short:
        journal.note(f"secret {name} has fewer than {SHORTEST_SECRET} characters: it is not removed from events")
    return environment, redactor


async def perform_single_run(
    request: RunRequest, journal: "StoredJournal", stops: StopRequests, home: Path, containment: Containment
) -> Terminal:
    """Perform a run and return its terminal event, which is then stored.

    Raises:
        SessionBusy: The session has an unfinished run.
    """
    if swept := sweep_left_behind(home, journal.note):
        journal.note(f"cleaned up after a killed runner: {swept}")
    request = replace(request, workspaces=home / WORKSPACES)
    if (home / WORKSPACES).is_dir():
        from ao_runner.runs.workspace import sweep_workspaces

        for sentence in await sweep_workspaces(home / WORKSPACES, request.environ):
            journal.note(sentence)
    with own_cleanup_journal(home, journal.owner, journal.note) as cleanup, lifelines(containment) as lines:
        return await perform_run(request, journal, stops, ColdLauncher(lines, cleanup))


class Listener(Protocol):
    """An observer of a run."""

    def on_event(self, relayed: Relayed) -> None:
        """Handle an event that is already stored."""

    def on_note(self, note: str) -> None:
        """Handle a note from the runner about the run; a note is not an event."""

    @property
    def is_full(self) -> bool:
        """Whether the listener cannot accept more events for now."""

    def when_room(self, callback: Callable[[], None]) -> None:
        """Call `callback` once the listener can accept events again."""


class Ready:
    """The backpressure methods of a listener that is never full."""

    is_full: Final = False

    def when_room(self, callback: Callable[[], None]) -> None:
        """Call `callback` immediately."""
        callback()


@dataclass
class Marks:
    """The time of each step of a run, in seconds since its start."""

    clock: Callable[[], float] = time.monotonic
    seconds: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._began_at = self.clock()

    def set(self, what: Mark) -> None:
        """Record the first time of a mark; for `reaped`, record the last, because a run can have several attempts."""
        now = round(self.clock() - self._began_at, 4)
        if what == "reaped":
            self.seconds.pop(what, None)
        self.seconds.setdefault(what, now)


@dataclass
class StoredJournal:
    """The journal of a run in the local store.

    `owner` identifies the process that performs the run, see `ao_runner.store.ownership`.
    """

    store: Store
    run: Run
    listener: Listener
    owner: str
    new_session: Session | None = None
    """The session that this run creates, if any; it is stored together with its first run or not at all."""
    _marks: Marks = field(default_factory=Marks)
    _terminal: Terminal | None = None

    def begin(self) -> None:
        """Open the run.

        Raises:
            SessionBusy: The session has an unfinished run.
        """
        self._marks = Marks()
        self.store.runs.begin(self.run, self.owner, self.new_session)

    def mark(self, what: Mark) -> None:
        """Record the time of a step."""
        self._marks.set(what)

    def note(self, sentence: str) -> None:
        """Pass a note, which is not an event, to the listener."""
        self.listener.on_note(sentence)

    def relay(self, batch: Sequence[Relayed]) -> None:
        """Store events, then pass them to the listener. The events of one batch become durable together."""
        if not batch:
            return
        self.mark("first_event")
        # Before the events, so that whoever sees the event of a request finds the request.
        self.store.inputs.note(self.run.run_id, [item.line for item in batch if item.event_type in _OF_INPUTS])
        self.store.events.add(self.run.run_id, batch[0].seq, [item.line for item in batch])
        for item in batch:
            if item.event_type in _REACTED_TO:
                self._keep(item.event.body)
            self.listener.on_event(item)

    @property
    def is_full(self) -> bool:
        """Whether the listener cannot accept more for now; the store is never full."""
        return self.listener.is_full

    def when_room(self, callback: Callable[[], None]) -> None:
        """Call `callback` once the listener can accept events again."""
        self.listener.when_room(callback)

    def end(self, record: RunRecord) -> Terminal:
        """Close the run with its record and return its terminal event, which must have been relayed."""
        self.store.runs.add_record(self.run.run_id, replace(record, seconds=self._marks.seconds))
        if self._terminal is None:
            raise RuntimeError(f"run {self.run.run_id} was closed before its terminal event was relayed")
        return self._terminal

    def _keep(self, body: Body) -> None:
        """Store the session id, the usage or the outcome that an event reports."""
        if isinstance(body, SessionBound):
            self.store.sessions.bind(self.run.session_id, body.executor_session_id)
        elif isinstance(body, Usage):
            self.store.figures.record_usage(self.run.run_id, body)
        elif isinstance(body, Result | Failure):
            from ao_runner.runs.outcome import error_type_of, status_of

            self._terminal = body
            self.mark("terminal")
            self.store.runs.end(self.run.run_id, status_of(body), timestamp(), error_type_of(body))
            self.store.figures.record_usage(self.run.run_id, body.usage)
            if self.store.deliveries.is_end_awaited(self.run.run_id):
                self.store.notify()
