"""The coordinator of a pipe: it reads runs as lines of JSON from stdin, and writes events as lines to stdout.

The event loop reads and writes the descriptors, without threads and without a change of their flags: O_NONBLOCK belongs
to the open file, not to the descriptor, so it would also affect the shell that shares the terminal, and stderr. A
descriptor is used only when it is ready, and data is written in pieces that a ready pipe always accepts. Regular files
are used without waiting, because selectors refuse them.
"""

import asyncio
import errno
import os
import traceback
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Final, Self

from pydantic import ValidationError

from ao_protocol.errors import ErrorType
from ao_protocol.events import Envelope, Event
from ao_protocol.framing import (
    MAX_DEPTH,
    MAX_INVOCATION_BYTES,
    EndedMidLine,
    LineSplitter,
    LineTooLong,
    encode_line,
    is_identifier,
)
from ao_protocol.json_path import ROOT, below
from ao_protocol.wire import Identifier, JsonObject, Name, WireModel, problems_of
from ao_protocol.written import NotInteroperable, decode_text, parse_json
from ao_runner.blueprints.loading import (
    MAX_REMARKS,
    InvalidBlueprint,
    LoadedBlueprint,
    is_free,
    load_blueprint,
    nearest,
    oddities_of,
    understand_blueprint,
)
from ao_runner.coordinators.inbox import Inbox
from ao_runner.coordinators.port import (
    Assignment,
    Coordinator,
    CoordinatorUnavailable,
    CoordinatorUnusable,
    EventBatch,
    Orders,
)
from ao_runner.discovery import Executor
from ao_runner.errors import RunnerError
from ao_runner.named_schemas.vetting import MAX_CHARACTERS_BESIDE_RUNS, UnacceptableSchema, remarks_below
from ao_runner.processes.output_reader import on_reader_gone
from ao_runner.run_events import RunKey
from ao_runner.runs.asked_in_json import AskedInJson
from ao_runner.runs.outcome import failed
from ao_runner.runs.submission import NewRun, Reception, accept
from ao_runner.store.records import RunRecord, timestamp

CHUNK_BYTES: Final = 65536
PIECE_BYTES: Final = 4096
"""PIPE_BUF on Linux: a ready pipe accepts this many bytes without blocking (POSIX)."""


_NO_READER: Final = {errno.EPIPE: "its reader has gone", errno.EBADF: "it is closed"}


async def read_lines(descriptor: int) -> AsyncIterator[tuple[int, bytes | LineTooLong]]:
    """Yield every line with its number, from 1. Empty lines are left out. The last line needs no line end."""
    splitter, number = LineSplitter(MAX_INVOCATION_BYTES), 0
    while chunk := await _read_chunk(descriptor):
        for line in splitter.feed(chunk):
            number += 1
            if line:
                yield number, line
    try:
        splitter.end()
    except EndedMidLine as error:
        yield number + 1, error.tail


async def _read_chunk(descriptor: int) -> bytes:
    loop = asyncio.get_running_loop()
    while True:
        await _ready(descriptor, loop.add_reader, loop.remove_reader)
        with suppress(BlockingIOError):
            return os.read(descriptor, CHUNK_BYTES)


