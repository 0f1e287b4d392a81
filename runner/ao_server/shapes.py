"""Runs, sessions and results as clients see them. Names and statuses are those of the existing coordinator.

This module alone translates between statuses in the store and those of clients.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from ao_protocol.events import Failure, OutputValidation, Result, Terminal, parse_event
from ao_protocol.wire import JsonObject
from ao_runner.runs.answers import attempts_of, validation_of
from ao_runner.runs.outcome import terminal_in
from ao_runner.store.input_table import StoredRequest
from ao_runner.store.records import RunState, RunStatus, Session
from ao_runner.store.store import Store

RunStatusName = Literal["pending", "claimed", "running", "stopping", "completed", "failed", "stopped"]
SessionStatusName = Literal["pending", "running", "stopping", "idle", "finished", "failed", "stopped"]


class StatusNames(NamedTuple):
    """The names of a status for clients: that of a run, and that of a session whose run has it."""

    run: RunStatusName
    session: SessionStatusName


STATUSES: Final[Mapping[RunStatus, StatusNames]] = {
    "queued": StatusNames("pending", "pending"),
    "running": StatusNames("running", "running"),
    "completed": StatusNames("completed", "finished"),
    "failed": StatusNames("failed", "failed"),
    "cancelled": StatusNames("stopped", "stopped"),
}
"""By status in the store."""
CLAIMED: Final = StatusNames("claimed", "pending")
"""A run that runs in the store and has not begun."""
STOPPING: Final = StatusNames("stopping", "stopping")
"""A run that runs and is to stop."""
STORED: Final[Mapping[RunStatusName, RunStatus]] = {
    **{names.run: stored for stored, names in STATUSES.items()},
    CLAIMED.run: "running",
    STOPPING.run: "running",
}
"""The status in the store by name."""

_HOST: Final = "host:"
"""The prefix of the tag that names a host."""


def names_of(state: RunState) -> StatusNames:
    """Return the names of the status of a run."""
    if state.run.status == "running" and state.stop_wanted:
        return STOPPING
    return STATUSES[state.run.status] if state.run.status != "running" or state.has_begun else CLAIMED


def shown_run(state: RunState, session: Session | None, failure: Failure | None = None) -> JsonObject:
    """Return the JSON of a run. `session` is None if it cannot be read; `failure` is its end, if that is known."""
    run = state.run
    contract: Mapping[str, Any] = run.contract or {}
    error = None if failure is None else f"{failure.error.type}: {failure.error.message}"
    return {
        "run_id": run.run_id,
        "type": "start_session" if run.mode == "start" else "resume_session",
        "session_id": run.session_id,
        "agent_name": state.agent_name,
        "parameters": run.parameters,
        "project_dir": None if session is None else session.project_dir,
        "parent_session_id": run.parent_session_id,
        "status": names_of(state).run,
        "execution_mode": run.execution_mode or "sync",
        "demands": _demands(state, session),
        "runner_id": state.owner or None,
        "error": error or run.error_type,
        "created_at": state.queued_at or run.started_at,
        "claimed_at": run.started_at if state.has_begun else None,
        "started_at": run.started_at if state.has_begun else None,
        "completed_at": run.ended_at,
        "timeout_at": None,
        "attempt": state.attempt,
        "profile": state.run.profile,
        "labels": dict(run.labels),
        "priority": state.run.priority,
        "not_before": state.run.not_before,
        "error_type": run.error_type,
        "last_seq": state.last_seq,
        "schema_source": contract.get("source"),
        "schema_name": contract.get("schema_name"),
        "batch_id": run.batch_id,
        "succeeds": run.succeeds,
        "succeeded_by": None,
    }


def _demands(state: RunState, session: Session | None) -> JsonObject:
    """Return what a run demands of its worker. One that resumes a session demands the session's host and profile."""
    requires = state.run.requires
    hosts = [tag.removeprefix(_HOST) for tag in requires if tag.startswith(_HOST)]
    demands: JsonObject = {
        "executor_type": str((session.blueprint if session is not None else {}).get("type", "autonomous")),
        "tags": [tag for tag in requires if not tag.startswith(_HOST)],
    }
    if state.run.mode == "resume" and state.host is not None:
        return demands | {"hostname": state.host, "executor_profile": state.run.profile}
    return demands | ({"hostname": hosts[0]} if hosts else {})


