"""Agents that are kept in a store, and the answers to requests that may be repeated."""

import json
from dataclasses import dataclass
from typing import Final, Literal

from ao_protocol.wire import JsonObject
from ao_runner.store.engine import Engine, Row, json_object, reading
from ao_runner.store.records import timestamp

AgentStatus = Literal["active", "inactive"]
_COLUMNS: Final = "name, document, status, created_at, modified_at"


@dataclass(frozen=True, slots=True)
class StoredAgent:
    """An agent under its name. Each run has a copy of the document as it was at the begin of its session."""

    name: str
    document: JsonObject
    """A blueprint, and the settings of its runs: `profile`, `executor_config`, `demands`, `tags`."""
    status: AgentStatus
    created_at: str
    modified_at: str


class AgentTable(Engine):
    """The queries about agents, and about answers to repeatable requests."""

    def put_agent(self, agent: StoredAgent) -> None:
        """Store an agent, or replace the one with its name, which keeps its time of creation."""
        self.write(
            "INSERT INTO agents (name, document, status, created_at, modified_at) VALUES (?, ?, ?, ?, ?)"
            " ON CONFLICT (name) DO UPDATE SET document = excluded.document, status = excluded.status,"
            " modified_at = excluded.modified_at",
            (agent.name, json.dumps(agent.document), agent.status, agent.created_at, agent.modified_at),
        )

    def find_agent(self, name: str) -> StoredAgent | None:
        """Return the agent with a name.

        Raises:
            RowDamaged: The agent cannot be read.
        """
        found = self.rows("agent", (_COLUMNS, "agents", "WHERE name = ?"), (name,), _agent)
        return found[0] if found else None

    def list_agents(self) -> list[StoredAgent]:
        """Return all agents by name. Damaged rows go to `damage`."""
        return self.rows("agent", (_COLUMNS, "agents", "ORDER BY name"), (), _agent, self.damage)

    def delete_agent(self, name: str) -> bool:
        """Delete an agent, and return whether there was one. Its runs stay."""
        return self.write("DELETE FROM agents WHERE name = ?", (name,)) > 0

    def find_answer(self, key: str) -> tuple[str, JsonObject] | None:
        """Return the digest of the request with an idempotency key, and the answer to it."""
        rows = self.fetch("SELECT digest, answer FROM answers WHERE key = ?", (key,))
        return (rows[0][0], json_object("answer", rows[0][1])) if rows else None

    def put_answer(self, key: str, digest: str, answer: JsonObject) -> None:
        """Store the answer to a request with an idempotency key.

        Raises:
            ConstraintBroken: There is one already.
        """
        self.write(
            "INSERT INTO answers (key, digest, answer, created_at) VALUES (?, ?, ?, ?)",
            (key, digest, json.dumps(answer), timestamp()),
        )

    def forget_answers(self, before: str) -> int:
        """Delete the answers from before a time, and return their number."""
        return self.write("DELETE FROM answers WHERE created_at < ?", (before,))


def _agent(row: Row) -> StoredAgent:
    with reading("agent", row):
        name, document, status, created_at, modified_at = row
        return StoredAgent(name, json_object("document", document), status, created_at, modified_at)
