"""The requests of runs to a person, and their answers, of which the first counts (SPEC 8.3)."""

import json
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from ao_protocol.wire import JsonObject
from ao_runner.store.columns import FLAG, OBJECT, Row, Stored, json_object
from ao_runner.store.engine import Part

_WAITS: Final = (
    "answer IS NULL AND (outcome IS NULL OR parked = 1)"  # the condition of the index
    " AND EXISTS (SELECT 1 FROM runs AS asking WHERE asking.run_id = inputs.run_id"
    " AND (asking.status = 'running' OR (parked = 1 AND asking.error_type = 'input_required' AND NOT EXISTS"
    " (SELECT 1 FROM runs AS later WHERE later.session_id = asking.session_id AND later.rowid > asking.rowid))))"
)
"""An answer would count: the run goes on, or it was parked and is still the last one of its session."""
_UNTOLD: Final = f"told IS NULL AND fields <> '{{}}' AND {_WAITS}"
_EXPRESSIONS: Final = {
    "run_id": "inputs.run_id",
    "is_parked": "parked",
    "session_id": "runs.session_id",
    "agent_name": "coalesce((SELECT agent_name FROM sessions WHERE sessions.session_id = runs.session_id), '')",
    "is_waiting": f"CASE WHEN {_WAITS} THEN 1 ELSE 0 END",
}
MOST_LISTED: Final = 1000


@dataclass(frozen=True, slots=True)
class StoredRequest:
    """A request of a run to a person."""

    run_id: str
    request_id: str
    asked_at: str
    fields: JsonObject = field(metadata=OBJECT)
    """The fields of its `input_requested` event."""
    answer: JsonObject | None = field(metadata=OBJECT)
    """The answer that counts, if there is one."""
    outcome: str | None
    """How the executor resolved it; None while it is open."""
    answered_by: str | None
    """Who gave the answer."""
    is_parked: bool = field(metadata=FLAG)
    """Whether its run ended so that an answer continues it."""
    session_id: str
    agent_name: str
    is_waiting: bool = field(metadata=FLAG)
    """Whether an answer would count."""


_REQUEST: Final = Stored("request", StoredRequest)


class InputTable(Part):
    """The requests to a person."""

    def note(self, run_id: str, event: JsonObject) -> None:
        """Store the request that an event of a run opens, or its end. A repeated event changes nothing."""
        if event["event_type"] == "input_requested":
            fields = {name: value for name, value in event.items() if name not in _ENVELOPE}
            self._db.write(
                "INSERT INTO inputs (run_id, request_id, asked_at, fields, parked) VALUES (?, ?, ?, ?, 0)"
                " ON CONFLICT (run_id, request_id) DO UPDATE SET asked_at = excluded.asked_at,"
                " fields = excluded.fields",
                (run_id, event["request_id"], event["timestamp"], json.dumps(fields, ensure_ascii=False)),
            )
        else:
            self._db.write(
                "UPDATE inputs SET outcome = ? WHERE run_id = ? AND request_id = ?",
                (event["outcome"], run_id, event["request_id"]),
            )

    def answer(self, run_id: str, request_id: str, answer: JsonObject, by: str) -> bool:
        """Store the answer to a request, and return whether it counts: it is the first, and the request still waits."""
        changed = self._db.write(
            f"UPDATE inputs SET answer = ?, answered_by = ? WHERE run_id = ? AND request_id = ? AND {_WAITS}",  # noqa: S608
            (json.dumps(answer, ensure_ascii=False), by, run_id, request_id),
        )
        return changed == 1

    def decide(
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
        self._db.write(
            "INSERT INTO inputs (run_id, request_id, asked_at, fields, answer, answered_by, parked)"
            " VALUES (?, ?, ?, '{}', ?, ?, ?) ON CONFLICT (run_id, request_id) DO UPDATE"
            " SET answer = excluded.answer, answered_by = excluded.answered_by, parked = excluded.parked"
            " WHERE inputs.answer IS NULL AND inputs.outcome IS NULL",
            (run_id, request_id, now, text, by, int(answer is None)),
        )
        ((stored,),) = self._db.fetch(
            "SELECT answer FROM inputs WHERE run_id = ? AND request_id = ?", (run_id, request_id)
        )
        return None if stored is None else json_object("answer", stored)

    def are_untold(self) -> bool:
        """Return whether a request waits that nobody was told of. One whose event is not stored yet does not count."""
        return bool(self._db.fetch(f"SELECT 1 FROM inputs WHERE {_UNTOLD} LIMIT 1"))  # noqa: S608  # own words

    def mark_untold(self) -> list[Row]:
        """Mark the waiting requests that nobody was told of, and return the run, its agent, and the id of each."""
        agent = "SELECT agent_name FROM sessions JOIN runs ON runs.session_id = sessions.session_id"
        return self._db.fetch(
            f"UPDATE inputs SET told = 1 WHERE {_UNTOLD}"  # noqa: S608  # own words
            f" RETURNING run_id, ({agent} WHERE runs.run_id = inputs.run_id), request_id"
        )

    def of_run(self, run_id: str) -> list[StoredRequest]:
        """Return the requests of a run in their order."""
        return self._requests("WHERE inputs.run_id = ? ORDER BY asked_at", run_id)

    def asking(self, run_ids: Collection[str]) -> set[str]:
        """Return those of some runs that have a request whose answer would count."""
        if not run_ids:
            return set()
        condition = f"run_id {self._db.among_sql} AND {_WAITS}"
        found = self._db.fetch(f"SELECT DISTINCT run_id FROM inputs WHERE {condition}", (self._db.listed(run_ids),))  # noqa: S608
        return {str(run_id) for (run_id,) in found}

    def waiting(self) -> list[StoredRequest]:
        """Return the requests whose answer would count, oldest first, at most `MOST_LISTED`."""
        return self._requests(f"WHERE {_WAITS} ORDER BY asked_at LIMIT {MOST_LISTED}")

    def answers_for(self, owner: str) -> list[StoredRequest]:
        """Return the answered requests of an owner's running runs that the executor has not resolved."""
        clause = "WHERE answer IS NOT NULL AND outcome IS NULL AND parked = 0"  # a parked one is answered by a resume
        clause += " AND runs.status = 'running' AND runs.owner = ?"
        return self._requests(clause, owner)

    def _requests(self, clause: str, *values: str) -> list[StoredRequest]:
        source = f"inputs JOIN runs ON runs.run_id = inputs.run_id {clause}"
        return self._db.records(_REQUEST, source, values, _EXPRESSIONS)


_ENVELOPE: Final = frozenset({"event_type", "session_id", "run_id", "seq", "timestamp"})
