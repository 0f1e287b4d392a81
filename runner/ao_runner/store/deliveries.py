"""What has to be told of ended runs: callbacks to parent sessions, and messages to webhooks."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from ao_runner.store.columns import OBJECT_OR_NONE, Stored
from ao_runner.store.engine import Part
from ao_runner.store.notices import EventName, Notice, NoticeTable

ENDS_AT_ONCE: Final = 200
CHILDREN_AT_ONCE: Final = 100
"""Maximum number of children of which a parent hears in one turn."""
PARENTS_AT_ONCE: Final = 100
DeliveryKind = Literal["callback", "webhook"]


@dataclass(frozen=True, slots=True)
class Webhook:
    """A URL to which events are sent, signed with a secret."""

    webhook_id: str
    url: str
    secret: str = field(repr=False)
    created_at: str
    settings: dict[str, Any] = field(metadata=OBJECT_OR_NONE, default_factory=dict)
    """Of which `events` and `agents` it hears, in which `format`, and the `address` of the server in links."""
    delivered_at: str | None = None
    """The time of the last delivery."""

    @property
    def events(self) -> Collection[str]:
        """The events of which it hears."""
        events: Collection[str] = self.settings.get("events") or ("run.ended",)
        return events

    def wants(self, event: EventName, agent_name: str) -> bool:
        """Return whether it hears of an event of an agent; the name is empty if the event is of none."""
        agents = self.settings.get("agents")
        return event in self.events and (not agents or not agent_name or agent_name in agents)


@dataclass(frozen=True, slots=True)
class AwaitedDelivery:
    """The end of a run, or a notice, that a receiver has not heard of yet."""

    run_id: str
    """The run, or the notice."""
    since: str
    """The time from which it is tried."""
    tries: int
    next_at: str | None
    """The time of the next try; None if it is given up."""
    problem: str | None
    """What was wrong with the last try."""


@dataclass(frozen=True, slots=True)
class GivenUp:
    """The end of a run of which a receiver will not hear, unless somebody repeats it."""

    kind: DeliveryKind
    target: str
    """The parent session, or the webhook."""
    run_id: str
    problem: str


_WEBHOOK: Final = Stored("webhook", Webhook)
_DELIVERY: Final = Stored("delivery", AwaitedDelivery)
_GIVEN_UP: Final = Stored("delivery", GivenUp)


@dataclass(eq=False)
class DeliveryTable(Part):
    """The deliveries: ends of runs and notices that a parent session or a webhook has not heard of yet."""

    _webhooks: "WebhookTable"
    _notices: NoticeTable

    def is_end_awaited(self, run_id: str) -> bool:
        """Return whether a server has something to do at the end of a run, so that it should be notified."""
        return bool(self._db.fetch(_AWAITED, (run_id,)))

    def given_up(self, since: str, run_id: str | None = None) -> list[GivenUp]:
        """Return some deliveries that were given up, of all runs or of one, the newest first.

        Args:
            since: The earliest time from which they were tried.
            run_id: The run that they are about.
        """
        return self._db.records(_GIVEN_UP, _ARE_GIVEN_UP, (since, run_id), {"problem": "coalesce(problem, '')"})

    def unannounced_ends(self) -> bool:
        """Return whether a run has ended whose end was not announced."""
        return bool(self._db.fetch(_ENDS.format(most=1, lock="")))

    def announce_ends(self, now: str) -> int:
        """Add the deliveries for some ended runs, as a step of a transaction, and return the number of these runs.

        Runs that another process announces at the same time are left out. A run that was queued again as a copy resumes
        no parent, since its copy does.
        """
        rows = self._db.fetch(_ENDS.format(most=ENDS_AT_ONCE, lock=self._db.claim_lock_sql))
        if not rows:
            return 0
        run_ids, among = self._db.listed([run_id for (run_id,) in rows]), self._db.among_sql
        self._db.write(_ADD_CALLBACKS.format(among=among), (now, now, run_ids))
        messages: list[tuple[Webhook, str]] = []
        notices = []
        webhooks = self._locked_webhooks()
        for run_id, agent_name, ended_at, has_failed in self._db.fetch(_ENDED.format(among=among), (run_ids,)):
            told = (one for one in webhooks if ended_at is None or one.created_at <= ended_at)
            messages += [(one, run_id) for one in told if one.wants("run.ended", agent_name)]
            if has_failed:
                notices.append(Notice.new(now, "run.failed", agent_name, run_id))
        self._add_messages(messages, now)
        self.tell_of(notices, now)
        self._db.write(f"UPDATE runs SET announced = 1 WHERE run_id {among}", (run_ids,))  # noqa: S608  # own words
        return len(rows)

    def tell_of(self, notices: Sequence[Notice], now: str) -> None:
        """Store notices and their deliveries to the webhooks, as a step of a transaction."""
        if notices:
            self._notices.add(notices)
            webhooks = self._locked_webhooks()
            told = [(one, notice) for notice in notices for one in webhooks]
            wanted = [(one, about) for one, about in told if one.wants(about.event, about.agent_name)]
            self._add_messages([(one, notice.notice_id) for one, notice in wanted], now)

    def _add_messages(self, messages: Sequence[tuple[Webhook, str]], now: str) -> None:
        """Store deliveries of ends of runs, or notices, to webhooks."""
        common = {"kind": "webhook", "since": now, "tries": 0, "next_at": now}
        rows = ({**common, "target": webhook.webhook_id, "run_id": about} for webhook, about in messages)
        self._db.insert("deliveries", *rows)

    def _locked_webhooks(self) -> list[Webhook]:
        """Return the webhooks, of which none is deleted before the end of the transaction."""
        self._db.fetch(f"SELECT webhook_id FROM webhooks{self._db.lock_sql}")  # noqa: S608  # own words
        return self._webhooks.all()

    def parents_to_resume(self) -> list[str]:
        """Return some parents with waiting callbacks whose turn has completed, or that were deleted."""
        return [target for (target,) in self._db.fetch(_PARENTS)]

    def hold_waiting(self, parent_session_id: str) -> list[str] | None:
        """Lock a parent session for the rest of the transaction, and return some runs of which it has to hear now.

        Returns:
            None if the parent was deleted, and no run if it is not to be resumed now.
        """
        locked = f"SELECT 1 FROM sessions WHERE session_id = ?{self._db.lock_sql}"  # noqa: S608  # own words
        if not self._db.fetch(locked, (parent_session_id,)):
            return None
        ((has_completed,),) = self._db.fetch(_PARENT, (parent_session_id,))
        return [run_id for (run_id,) in self._db.fetch(_WAITING, (parent_session_id,))] if has_completed else []

    def forget(self, session_id: str) -> None:
        """Delete the deliveries to a session, and those about its runs."""
        self._db.write("DELETE FROM deliveries WHERE kind = 'callback' AND target = ?", (session_id,))
        of_session = "run_id IN (SELECT run_id FROM runs WHERE session_id = ?)"
        notices = f"SELECT notice_id FROM notices WHERE {of_session}"  # noqa: S608  # own words
        for statement in (
            f"DELETE FROM deliveries WHERE run_id IN ({notices})",  # noqa: S608  # own words
            f"DELETE FROM notices WHERE {of_session}",  # noqa: S608  # own words
            f"DELETE FROM deliveries WHERE {of_session}",  # noqa: S608  # own words
        ):
            self._db.write(statement, (session_id,))

    def end(self, kind: DeliveryKind, target: str, run_ids: Sequence[str]) -> None:
        """Delete deliveries, because they succeeded or their receiver is gone."""
        statement = f"DELETE FROM deliveries WHERE kind = ? AND target = ? AND run_id {self._db.among_sql}"  # noqa: S608
        self._db.write(statement, (kind, target, self._db.listed(run_ids)))

    def put_off(
        self, kind: DeliveryKind, target: str, run_ids: Sequence[str], next_at: str | None, problem: str
    ) -> None:
        """Store what was wrong with deliveries, and the time of their next try; None gives them up."""
        self._db.write(
            "UPDATE deliveries SET next_at = ?, problem = ? WHERE kind = ? AND target = ?"  # noqa: S608  # own words
            f" AND run_id {self._db.among_sql}",
            (next_at, problem, kind, target, self._db.listed(run_ids)),
        )

    def all(self, kind: DeliveryKind, target: str, most: int) -> list[AwaitedDelivery]:
        """Return the deliveries to a receiver that wait or are given up, oldest first."""
        source = f"deliveries WHERE kind = ? AND target = ? ORDER BY since, run_id LIMIT {most:d}"
        return self._db.records(_DELIVERY, source, (kind, target))


class WebhookTable(Part):
    """The webhooks, and the deliveries to them."""

    def claim_messages(self, webhook_id: str, now: str, until: str, most: int) -> list[AwaitedDelivery]:
        """Return the deliveries to a webhook that are due, as a step of a transaction. They are due again at `until`.

        Each has one more try then, so that a sender that dies has no influence on the others.
        """
        self._db.fetch(f"SELECT 1 FROM webhooks WHERE webhook_id = ?{self._db.lock_sql}", (webhook_id,))  # noqa: S608  # own
        run_ids = [run_id for (run_id,) in self._db.fetch(_DUE_MESSAGES.format(most=most), (webhook_id, now))]
        rows = self._db.fetch(
            "UPDATE deliveries SET tries = tries + 1, next_at = ? WHERE kind = 'webhook' AND target = ?"  # noqa: S608
            f" AND run_id {self._db.among_sql} RETURNING {_DELIVERY.columns()}",
            (until, webhook_id, self._db.listed(run_ids)),
        )
        return [AwaitedDelivery(*row) for row in rows]

    def retry_message(self, webhook_id: str, run_id: str, now: str) -> bool:
        """Make a delivery to a webhook due again, as if it had not been tried; return whether there is such a one."""
        return (
            self._db.write(
                "UPDATE deliveries SET since = ?, next_at = ?, tries = 0"
                " WHERE kind = 'webhook' AND target = ? AND run_id = ?",
                (now, now, webhook_id, run_id),
            )
            > 0
        )

    def add(self, webhook: Webhook) -> None:
        """Store a webhook."""
        self._db.insert("webhooks", _WEBHOOK.values(webhook))

    def note_delivered(self, webhook_id: str, now: str) -> None:
        """Store the time of the last delivery to a webhook."""
        self._db.write("UPDATE webhooks SET delivered_at = ? WHERE webhook_id = ?", (now, webhook_id))

    def all(self) -> list[Webhook]:
        """Return all webhooks, oldest first."""
        return self._db.records(_WEBHOOK, "webhooks ORDER BY created_at, webhook_id")

    def find(self, webhook_id: str) -> Webhook | None:
        """Return the webhook with an id."""
        return self._db.record(_WEBHOOK, "webhooks WHERE webhook_id = ?", (webhook_id,))

    def due(self, now: str) -> list[Webhook]:
        """Return the webhooks with a delivery that is due."""
        return self._db.records(_WEBHOOK, _DUE_WEBHOOKS, (now,))

    def delete(self, webhook_id: str) -> bool:
        """Delete a webhook and its deliveries, as a step of a transaction; return whether there was one."""
        is_found = self._db.write("DELETE FROM webhooks WHERE webhook_id = ?", (webhook_id,)) > 0
        self._db.write("DELETE FROM deliveries WHERE kind = 'webhook' AND target = ?", (webhook_id,))
        return is_found


_ENDS: Final = """
SELECT run_id FROM runs WHERE announced = 0 AND status IN ('completed', 'failed', 'cancelled') LIMIT {most}{lock}
"""
_AWAITED: Final = """
SELECT 1 FROM runs WHERE run_id = ? AND (
    execution_mode = 'async_callback' OR EXISTS (SELECT 1 FROM webhooks) OR EXISTS (
        SELECT 1 FROM deliveries WHERE kind = 'callback' AND target = runs.session_id AND next_at IS NOT NULL))
