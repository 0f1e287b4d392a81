"""What the tests of the outbox share: keys, lines, and reading everything that an outbox would deliver."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from ao_runner.outbox.outbox import Outbox
from ao_runner.run_events import RunKey

RUN = RunKey("run_1", 1)
OTHER = RunKey("run_2", 3)


def lines(first_seq: int, last_seq: int) -> list[bytes]:
    return [b'{"seq":%d}' % seq for seq in range(first_seq, last_seq + 1)]


def keep(outbox: Outbox, key: RunKey, first_seq: int, last_seq: int, *, ends: bool = False) -> None:
    outbox.append(key, first_seq, lines(first_seq, last_seq), ends=ends)
    outbox.sync()


def delivered(outbox: Outbox, key: RunKey, max_events: int = 1000, max_bytes: int = 1 << 20) -> dict[int, bytes]:
    """Everything that is to be delivered; fails when a number comes twice or not in order."""
    found = dict[int, bytes]()
    after_seq = 0
    while batch := outbox.next_batch(key, after_seq=after_seq, max_events=max_events, max_bytes=max_bytes):
        assert batch.first_seq > after_seq
        assert len(batch.lines) == batch.last_seq - batch.first_seq + 1
        found.update(zip(range(batch.first_seq, batch.last_seq + 1), batch.lines, strict=True))
        after_seq = batch.last_seq
    return found


def numbered(first_seq: int, last_seq: int) -> dict[int, bytes]:
    return dict(zip(range(first_seq, last_seq + 1), lines(first_seq, last_seq), strict=True))


def broken(path: Path, old: bytes, new: bytes) -> None:
    """Put other bytes of the same length in the place of some that are there once."""
    content = path.read_bytes()
    assert (content.count(old), len(old)) == (1, len(new))
    path.write_bytes(content.replace(old, new))


def copied(folder: Path, to: Path) -> Path:
    """What a crash at this moment would leave."""
    to.mkdir()
    for path in folder.iterdir():
        if path.is_file():
            (to / path.name).write_bytes(path.read_bytes())
    return to


@contextmanager
def fresh_folder() -> Iterator[Path]:
    with TemporaryDirectory() as folder:
        yield Path(folder)
