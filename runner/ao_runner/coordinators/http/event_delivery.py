"""Report runs to the server: each event once if possible, each end exactly once.

The server has no event ids, so after a lost response it is unknown whether an event is stored. An event that is sent
again has the same timestamp, so that a duplicate can be recognised. Before the end of a run is reported again, it is
read back.
"""

from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Literal
from urllib.parse import quote

from ao_protocol.errors import ErrorType
from ao_protocol.events import ErrorInfo, Event, Failure, InvalidEvent, Result, SessionBound, parse_event
from ao_protocol.older_events import WRAPPED, error_text, older_event, user_message
from ao_protocol.wire import JsonObject
from ao_runner.coordinators.http.registration import Enrolment, RunnerIdentity, Tell
from ao_runner.coordinators.http.transport import ServerReply, Unanswered
from ao_runner.coordinators.port import Assignment, CoordinatorUnavailable, EventBatch, LeaseLost, Refused
from ao_runner.run_events import RunKey

MAX_SESSIONS: Final = 4096
_TICK: Final = timedelta(microseconds=1)
_LATEST: Final = datetime.max.replace(tzinfo=UTC) - timedelta(days=1)
"""The maximum time. Later times become this one: a day of ticks fits after it, and an event keeps its time."""


class SessionClocks:
    """Timestamps that increase within each session, because the server orders events by the text of the timestamp.

    All have the same form and length, so their texts sort like the times. If a clock steps back, each timestamp is the
    last one plus a microsecond. The least recently used sessions are forgotten.
    """

    def __init__(self) -> None:
        self._latest: OrderedDict[str, datetime] = OrderedDict()

    def stamp(self, session_id: str, timestamp: str) -> str:
        """Return the event's own time or, if it is not later than the session's last one, that plus a microsecond."""
        moment = _moment(timestamp)
        latest = self._latest.pop(session_id, None)
        if latest is not None and moment <= latest:
            moment = latest + _TICK
        self._latest[session_id] = moment
        if len(self._latest) > MAX_SESSIONS:
            self._latest.popitem(last=False)
        return moment.isoformat(timespec="microseconds")


def _moment(timestamp: str) -> datetime:
    # A leap second is valid in the protocol and not supported by datetime.
    text = timestamp[:17] + "59.999999Z" if timestamp[17:19] == "60" else timestamp
    try:
        return min(datetime.fromisoformat(text).astimezone(UTC), _LATEST)
    except (ValueError, OverflowError):
        return datetime.now(UTC)


ENDED: Final = frozenset({"completed", "failed", "stopped"})
QUESTION_SEQ: Final = -1
"""The `seq` in `Told.stamp` for the prompt, which is not an event of the executor."""


@dataclass(slots=True)
class Told:
    """The delivery state of an attempt."""

    through_seq: int = 0
    stamp: tuple[int, str] = (0, "")
    """The `seq` and timestamp of the event that is being sent."""
    result_in_doubt: bool = True
    is_bound: bool = False
    """Whether the executor has emitted `session_bound` in this attempt."""
    end_in_doubt: bool = True
    """Whether the end may be reported already. It may, by an earlier worker, unless this worker reported the start."""


