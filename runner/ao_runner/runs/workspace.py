"""A run in the workspace of its session: the workspace is there before the run, and settled before its terminal event.

So whoever receives the terminal event finds the changes where the event `_ao/workspace` before it says. The session
keeps its project folder in the store and towards coordinators; only the executor knows the workspace.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TypeAlias

from ao_protocol.errors import ErrorType
from ao_protocol.events import Body, Failure, Result, SessionBound, Terminal, VendorEvent
from ao_protocol.redaction import NO_SECRETS, Redactor
from ao_protocol.wire import ExecutorIdentity, JsonObject
from ao_runner.home import HomeOpen, private_folder
from ao_runner.processes.calls import CallNotFinished, call_long
from ao_runner.processes.git import git_variables
from ao_runner.processes.workspaces import (
    Workspace,
    WorkspacePlace,
    list_interrupted,
    open_workspace,
    settle_interrupted,
    settle_workspace,
)
from ao_runner.run_events import NOT_DESCRIBED, Relayed, RunIdentity, as_event_of
from ao_runner.runs.attempt import Journal, Mark
from ao_runner.runs.run_request import RunRequest, WorkFolder, refused
from ao_runner.store.records import RunRecord, timestamp

EVENT_TYPE: Final = "_ao/workspace"
OPEN_SECONDS: Final = 600.0
SETTLE_SECONDS: Final = 300.0
LOCK_ATTEMPTS: Final = 50
LOCK_SECONDS: Final = 0.1
"""How long to wait between attempts for a workspace that another process still settles."""

Performing: TypeAlias = Callable[[Journal, WorkFolder], Awaitable[Terminal]]
"""Performs a run in a folder, or ends it with a refusal, and returns its terminal event."""


async def perform_in_workspace(request: RunRequest, journal: Journal, perform: Performing) -> Terminal:
    """Let `perform` perform a run with the workspace of its session as the project folder; return the terminal event.

    If there can be no workspace, the run is refused.
    """
    async with _workspace_of(request) as (place, opened):
        if isinstance(opened, str):
            refusal = refused(ErrorType.WORKSPACE_ERROR, opened, origin="environment")
            return await perform(journal, WorkFolder(request.session.project_dir, refusal))
        held = _HeldEnd(journal, request, opened.project_dir)
        terminal = await perform(held, WorkFolder(opened.project_dir, learn_secrets=held.learn_secrets))
        message = f"Changes of run {request.run.run_id}\n\nSession: {request.session.session_id}"
        environ = git_variables(request.environ)
        try:
            record = await call_long(
                SETTLE_SECONDS,
                settle_workspace,
                place,
                message,
                SETTLE_SECONDS,
                environ,
                is_failed=isinstance(terminal, Failure),
            )
        except CallNotFinished as error:
            record = {"kind": opened.kind, "kept": True, "path": opened.project_dir, "problem": str(error)}
        return held.let_go(record)


@asynccontextmanager
async def _workspace_of(request: RunRequest) -> AsyncIterator[tuple[WorkspacePlace, Workspace | str]]:
    """Lock the workspace of the session until the block ends; yield it, or why there is none."""
    if request.profile is None or request.profile.workspace == "none" or request.workspaces is None:
        raise ValueError("the run has no workspace, or no folder for it")
    kind, project_dir, lock = request.profile.workspace, request.session.project_dir, None
    place = WorkspacePlace.of_session(request.workspaces, request.session.session_id)
    environ, sandbox = git_variables(request.environ), request.sandbox.command if request.sandbox else ()
    opened: Workspace | str = f"the workspace {place.folder} is in use by another process; wait for its run to end"
    try:
        try:
            private_folder(request.workspaces.parent, request.workspaces.name)
            if (lock := await _lock_of(place)) is not None:
                opened = await call_long(
                    OPEN_SECONDS, open_workspace, place, kind, project_dir, sandbox, OPEN_SECONDS, environ
                )
        except (CallNotFinished, HomeOpen, OSError) as error:
            opened = f"no workspace ({kind}): {error}"
        yield place, opened
    finally:
        if lock is not None:
            os.close(lock)


async def _lock_of(place: WorkspacePlace) -> int | None:
    for _ in range(LOCK_ATTEMPTS):
        if (lock := place.take()) is not None:
            return lock
        await asyncio.sleep(LOCK_SECONDS)
    return None


async def sweep_workspaces(workspaces: Path, environ: Mapping[str, str]) -> list[str]:
    """Settle the workspaces of killed runners, and return a sentence for each that is kept."""
    if not list_interrupted(workspaces):
        return []
    try:
        return await call_long(SETTLE_SECONDS, settle_interrupted, workspaces, SETTLE_SECONDS, git_variables(environ))
    except CallNotFinished as error:
        return [f"the workspaces of killed runs in {workspaces} are not cleaned up yet: {error}"]


@dataclass
class _HeldEnd:
    """A journal that passes everything on, except the terminal event and the record, which it holds for `let_go`."""

    journal: Journal
    request: RunRequest
    workspace_dir: str
    """The folder of the workspace, in whose place `session_bound` shows the project folder of the session."""
    _terminal: list[Relayed] = field(default_factory=list)
    _record: RunRecord | None = None
    _redactor: Redactor = NO_SECRETS

    def learn_secrets(self, redactor: Redactor) -> None:
        """Take the redactor of the run, whose secrets names and lines of changed files may contain."""
        self._redactor = redactor

    def begin(self) -> None:
        """Do nothing: the run is open."""

    def mark(self, what: Mark) -> None:
        """Record the time of a step."""
        self.journal.mark(what)

    def note(self, sentence: str) -> None:
        """Record a note."""
        self.journal.note(sentence)

    @property
    def is_full(self) -> bool:
        """Whether the journal cannot accept more events for now."""
        return self.journal.is_full

    def when_room(self, callback: Callable[[], None]) -> None:
        """Call `callback` once the journal can accept events again."""
        self.journal.when_room(callback)

    def relay(self, batch: Sequence[Relayed]) -> None:
        """Pass events on; hold the terminal one."""
        self._terminal += [item for item in batch if item.event_type in {"result", "failure"}]
        self.journal.relay([self._shown(item) for item in batch if item not in self._terminal])

    def _shown(self, item: Relayed) -> Relayed:
        if item.event_type != "session_bound":
            return item
        body = item.body
        if not isinstance(body, SessionBound) or body.project_dir != self.workspace_dir:
            return item
        return self._event(item.seq, body.model_copy(update={"project_dir": self.request.session.project_dir}), item)

    def end(self, record: RunRecord) -> Terminal:
        """Hold the record and return the terminal event."""
        self._record = record
        return self._body()

    def let_go(self, workspace: JsonObject) -> Terminal:
        """Relay what was changed and the terminal event, and close the run. The record does not repeat the diffs."""
        (terminal,) = self._terminal
        workspace = json.loads(self._redactor.line(json.dumps(workspace).encode()))
        batch = [terminal]
        if workspace["kept"] or workspace["file_count"] or "problem" in workspace:
            told = self._event(terminal.seq, VendorEvent(event_type=EVENT_TYPE, fields=workspace))
            batch = [told, self._event(terminal.seq + 1, self._body(), terminal)]
        self.journal.relay(batch)
        brief = {name: value for name, value in workspace.items() if name != "diffs"}
        return self.journal.end(replace(self._record or RunRecord(argv=()), workspace=brief))

    def _body(self) -> Terminal:
        body = self._terminal[0].body
        assert isinstance(body, Result | Failure)  # noqa: S101  # its type says so
        return body

    def _event(self, seq: int, body: Body, received: Relayed | None = None) -> Relayed:
        executor = ExecutorIdentity(name=self.request.executor.name, version=NOT_DESCRIBED)
        identity = RunIdentity(self.request.run.run_id, self.request.session.session_id, executor)
        return as_event_of(identity, seq, body, received, timestamp)
