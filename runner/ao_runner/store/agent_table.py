"""Agents that are kept in a store, and the answers to requests that may be repeated."""

import json
from dataclasses import dataclass, field
from typing import Final, Literal

from ao_protocol.wire import JsonObject
from ao_runner.store.columns import OBJECT, Stored, json_object
from ao_runner.store.engine import Part
from ao_runner.store.records import timestamp

AgentStatus = Literal["active", "inactive"]


@dataclass(frozen=True, slots=True)
class StoredAgent:
    """An agent under its name. Each run has a copy of the document as it was at the begin of its session."""

    name: str
    document: JsonObject = field(metadata=OBJECT)
    """A blueprint, and the settings of its runs: `profile`, `executor_config`, `demands`, `tags`."""
    status: AgentStatus
    created_at: str
    modified_at: str


_AGENT: Final = Stored("agent", StoredAgent)


class AgentTable(Part):
    """The agents, under their names."""

    def put(self, agent: StoredAgent) -> None:
        """Store an agent, or replace the one with its name, which keeps its time of creation."""
        self._db.write(
            "INSERT INTO agents (name, document, status, created_at, modified_at) VALUES (?, ?, ?, ?, ?)"
            " ON CONFLICT (name) DO UPDATE SET document = excluded.document, status = excluded.status,"
            " modified_at = excluded.modified_at",
            (agent.name, json.dumps(agent.document), agent.status, agent.created_at, agent.modified_at),
        )

    def find(self, name: str) -> StoredAgent | None:
        """Return the agent with a name.

        Raises:
            RowDamaged: The agent cannot be read.
        """
        return self._db.record(_AGENT, "agents WHERE name = ?", (name,))

    def all(self) -> list[StoredAgent]:
        """Return all agents by name. Damaged rows go to `damage`."""
        return self._db.records(_AGENT, "agents ORDER BY name")

    def delete(self, name: str) -> bool:
        """Delete an agent, and return whether there was one. Its runs stay."""
        return self._db.write("DELETE FROM agents WHERE name = ?", (name,)) > 0


class AnswerTable(Part):
    """The answers to repeatable requests, under their idempotency keys."""

    def find(self, key: str) -> tuple[str, JsonObject] | None:
        """Return the digest of the request with an idempotency key, and the answer to it."""
        rows = self._db.fetch("SELECT digest, answer FROM answers WHERE key = ?", (key,))
        return (rows[0][0], json_object("answer", rows[0][1])) if rows else None

    def put(self, key: str, digest: str, answer: JsonObject) -> None:
        """Store the answer to a request with an idempotency key.

        Raises:
            ConstraintBroken: There is one already.
        """
        self._db.insert(
            "answers", {"key": key, "digest": digest, "answer": json.dumps(answer), "created_at": timestamp()}
        )

    def forget(self, before: str) -> int:
        """Delete the answers from before a time, and return their number."""
        return self._db.write("DELETE FROM answers WHERE created_at < ?", (before,))
