"""The errors of the outbox."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ao_runner.errors import RunnerError
from ao_runner.run_events import RunKey


class OutboxError(RunnerError):
    """The outbox refused or could not perform an operation."""


@dataclass(eq=False)
class OutboxBusy(OutboxError):
    """Another process owns the folder."""

    folder: Path

    def __str__(self) -> str:
        return f"another process uses the outbox {self.folder}. Stop it, or choose another folder"


@dataclass(eq=False)
class _FolderFailed(OutboxError):
    folder: Path
    reason: str
    sentence: ClassVar[str]

    def __str__(self) -> str:
        return self.sentence.format(folder=self.folder, reason=self.reason)


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


@dataclass(eq=False)
class StateDamaged(OutboxError):
    """The file is damaged, and the coordinator does not know the runs in it, so that nobody would end them."""

    folder: Path
    reason: str

    def __str__(self) -> str:
        return (
            f"the outbox {self.folder} is damaged: {self.reason}. Only it listed the runs of the dead worker, so it is "
            f"not replaced automatically. Delete {self.folder / 'lock'} and start again: a new one begins without its "
            "events, and what is left of the damaged file is kept. Then end the runs that the coordinator still lists "
            "as running"
        )


@dataclass(eq=False)
class OutboxFull(OutboxError):
    """Adding these events would exceed the quota; none was added."""

    folder: Path
    wanted_bytes: int
    used_bytes: int
    quota_bytes: int

    def __str__(self) -> str:
        return (
            f"the outbox {self.folder} has no room for {self.wanted_bytes} bytes: {self.used_bytes} of "
            f"{self.quota_bytes} are used. Deliver and acknowledge its events, or raise its quota"
        )


@dataclass(eq=False)
class RecordDamaged(OutboxError):
    """Durable data can no longer be read as it was written."""

    path: Path
    row: int
    key: RunKey
    from_seq: int
    to_seq: int

    def __str__(self) -> str:
        return (
            f"{self.path} is damaged at row {self.row}: events {self.from_seq} to {self.to_seq} of {self.key} are "
            f"lost. Check the disk; acknowledge through {self.to_seq} to go on without them"
        )