class RestDelivery:
    """The reports of runs to the server. `forget` drops the state of an attempt."""

    def __init__(self, enrolment: Enrolment, identity: RunnerIdentity, tell: Tell) -> None:
        self._enrolment = enrolment
        self._identity = identity
        self._tell = tell
        self._clocks = SessionClocks()
        self._told: dict[RunKey, Told] = {}
        self.held: dict[str, Assignment] = {}
        """The runs of the worker whose end is not reported yet, by id."""
        self.idle_sessions: set[str] = set()
        """The sessions that were reported as idle: a process waited for their next run then."""

    async def started(self, key: RunKey) -> None:
        """Report the start of a run, and its prompt, which the server's timeline would lack otherwise.

        Raises:
            LeaseLost: The server does not know the run, or refuses its start.
            CoordinatorUnavailable: The server does not answer.
        """
        answer = await self._report(key.run_id, "started")
        if not answer.is_success:
            raise LeaseLost(key, f"the server answered {answer.reason}")
        self._told.setdefault(key, Told(result_in_doubt=False, end_in_doubt=False))
        if (assignment := self.held.get(key.run_id)) is not None:
            self.idle_sessions.discard(assignment.session.session_id)
            await self._tell_question(self._told[key], assignment)

    async def events(self, batch: EventBatch) -> int:
        """Send events, one after the other, and return the `seq` of the last stored one."""
        told = self._told.setdefault(batch.key, Told())
        for seq, line in enumerate(batch.lines, batch.first_seq):
            if seq <= told.through_seq:
                continue
            try:
                await self._send(told, seq, _parsed(line))
            except (CoordinatorUnavailable, Refused):
                if told.through_seq < batch.first_seq:
                    raise
                return told.through_seq
            told.through_seq = seq
        return batch.last_seq

    async def terminal(self, key: RunKey, seq: int, line: bytes, *, stays: bool) -> None:
        """Report the end of a run, unless it is stored already, and whether a process waits for the next run."""
        told = self._told.setdefault(key, Told())
        event = _parsed(line)
        session_status = "idle" if stays else "finished"
        match event.body:
            case Result():
                step, fields, status = "completed", {"status": "success", "session_status": session_status}, "completed"
            case Failure(status="cancelled"):
                step, fields, status = "stopped", {"signal": "SIGTERM"}, "stopped"
            case Failure(error=ErrorInfo(type=ErrorType.CANCEL_TIMEOUT)):
                step, fields, status = "stopped", {"signal": "SIGKILL"}, "stopped"
            case Failure():
                step, fields, status = "failed", {"error": error_text(event.body)}, "failed"
            case _:
                raise Refused(f"event {seq} of run {key.run_id}", "it does not end the run")
        if stays and not told.is_bound:
            await self._bind_to_process(key)
        if not (told.end_in_doubt and await self._has_ended(key, status)):
            await self._end(key, told, seq, event, step, fields)
        session_id = str(event.envelope.session_id)
        if status == "completed" and stays:
            self.idle_sessions.add(session_id)
        if status == "failed":
            await self._show_earlier_result(key.run_id)
        self.held.pop(key.run_id, None)

    async def report_end(self, run_id: str, step: str, **fields: str) -> None:
        """Report the end of a run: `completed`, `failed` or `stopped`."""
        _require_success(await self._report(run_id, step, **fields), f"the end of run {run_id}")

    async def fail(self, run_id: str, error: str) -> None:
        """Report that a run failed before it began."""
        await self.report_end(run_id, "failed", error=error)
        await self._show_earlier_result(run_id)

    async def _report(self, run_id: str, step: str, **fields: str) -> ServerReply:
        return await self._enrolment.say(f"/runner/runs/{quote(run_id, safe='')}/{step}", **fields)

    async def status(self, run_id: str) -> str | None:
        """Return the server's status of a run; None if it is unknown."""
        found = (await self._run(run_id)).get("status")
        return found if isinstance(found, str) else None

    async def session_ended(self, session_id: str, status: Literal["finished", "failed"]) -> None:
        """Report the status of a session without a run. A refusal of the server is ignored."""
        await self._enrolment.say(f"/runner/sessions/{quote(session_id, safe='')}/status", status=status)

    def forget(self, key: RunKey) -> None:
        """Drop the state of an attempt."""
        self._told.pop(key, None)
        self.held.pop(key.run_id, None)

    async def _run(self, run_id: str) -> JsonObject:
        answer = await self._enrolment.ask("GET", f"/runs/{quote(run_id, safe='')}")
        return answer.document if answer.is_success else {}

    async def _show_earlier_result(self, run_id: str) -> None:
        """After a failed run, if it was a resume, make the earlier result of its session readable again.

        The server shows no result of a `failed` session, and never delivers callbacks to it.
        """
        run = await self._run(run_id)
        session_id = run.get("session_id")
        if run.get("type") != "resume_session" or not isinstance(session_id, str):
            return
        await self.session_ended(session_id, "finished")
        answer = await self._enrolment.ask("GET", f"/sessions/{quote(session_id, safe='')}/result")
        if answer.status == 404:
            await self.session_ended(session_id, "failed")

    async def _bind_to_process(self, key: RunKey) -> None:
        """Bind the session of an executor that emits no `session_bound`, because a process waits for its next run here.

        The server resumes a session only if it is bound, and sends the resume to the host that it is bound to.
        """
        assignment = self.held.get(key.run_id)
        if assignment is None or assignment.session.executor_session_id is not None:
            return
        session_id = assignment.session.session_id
        bound = SessionBound(executor_session_id=f"{assignment.session.executor_name}-{session_id}")
        await self._bind(session_id, bound, f"the end of run {key.run_id}")

    async def _tell_question(self, told: Told, assignment: Assignment) -> None:
        session, run = assignment.session, assignment.run
        fields = user_message(session.blueprint, run.parameters, is_start=run.mode == "start")
        if fields is None:
            return
        session_id = session.session_id
        if told.stamp[0] != QUESTION_SEQ:
            now = datetime.now(UTC).isoformat()
            told.stamp = (QUESTION_SEQ, self._clocks.stamp(session_id, now))
        document: JsonObject = {**fields, "session_id": session_id, "timestamp": told.stamp[1]}
        answer = await self._enrolment.ask("POST", f"/sessions/{quote(session_id, safe='')}/events", document)
        if not answer.is_success:
            self._tell(f"the server refuses the prompt of run {assignment.key.run_id}: {answer.reason}")

    async def _end(self, key: RunKey, told: Told, seq: int, event: Event, step: str, fields: dict[str, str]) -> None:
        if isinstance(event.body, Result):
            await self._send_result(told, seq, event)
        try:
            await self.report_end(key.run_id, step, **fields)
        except Unanswered as error:
            told.end_in_doubt = told.end_in_doubt or error.in_doubt
            raise

    async def _send_result(self, told: Told, seq: int, event: Event) -> None:
        if told.through_seq >= seq or (told.result_in_doubt and await self._has_result(told, seq, event)):
            return
        try:
            await self._send(told, seq, event)
        except Unanswered as error:
            told.result_in_doubt = told.result_in_doubt or error.in_doubt
            raise
        told.through_seq = seq

    async def _send(self, told: Told, seq: int, event: Event) -> None:
        what = f"event {seq} ({event.body.event_type}) of run {event.envelope.run_id}"
        session_id = event.envelope.session_id
        if session_id is None:
            raise Refused(what, "it names no session")
        path = f"/sessions/{quote(session_id, safe='')}"
        if isinstance(event.body, SessionBound):
            await self._bind(session_id, event.body, what)
            told.is_bound = True
            return
        fields = older_event(event.body)
        if fields is None:
            return
        if isinstance(event.body, Result) and fields["result_data"] is not event.body.result_data:
            self._tell(f"the result of run {event.envelope.run_id} is not an object; sent as {{{WRAPPED!r}: …}}")
        document: JsonObject = {**fields, "session_id": session_id, "timestamp": self._stamp(told, seq, event)}
        _require_success(await self._enrolment.ask("POST", f"{path}/events", document), what)

    async def _bind(self, session_id: str, bound: SessionBound, what: str) -> None:
        binding: JsonObject = {
            "executor_session_id": bound.executor_session_id,
            "hostname": self._identity.hostname,
            "executor_profile": self._identity.profile,
            "project_dir": bound.project_dir or self._identity.project_dir,
        }
        answer = await self._enrolment.ask("POST", f"/sessions/{quote(session_id, safe='')}/bind", binding)
        _require_success(answer, what)

    async def _has_ended(self, key: RunKey, status: str) -> bool:
        """Return whether the server has this end of the run already.

        Raises:
            LeaseLost: The server has another end of the run.
        """
        found = await self.status(key.run_id)
        if found in ENDED and found != status:
            self.held.pop(key.run_id, None)
            raise LeaseLost(key, f"the server says that the run is {found}, not {status}")
        return found == status

    async def _has_result(self, told: Told, seq: int, event: Event) -> bool:
        """Return whether the server has this result already, among the first hundred events of the session."""
        stamp = self._stamp(told, seq, event)
        session_id = str(event.envelope.session_id)
        answer = await self._enrolment.ask("GET", f"/sessions/{quote(session_id, safe='')}/events")
        rows = answer.document.get("events", answer.body)
        ours = {"event_type": "result", "timestamp": stamp}
        return isinstance(rows, list) and any(isinstance(row, dict) and row.items() >= ours.items() for row in rows)

    def _stamp(self, told: Told, seq: int, event: Event) -> str:
        if told.stamp[0] != seq:
            told.stamp = (seq, self._clocks.stamp(str(event.envelope.session_id), event.envelope.timestamp))
        return told.stamp[1]


def _parsed(line: bytes) -> Event:
    try:
        return parse_event(line)
    except InvalidEvent as error:
        raise Refused("an event", str(error)) from error


def _require_success(answer: ServerReply, what: str) -> None:
    if not answer.is_success:
        raise Refused(what, answer.reason)