def shown_sessions(store: Store, sessions: Sequence[Session], idle: Collection[str] = ()) -> dict[str, JsonObject]:
    """Return the JSON of sessions by id, in their order, with one query; `idle` are those whose process waits."""
    states = states_by_session(store, [session.session_id for session in sessions])
    return {session.session_id: _session(session, states[session.session_id], idle) for session in sessions}


def states_by_session(store: Store, session_ids: Iterable[str]) -> dict[str, list[RunState]]:
    """Return the runs of sessions in order, by session, with one query."""
    states: dict[str, list[RunState]] = {session_id: [] for session_id in session_ids}
    for state in store.runs.states_of(*states):
        states[state.run.session_id].append(state)
    return states


def _session(session: Session, states: Sequence[RunState], idle: Collection[str]) -> JsonObject:
    status = current_status(states, is_idle=session.session_id in idle)
    resumed = [state.queued_at or state.run.started_at for state in states if state.run.mode == "resume"]
    return {
        "session_id": session.session_id,
        "status": status,
        "created_at": session.created_at,
        "project_dir": session.project_dir,
        "agent_name": session.agent_name,
        "last_resumed_at": resumed[-1] if resumed else None,
        "parent_session_id": session.parent_session_id,
        "executor_session_id": session.executor_session_id,
        "executor_profile": session.profile,
        "hostname": session.host,
        "runs": len(states),
    }


def current_status(states: Sequence[RunState], *, is_idle: bool = False) -> SessionStatusName:
    """Return the status of a session: that of its running run, else of its oldest queued or its last one.

    It is `idle` where a process waits for the session's next run.
    """
    if not states:
        return "pending"
    for open_status in ("running", "queued"):
        for state in states:
            if state.run.status == open_status:
                return names_of(state).session
    status = names_of(states[-1]).session
    return "idle" if is_idle and status == "finished" else status


def terminal_of(store: Store, run_id: str) -> Terminal | None:
    """Return the terminal event of a run; None if it has not ended, or its events were dropped."""
    line = store.events.last_line(run_id)
    return None if line is None else terminal_in(line)


def failures_of(store: Store, states: Iterable[RunState]) -> dict[str, Failure]:
    """Return the failures of runs by run, with one query; a failure of more than 64 KiB is left out."""
    lines = store.events.last_lines(
        [state.run.run_id for state in states if state.run.status in {"failed", "cancelled"}]
    )
    terminals = {run_id: terminal_in(line) for run_id, line in lines.items()}
    return {run_id: terminal for run_id, terminal in terminals.items() if isinstance(terminal, Failure)}


def verdicts_of(store: Store, run_id: str) -> list[OutputValidation]:
    """Return the verdicts over the answers of a run."""
    bodies = [parse_event(line.encode()).body for line in store.events.lines_with(run_id, "output_validation")]
    return [body for body in bodies if isinstance(body, OutputValidation)]


def shown_result(store: Store, state: RunState, terminal: Result) -> JsonObject:
    """Return the result of a run, `validated_output` and `schema_validation`, which are null without a contract."""
    verdicts = verdicts_of(store, state.run.run_id)
    validation: JsonObject = {"validated_output": None, "schema_validation": None}
    return {
        "result_text": terminal.result_text,
        "result_data": terminal.result_data,
        **validation,
        **validation_of(terminal, state.run, len(verdicts)),
    }


def shown_contract(store: Store, state: RunState, terminal: Terminal | None) -> JsonObject:
    """Return how the output contract of a run was met: `schema_validation`, `errors` and `attempts`."""
    verdicts = verdicts_of(store, state.run.run_id)
    record = store.runs.find_record(state.run.run_id)
    rejected = () if record is None else record.rejected_answers
    errors = terminal.error.validation_errors if isinstance(terminal, Failure) else None
    found: JsonObject = {} if terminal is None else validation_of(terminal, state.run, len(verdicts))
    return {
        "schema_validation": found.get("schema_validation"),
        "errors": list(errors or ()),
        "attempts": list(attempts_of(verdicts, rejected)),
    }


def shown_request(request: StoredRequest) -> JsonObject:
    """Return a request as JSON. It does not contain the value of the answer, which may be a secret."""
    answer = request.answer or {}
    return {
        **request.fields,
        "run_id": request.run_id,
        "session_id": request.session_id,
        "agent_name": request.agent_name,
        "request_id": request.request_id,
        "asked_at": request.asked_at,
        "waiting": request.is_waiting,
        "parked": request.is_parked,
        "outcome": request.outcome,
        "option_id": answer.get("option_id"),
        "answered_by": request.answered_by,
    }
