"""The errors of the outbox."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ao_runner.errors import RunnerError


class OutboxError(RunnerError):
    """The outbox refused or could not perform an operation."""


@dataclass(eq=False)
class _FolderFailed(OutboxError):
    folder: Path
    reason: str = ""
    sentence: ClassVar[str]

    def __str__(self) -> str:
        return self.sentence.format(folder=self.folder, reason=self.reason)


class OutboxBusy(_FolderFailed):
    """Another process owns the folder."""

    sentence = "another process uses the outbox {folder}. Stop it, or choose another folder"


class OutboxUnusable(_FolderFailed):
    """The folder cannot be opened, read or repaired."""

    sentence = "cannot use the outbox {folder}: {reason}. Repair it, or choose another folder"


class OldOutbox(OutboxUnusable):
    """The folder contains an outbox in an earlier format; `reason` names a file of it."""

    sentence = (
        "{folder}/{reason} is of an earlier form of the outbox, which this version does not read. Deliver its events "
        "with the version that wrote it, or move {folder} away and keep it: the events in its *.jsonl are readable "
        "lines. Then start again"
    )


class OutboxUnwritable(_FolderFailed):
    """The disk did not accept a write. Nothing is lost from memory, and the next attempt tries again."""

    sentence = (
        "cannot write to the outbox {folder}: {reason}. Nothing was lost yet: make room on its disk or repair it, it "
        "is tried again"
    )


class OutboxUnreadable(_FolderFailed):
    """The disk did not return data that was written. The data may still exist, so nothing counts as lost."""

    sentence = "cannot read from the outbox {folder}: {reason}. Repair what hinders it, and try again"


class StateDamaged(_FolderFailed):
    """The file is damaged, and the coordinator does not know the runs in it, so that nobody would end them."""

    sentence = (
        "the outbox {folder} is damaged: {reason}. Only it listed the runs of the dead worker, so it is not replaced "
        "automatically. Delete {folder}/lock and start again: a new one begins without its events, and what is left of "
        "the damaged file is kept. Then end the runs that the coordinator still lists as running"
    )


class OutboxFull(OutboxError):
    """Adding these events would exceed the quota; none was added."""


class RecordDamaged(OutboxError):
    """Durable data can no longer be read as it was written. `to_seq` is the last event that is lost."""

    def __init__(self, message: str, to_seq: int) -> None:
        super().__init__(message)
        self.to_seq = to_seq
