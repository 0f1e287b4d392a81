"""The requests of runs to a person, and their answers, of which the first counts (SPEC 8.3)."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ao_protocol.lifecycle import REQUEST_EVENTS
from ao_protocol.raw_events import events_of_types
from ao_protocol.wire import JsonObject
from ao_runner.store.engine import Engine, Row, json_object, reading

_WAITS: Final = (
    "answer IS NULL AND (outcome IS NULL OR parked = 1)"  # the condition of the index
    " AND EXISTS (SELECT 1 FROM runs AS asking WHERE asking.run_id = inputs.run_id"
    " AND (asking.status = 'running' OR (parked = 1 AND asking.error_type = 'input_required' AND NOT EXISTS"
    " (SELECT 1 FROM runs AS later WHERE later.session_id = asking.session_id AND later.rowid > asking.rowid))))"
)
"""An answer would count: the run goes on, or it was parked and is still the last one of its session."""
_COLUMNS: Final = (
    "inputs.run_id, request_id, asked_at, fields, answer, outcome, answered_by, parked, runs.session_id,"  # noqa: S608  # own words
    " (SELECT agent_name FROM sessions WHERE sessions.session_id = runs.session_id),"
    f" CASE WHEN {_WAITS} THEN 1 ELSE 0 END"
)
_JOINED: Final = "inputs JOIN runs ON runs.run_id = inputs.run_id"
MOST_LISTED: Final = 1000


@dataclass(frozen=True, slots=True)
class StoredRequest:
    """A request of a run to a person."""

    run_id: str
    request_id: str
    asked_at: str
    fields: JsonObject
    """The fields of its `input_requested` event."""
    answer: JsonObject | None
    """The answer that counts, if there is one."""
    outcome: str | None
    """How the executor resolved it; None while it is open."""
    answered_by: str | None
    """Who gave the answer."""
    is_parked: bool
    """Whether its run ended so that an answer continues it."""
    session_id: str
    agent_name: str
    is_waiting: bool
    """Whether an answer would count."""


class InputTable(Engine):
    """The queries about requests."""

    def note_requests(self, run_id: str, lines: Sequence[bytes]) -> None:
        """Store the requests that events of a run open and resolve. Repeated events change nothing."""
        for event in events_of_types(lines, REQUEST_EVENTS):
            if event["event_type"] == "input_requested":
                fields = {name: value for name, value in event.items() if name not in _ENVELOPE}
                self.write(
                    "INSERT INTO inputs (run_id, request_id, asked_at, fields, parked) VALUES (?, ?, ?, ?, 0)"
                    " ON CONFLICT (run_id, request_id) DO UPDATE SET asked_at = excluded.asked_at,"
                    " fields = excluded.fields",
                    (run_id, event["request_id"], event["timestamp"], json.dumps(fields, ensure_ascii=False)),
                )
            else:
                self.write(
                    "UPDATE inputs SET outcome = ? WHERE run_id = ? AND request_id = ?",
                    (event["outcome"], run_id, event["request_id"]),
                )

    def answer_request(self, run_id: str, request_id: str, answer: JsonObject, by: str) -> bool:
        """Store the answer to a request, and return whether it counts: it is the first, and the request still waits."""
        changed = self.write(
            f"UPDATE inputs SET answer = ?, answered_by = ? WHERE run_id = ? AND request_id = ? AND {_WAITS}",  # noqa: S608
            (json.dumps(answer, ensure_ascii=False), by, run_id, request_id),
        )
        return changed == 1

    def decide_request(
        self, run_id: str, request_id: str, answer: JsonObject | None, now: str, by: str | None = None
    ) -> JsonObject | None:
        """Store what the runner of a run decides, as a step of a transaction, and return the answer that counts.

        Args:
            run_id: The run.
            request_id: The request, whose event may not be stored yet.
            answer: The answer; None lets the request wait for one beyond the end of its run.
            now: The time.
            by: The person who answers; None if nobody did in time.

        Returns:
            The stored answer; None if there is none, and the request is parked.
        """
        text = None if answer is None else json.dumps(answer, ensure_ascii=False)
        self.write(
            "INSERT INTO inputs (run_id, request_id, asked_at, fields, answer, answered_by, parked)"
            " VALUES (?, ?, ?, '{}', ?, ?, ?) ON CONFLICT (run_id, request_id) DO UPDATE"
            " SET answer = excluded.answer, answered_by = excluded.answered_by, parked = excluded.parked"
            " WHERE inputs.answer IS NULL AND inputs.outcome IS NULL",
            (run_id, request_id, now, text, by, int(answer is None)),
        )
        ((stored,),) = self.fetch("SELECT answer FROM inputs WHERE run_id = ? AND request_id = ?", (run_id, request_id))
        return None if stored is None else json_object("answer", stored)

    def requests_of(self, run_id: str) -> list[StoredRequest]:
        """Return the requests of a run in their order."""
        return self._requests("WHERE inputs.run_id = ? ORDER BY asked_at", run_id)

    def waiting_requests(self) -> list[StoredRequest]:
        """Return the requests whose answer would count, oldest first, at most `MOST_LISTED`."""
        return self._requests(f"WHERE {_WAITS} ORDER BY asked_at LIMIT {MOST_LISTED}")

    def answers_for(self, owner: str) -> list[StoredRequest]:
        """Return the answered requests of an owner's running runs that the executor has not resolved."""
        clause = "WHERE answer IS NOT NULL AND outcome IS NULL AND parked = 0"  # a parked one is answered by a resume
        clause += " AND runs.status = 'running' AND runs.owner = ?"
        return self._requests(clause, owner)

    def _requests(self, clause: str, *values: str) -> list[StoredRequest]:
        return self.rows("request", (_COLUMNS, _JOINED, clause), values, _request_of, self.damage)


_ENVELOPE: Final = frozenset({"event_type", "session_id", "run_id", "seq", "timestamp"})


def _request_of(row: Row) -> StoredRequest:
    run_id, request_id, asked_at, fields, answer, outcome, answered_by, parked, session_id, agent_name, waits = row
    with reading("request", row):
        return StoredRequest(
            run_id,
            request_id,
            asked_at,
            json_object("fields", fields),
            None if answer is None else json_object("answer", answer),
            outcome,
            answered_by,
            bool(parked),
            session_id,
            agent_name or "",
            bool(waits),
        )
