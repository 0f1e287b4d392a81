"""A store that makes events durable before they are sent."""

from ao_runner.outbox.errors import (
    OutboxBusy,
    OutboxError,
    OutboxFull,
    OutboxUnreadable,
    OutboxUnusable,
    OutboxUnwritable,
    RecordDamaged,
    StateDamaged,
)
from ao_runner.outbox.events_of_key import Batch, KeyState
from ao_runner.outbox.outbox import Outbox, OutboxOptions
from ao_runner.outbox.owning import holds_leftovers, is_left_behind

__all__ = [
    "Batch",
    "KeyState",
    "Outbox",
    "OutboxBusy",
    "OutboxError",
    "OutboxFull",
    "OutboxOptions",
    "OutboxUnreadable",
    "OutboxUnusable",
    "OutboxUnwritable",
    "RecordDamaged",
    "StateDamaged",
    "holds_leftovers",
    "is_left_behind",
]