class Outlet:
    """The lines to a descriptor. Each is written once and in order, even if a flush is cancelled or fails."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._waiting = bytearray()
        self._writing = asyncio.Lock()

    def add(self, lines: Iterable[bytes]) -> None:
        """Append lines, given without their line end."""
        for line in lines:
            self._waiting += line
            self._waiting += b"\n"

    async def flush(self) -> None:
        """Write all waiting lines, as fast as the reader accepts them.

        Raises:
            OSError: The descriptor is not writable now or, with BrokenPipeError or EBADF, never again.
        """
        loop = asyncio.get_running_loop()
        async with self._writing:
            while self._waiting:
                await _ready(self._descriptor, loop.add_writer, loop.remove_writer)
                with suppress(BlockingIOError):
                    del self._waiting[: os.write(self._descriptor, self._waiting[:PIECE_BYTES])]


async def _ready(descriptor: int, add: Callable[..., None], remove: Callable[[int], bool]) -> None:
    """Wait until a descriptor is ready. For a regular file, which always is, only yield to other tasks."""
    ready = asyncio.Event()
    try:
        add(descriptor, ready.set)
    except PermissionError:
        await asyncio.sleep(0)
        return
    try:
        await ready.wait()
    finally:
        remove(descriptor)


REMEMBERED: Final = 100_000
"""How many of the latest ids are kept at least; at most twice as many are kept, about 20 MB."""


@dataclass(slots=True)
class RunIds:
    """The latest run ids, and those of all runs that have not ended.

    An id that was forgotten and comes again begins another attempt at the run: `generation`, which is added to the
    number of the attempt, has increased since. The ids of an earlier process are not known either.
    """

    remembered: int = REMEMBERED
    generation: int = 0
    _latest: set[str] = field(default_factory=set)
    _before: set[str] = field(default_factory=set)
    _open: set[str] = field(default_factory=set)

    def add(self, run_id: str) -> bool:
        """Add the id of a run; return False if it is known already."""
        if run_id in self._latest or run_id in self._before or run_id in self._open:
            return False
        if len(self._latest) >= self.remembered:
            self._before, self._latest = self._latest, set()
            self.generation += 1
        self._latest.add(run_id)
        self._open.add(run_id)
        return True

    def end(self, run_id: str) -> None:
        """Record that a run has ended."""
        self._open.discard(run_id)


EXAMPLE: Final = '{"blueprint": "agent.yaml", "prompt": "Hi"}'


@dataclass(frozen=True, slots=True)
class RunDefaults:
    """The defaults for fields that a line leaves out."""

    executor_name: str
    executor_path: str
    project_dir: str
    attempt: int = 1
    """The number of every attempt. With another number the same ids can be piped in again, with the same home."""
    environ: Mapping[str, str] = field(default_factory=dict)


class RunLine(AskedInJson):
    """The fields of a line. `blueprint` is a blueprint or a path of one; `prompt` is short for `parameters.prompt`."""

    model_config = WireModel.model_config

    blueprint: JsonObject | Name | None = None
    parameters: JsonObject = {}
    prompt: str | None = None
    run_id: str | None = None
    session_id: str | None = None
    executor_session_id: Identifier | None = None
    project_dir: Name | None = None


@dataclass(frozen=True, slots=True)
class CancelLine:
    """The line `{"cancel": "run_1"}`, which cancels a run."""

    run_id: str


@dataclass(eq=False)
class InvalidRunLine(ValueError):
    """A line that is not a run, or a run that cannot be performed. The ids are those of the line, if they are valid."""

    message: str
    error_type: ErrorType = ErrorType.INVALID_INVOCATION
    run_id: str | None = None
    session_id: str | None = None

    def __str__(self) -> str:
        return self.message


def read_run_line(line: bytes | LineTooLong, defaults: RunDefaults) -> tuple[Assignment | CancelLine, list[str]]:
    """Return the run or the cancel of a line, and remarks on the line, such as unknown fields.

    Raises:
        InvalidRunLine: The line is not valid. The message names what was found and what is expected.
    """
    if isinstance(line, LineTooLong):
        raise InvalidRunLine(str(line), error_type=ErrorType.INVOCATION_TOO_LARGE)
    try:
        document = parse_json(decode_text(line), MAX_DEPTH - 1)
        if not isinstance(document, dict):
            raise NotInteroperable(f"found a {type(document).__name__}")
    except NotInteroperable as error:
        message = f"{error}, expected a run such as {EXAMPLE}"
        raise InvalidRunLine(message, error_type=ErrorType.INVALID_JSON) from error
    if "cancel" in document:
        run_id = document["cancel"]
        if not isinstance(run_id, str):
            raise InvalidRunLine(f"$.cancel: expected a run_id, found {run_id!r}")
        return CancelLine(run_id), []
    known = RunLine.model_fields
    others = (name for name in document if name not in known and not is_free(name))
    unknown = [
        f"{below(ROOT, name)}: unknown field, ignored{nearest(name, known)}" for name in islice(others, MAX_REMARKS)
    ]
    try:
        assignment, remarks = _assignment(RunLine.model_validate(document), defaults)
    except (ValidationError, InvalidRunLine) as error:
        said = "; ".join(problems_of(error, document)) if isinstance(error, ValidationError) else str(error)
        named: dict[str, Any] = {name: document.get(name) for name in ("run_id", "session_id")}
        # Only ids that are valid in an event.
        raise InvalidRunLine(said, **{name: value for name, value in named.items() if is_identifier(value)}) from error
    return assignment, [*unknown, *remarks]


def _assignment(asked: RunLine, defaults: RunDefaults) -> tuple[Assignment, list[str]]:
    loaded = _blueprint(asked, defaults)
    place = below(ROOT, "blueprint")
    remarks = oddities_of(loaded.document, loaded.blueprint, place, MAX_CHARACTERS_BESIDE_RUNS)
    own_schema: JsonObject = {"output_schema": asked.output_schema}
    remarks += remarks_below(own_schema, own_schema, ROOT, MAX_CHARACTERS_BESIDE_RUNS)
    wanted = NewRun(
        parameters=asked.parameters if asked.prompt is None else {**asked.parameters, "prompt": asked.prompt},
        blueprint=loaded,
        run_id=asked.run_id,
        session_id=asked.session_id,
        executor_session_id=asked.executor_session_id,
        project_dir=None if asked.project_dir is None else str(Path(asked.project_dir).absolute()),
        executor=Executor(defaults.executor_name, Path(defaults.executor_path)),
        **asked.to_fields(),
    )
    try:
        accepted = accept(wanted, Reception(defaults.environ, Path(), defaults.project_dir, is_queued=False))
    except UnacceptableSchema as error:
        raise InvalidRunLine(str(error), error_type=ErrorType.INVALID_OUTPUT_SCHEMA) from error
    except (RunnerError, NotInteroperable) as error:
        raise InvalidRunLine(str(error)) from error
    # A line without a profile is for the worker's own.
    run = replace(accepted.run, profile=asked.profile)
    return Assignment(RunKey(run.run_id, defaults.attempt), accepted.session, run), remarks


def _blueprint(asked: RunLine, defaults: RunDefaults) -> LoadedBlueprint:
    if asked.blueprint is None:
        raise InvalidRunLine(f"$.blueprint: missing, expected a run such as {EXAMPLE}")
    try:
        if isinstance(asked.blueprint, str):
            return load_blueprint(Path(asked.blueprint), may_wait=False)
        return understand_blueprint(Path(defaults.project_dir) / "blueprint", asked.blueprint)
    except InvalidBlueprint as error:
        raise InvalidRunLine(f"$.blueprint: {'; '.join(map(str, error.problems))}") from error
    except RunnerError as error:
        raise InvalidRunLine(f"$.blueprint: {error}") from error


MAX_AHEAD: Final = 100
"""How many runs are read ahead of their claims, so that a later cancel is seen. After them the pipe fills."""
IDLE_SECONDS: Final = 30.0
RETRY_SECONDS: Final = 1.0
MAX_MESSAGE_CHARACTERS: Final = 4000


def _unusable(number: int) -> CoordinatorUnusable:
    return CoordinatorUnusable("stdout", _NO_READER[number], "start again with a reader")


class StdoutCoordinator(Coordinator):
    """A `Coordinator` on stdin and stdout. After the end of stdin the worker drains and exits.

    An event is acknowledged once its whole line is written. Each run has one attempt and no lease.

    Args:
        defaults: The defaults for fields that a line leaves out.
        tell: Receives a sentence for people about an invalid line, with its number. stdout also gets a failure for it.
        stdin: The descriptor of the runs; it stays open, and its flags do not change.
        stdout: The descriptor of the events; nothing else may write to it.
    """

    def __init__(self, defaults: RunDefaults, tell: Callable[[str], None], stdin: int = 0, stdout: int = 1) -> None:
        self._defaults = defaults
        self._tell = tell
        self._stdin = stdin
        self._stdout = stdout
        self._outlet = Outlet(stdout)
        self._inbox: Inbox[Assignment] = Inbox()
        self._unbegun: dict[RunKey, Assignment] = {}
        """Runs that are claimed and not begun; a draining worker releases them."""
        self._run_ids = RunIds()
        self._cancelled: set[str] = set()
        """Runs that were cancelled before they began. The worker receives the cancel when they begin."""
        self._accepted: dict[RunKey, int] = {}
        self._has_ended = False

    async def __aenter__(self) -> Self:
        """Begin to read stdin."""
        self._group = await asyncio.TaskGroup().__aenter__()
        self._reading = self._group.create_task(self._read())
        self._watching = on_reader_gone([self._stdout], lambda: self._inbox.fail(_unusable(errno.EPIPE)))
        self._watching.__enter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop reading, and report the runs that were not performed."""
        self._watching.__exit__(None, None, None)
        self._reading.cancel()
        # Without the error of the block, which a task group would wrap.
        await self._group.__aexit__(None, None, None)
        for assignment in self._inbox:
            self._tell(f"run {assignment.key.run_id} was not performed")

    async def claim(self, slots: int) -> Sequence[Assignment]:
        """Wait for runs and take at most `slots`."""
        if slots < 1 or not await self._inbox.until_run(IDLE_SECONDS):
            return ()
        taken = list(self._inbox)[:slots]
        for assignment in taken:
            self._inbox.remove(assignment)
            self._unbegun[assignment.key] = assignment
        return taken

    async def started(self, key: RunKey) -> None:
        """Record the start, without a line: the first event shows it. A run that was cancelled before ends at once."""
        self._unbegun.pop(key, None)
        if key.run_id in self._cancelled:
            self._cancelled.remove(key.run_id)
            self._inbox.order(Orders(cancel_runs=frozenset({key.run_id})))
        self._drain_when_empty()

    async def events(self, batch: EventBatch) -> int:
        """Write events, one per line. They are acknowledged when they are written.

        Raises:
            CoordinatorUnusable: stdout has no reader or is closed.
            CoordinatorUnavailable: The events cannot be written now, for example because the disk is full.
        """
        accepted = self._accepted.get(batch.key, 0)
        fresh = batch.lines[max(0, accepted + 1 - batch.first_seq) :]
        # Recorded before the first await: after a cancel or failure in the middle of a line, `Outlet` continues there.
        self._accepted[batch.key] = max(accepted, batch.last_seq)
        self._outlet.add(fresh)
        await self._flush()
        return batch.last_seq

    async def _flush(self) -> None:
        try:
            await self._outlet.flush()
        except OSError as error:
            if error.errno in _NO_READER:
                raise _unusable(error.errno) from error
            raise CoordinatorUnavailable("stdout", error.strerror or str(error)) from error

    async def terminal(self, key: RunKey, seq: int, line: bytes, *, stays: bool = False) -> None:
        """Write the terminal event. Raises as `events` does."""
        await self.events(EventBatch(key, seq, [line]))

    async def heartbeat(self, held: Sequence[RunKey], outbox_seconds: float = 0.0) -> Orders:
        """Return the orders, without waiting."""
        return self._inbox.take_orders()

    async def orders(self) -> Orders:
        """Wait for orders: a cancel line, or the end of stdin."""
        return await self._inbox.until_orders(IDLE_SECONDS)

    async def release(self, key: RunKey, record: RunRecord | None) -> None:
        """Forget a run. One that never began is put back, as the next to be claimed."""
        assignment = self._unbegun.pop(key, None)
        self._accepted.pop(key, None)
        if record is None and assignment is not None:
            self._inbox.put_back(assignment)
        else:
            self._run_ids.end(key.run_id)
        self._drain_when_empty()

    async def _read(self) -> None:
        try:
            async for number, line in read_lines(self._stdin):
                await self._take_line(number, line)
                await self._inbox.until_room(MAX_AHEAD)
        except CoordinatorUnusable as error:
            self._inbox.fail(error)
        except OSError as error:
            self._inbox.fail(CoordinatorUnusable("stdin", error.strerror or str(error), "give it a pipe or a file"))
        self._has_ended = True
        self._drain_when_empty()

    async def _take_line(self, number: int, line: bytes | LineTooLong) -> None:
        try:
            # In a thread: the line, or the file that it names, may have megabytes.
            asked, remarks = await asyncio.to_thread(read_run_line, line, self._defaults)
            self._receive(asked)
            for remark in remarks:
                self._tell(f"stdin, line {number}: {remark}")
        except InvalidRunLine as error:
            self._tell(f"stdin, line {number}: {error}; the line is skipped")
            await self._refuse(number, error)
        except Exception as error:  # noqa: BLE001  # the data of one line must not end the runs of the others
            trace = "".join(traceback.format_exception(error))
            self._tell(f"stdin, line {number}: an internal error of the worker; the line is skipped: {trace}")
            await self._refuse(number, InvalidRunLine(f"it cannot be read: {error!r}"))

    async def _refuse(self, number: int, error: InvalidRunLine) -> None:
        """Write the failure of a line. It has the line's `run_id` only if no other line has it: a run ends once."""
        self.refused_lines += 1
        if is_its_own := error.run_id is not None and self._run_ids.add(error.run_id):
            self._run_ids.end(str(error.run_id))
        message = f"line {number} of stdin: {error}"[:MAX_MESSAGE_CHARACTERS]
        details: JsonObject = {"line": number}
        failure = failed(error.error_type, message, side_effects="none", origin="caller", details=details)
        run_id, session_id = (error.run_id, error.session_id) if is_its_own else (None, None)
        envelope = Envelope(session_id=session_id, run_id=run_id, seq=1, timestamp=timestamp())
        event = Event.model_construct(envelope=envelope, body=failure)
        self._outlet.add([encode_line(event.to_document()).rstrip(b"\n")])
        while True:
            try:
                return await self._flush()
            except CoordinatorUnavailable:
                await asyncio.sleep(RETRY_SECONDS)

    def _receive(self, line: Assignment | CancelLine) -> None:
        if isinstance(line, CancelLine):
            if any(key.run_id == line.run_id for key in (*self._unbegun, *(waiting.key for waiting in self._inbox))):
                self._cancelled.add(line.run_id)
            else:
                self._inbox.order(Orders(cancel_runs=frozenset({line.run_id})))
        elif not self._run_ids.add(line.key.run_id):
            raise InvalidRunLine(f"run_id {line.key.run_id!r} stood on an earlier line; give each run its own, or none")
        else:
            key = replace(line.key, attempt=line.key.attempt + self._run_ids.generation)
            self._inbox.put(replace(line, key=key))

    def _drain_when_empty(self) -> None:
        if self._has_ended and not self._inbox and not self._unbegun:
            self._inbox.order(Orders(drain=True))