"""
_ARE_GIVEN_UP: Final = f"""
deliveries WHERE next_at IS NULL AND since >= ? AND run_id = coalesce(?, run_id)
ORDER BY since DESC LIMIT {CHILDREN_AT_ONCE}
"""
_ADD_CALLBACKS: Final = """
INSERT INTO deliveries (kind, target, run_id, since, tries, next_at)
SELECT 'callback', parent_session_id, run_id, ?, 0, ? FROM runs WHERE run_id {among}
AND execution_mode = 'async_callback' AND parent_session_id <> session_id
AND NOT EXISTS (SELECT 1 FROM runs AS copies WHERE copies.succeeds = runs.run_id)
"""
_ENDED: Final = """
SELECT run_id, agent_name, ended_at, CASE WHEN status = 'failed' AND coalesce(error_type, '') <> 'input_required'
AND NOT EXISTS (SELECT 1 FROM runs AS copies WHERE copies.succeeds = runs.run_id) THEN 1 ELSE 0 END
FROM runs JOIN sessions ON sessions.session_id = runs.session_id WHERE run_id {among}
"""
"""A run that waits for an answer, and one that was queued again as a copy, need nobody as a failure."""
# A subquery with LIMIT is looked up by an index for each row. Without, a planner may read the whole table instead, and
# without `|| ''` the whole queue.
_HAS_COMPLETED: Final = """
(SELECT status FROM runs WHERE runs.session_id = {session} ORDER BY rowid DESC LIMIT 1) = 'completed' AND
(SELECT 1 FROM runs WHERE runs.session_id = {session} AND status || '' IN ('queued', 'running') LIMIT 1) IS NULL
"""
_PARENTS: Final = f"""
SELECT target FROM (SELECT DISTINCT target FROM deliveries WHERE kind = 'callback' AND next_at IS NOT NULL) AS parents
WHERE (SELECT 1 FROM sessions WHERE sessions.session_id = target LIMIT 1) IS NULL
OR {_HAS_COMPLETED.format(session="target")} LIMIT {PARENTS_AT_ONCE}
"""  # noqa: S608  # own words
_PARENT: Final = f"SELECT {_HAS_COMPLETED.format(session='sessions.session_id')} FROM sessions WHERE session_id = ?"  # noqa: S608
_WAITING: Final = f"""
SELECT run_id FROM deliveries WHERE kind = 'callback' AND target = ? AND next_at IS NOT NULL
ORDER BY next_at LIMIT {CHILDREN_AT_ONCE}
"""  # noqa: S608  # own words
_DUE_WEBHOOKS: Final = """
webhooks WHERE (
    SELECT 1 FROM deliveries WHERE kind = 'webhook' AND target = webhook_id AND next_at <= ? LIMIT 1
) IS NOT NULL
"""
_DUE_MESSAGES: Final = """
SELECT run_id FROM deliveries WHERE kind = 'webhook' AND target = ? AND next_at <= ? ORDER BY next_at LIMIT {most}
"""
