"""Appending, syncing, delivering and acknowledging, on a real folder."""

import stat
from pathlib import Path

import pytest

from ao_runner.outbox.events_of_key import Batch, KeyState
from ao_runner.outbox.outbox import Outbox, OutboxOptions
from ao_runner.outbox.outbox_errors import OutboxBusy, OutboxError, OutboxFull, OutboxUnusable, RecordDamaged
from ao_runner.run_events import RunKey
from tests.process.runner.outbox.filling import OTHER, RUN, copied, delivered, keep, lines, numbered


def test_events_are_delivered_only_when_they_are_durable(tmp_path: Path) -> None:
    with Outbox(tmp_path) as outbox:
        outbox.append(RUN, 1, [b"a", b"b"])
        outbox.append(OTHER, 1, [b"x"])
        outbox.append(RUN, 3, [b""], ends=True)
        assert outbox.next_batch(RUN) is None

        assert outbox.sync() == {RUN: 3, OTHER: 1}
        assert outbox.sync() == {}
        assert outbox.next_batch(RUN) == Batch(RUN, 1, [b"a", b"b", b""], ends=True)
        assert outbox.next_batch(OTHER) == Batch(OTHER, 1, [b"x"], ends=False)
        assert outbox.next_batch(OTHER, after_seq=1) is None


@pytest.mark.parametrize("cache_bytes", [0, 1 << 20], ids=["from the disk", "from memory"])
def test_a_batch_keeps_to_its_limits_and_has_one_event_at_least(tmp_path: Path, cache_bytes: int) -> None:
    with Outbox(tmp_path, OutboxOptions(cache_bytes=cache_bytes)) as outbox:
        keep(outbox, RUN, 1, 5)
        keep(outbox, RUN, 6, 8, ends=True)

        assert delivered(outbox, RUN) == numbered(1, 8)
        assert delivered(outbox, RUN, max_events=3) == numbered(1, 8)
        assert delivered(outbox, RUN, max_bytes=1) == numbered(1, 8)
        assert outbox.next_batch(RUN, max_events=7) == Batch(RUN, 1, lines(1, 5), ends=False)
        assert outbox.next_batch(RUN, max_bytes=29) == Batch(RUN, 1, lines(1, 2), ends=False)
        assert outbox.next_batch(RUN, after_seq=6) == Batch(RUN, 7, lines(7, 8), ends=True)
        outbox.acknowledge(RUN, 4)
        assert delivered(outbox, RUN) == numbered(5, 8)


def test_an_event_is_appended_once_and_in_order_for_ever(tmp_path: Path) -> None:
    with Outbox(tmp_path) as outbox:
        for wrong in (0, 2):
            with pytest.raises(OutboxError, match="run_1/1 continues with seq 1"):
                outbox.append(RUN, wrong, [b"x"])
        keep(outbox, RUN, 1, 2)
        keep(outbox, OTHER, 1, 1, ends=True)
        outbox.acknowledge(OTHER, 1)
    with Outbox(tmp_path) as outbox:
        for wrong in (1, 2, 4):
            with pytest.raises(OutboxError, match="continues with seq 3"):
                outbox.append(RUN, wrong, [b"x"])
        outbox.append(RUN, 3, [b"x"], ends=True)
        for ended in (RUN, OTHER):
            with pytest.raises(OutboxError, match="has its terminal event"):
                outbox.append(ended, 4, [b"x"])


@pytest.mark.parametrize("wrong", [[], [b"a\nb"], [b"a\n"]], ids=["none", "two in one", "with LF"])
def test_what_are_not_single_lines_is_refused(tmp_path: Path, wrong: list[bytes]) -> None:
    with Outbox(tmp_path) as outbox:
        with pytest.raises(ValueError, match="one line each"):
            outbox.append(RUN, 1, wrong)

        assert outbox.open_keys() == []


def test_acknowledgements_are_cumulative_and_never_go_back(tmp_path: Path) -> None:
    with Outbox(tmp_path) as outbox:
        keep(outbox, RUN, 1, 9)
        outbox.append(RUN, 10, [b"not durable"])
        outbox.acknowledge(RUN, 5)
        outbox.acknowledge(RUN, 2)

        assert outbox.open_keys() == [KeyState(RUN, durable_seq=9, acknowledged_seq=5, has_terminal=False)]
        with pytest.raises(OutboxError, match="acknowledged through 10, and is durable to 9"):
            outbox.acknowledge(RUN, 10)
        with pytest.raises(OutboxError, match="was acknowledged through"):
            outbox.acknowledge(OTHER, 1)
        assert delivered(outbox, RUN) == numbered(6, 9)


def test_a_key_is_closed_and_its_events_are_gone_when_its_terminal_event_is_acknowledged(tmp_path: Path) -> None:
    with Outbox(tmp_path) as outbox:
        for first_seq in (1, 11, 21):
            keep(outbox, RUN, first_seq, first_seq + 9, ends=first_seq == 21)
        whole = outbox.used_bytes
        outbox.acknowledge(RUN, 19)
        outbox.flush_state()
        assert 0 < outbox.used_bytes < whole
        outbox.acknowledge(RUN, 30)
        outbox.flush_state()

        assert (outbox.open_keys(), outbox.used_bytes) == ([], 0)
        outbox.acknowledge(RUN, 30)
        outbox.acknowledge(RUN, 12)


def test_an_outbox_that_is_empty_again_gives_its_space_back(tmp_path: Path) -> None:
    with Outbox(tmp_path) as outbox:
        for seq in range(1, 31):
            outbox.append(RUN, seq, [b"x" * 1_000_000], ends=seq == 30)
        outbox.sync()
        assert (tmp_path / "outbox.sqlite3").stat().st_size > 25_000_000
        outbox.acknowledge(RUN, 30)
        outbox.flush_state()
        assert (tmp_path / "outbox.sqlite3").stat().st_size < 100_000
        assert outbox.knows(RUN)


def test_only_acknowledgements_that_were_flushed_are_known_to_the_next_owner(tmp_path: Path) -> None:
    before = Outbox(tmp_path / "a")
    keep(before, RUN, 1, 9)
    before.acknowledge(RUN, 3)
    before.flush_state()
    before.acknowledge(RUN, 9)
    crashed = copied(tmp_path / "a", tmp_path / "b")
    before.close()

    with Outbox(crashed) as outbox:
        assert outbox.open_keys() == [KeyState(RUN, durable_seq=9, acknowledged_seq=3, has_terminal=False)]
        assert delivered(outbox, RUN) == numbered(4, 9)
    with Outbox(tmp_path / "a") as outbox:
        assert delivered(outbox, RUN) == {}
        assert outbox.open_keys() == [KeyState(RUN, durable_seq=9, acknowledged_seq=9, has_terminal=False)]


def test_a_lost_attempt_is_ended_by_the_next_owner(tmp_path: Path) -> None:
    with Outbox(tmp_path) as outbox:
        keep(outbox, RUN, 1, 3)
        outbox.acknowledge(RUN, 3)
    with Outbox(tmp_path) as outbox:
        (lost,) = outbox.open_keys()
        outbox.append(lost.key, lost.durable_seq + 1, [b"attempt_lost"], ends=True)
        outbox.sync()

        assert outbox.next_batch(RUN) == Batch(RUN, 4, [b"attempt_lost"], ends=True)
        outbox.acknowledge(RUN, 4)
    with Outbox(tmp_path) as outbox:
        assert outbox.open_keys() == []


def test_a_folder_has_one_owner_at_a_time_and_nobody_else_reads_it(tmp_path: Path) -> None:
    folder = tmp_path / "outbox"
    with Outbox(folder) as outbox:
        keep(outbox, RUN, 1, 1)
        with pytest.raises(OutboxBusy, match="another process uses the outbox"):
            Outbox(folder)

        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    Outbox(folder).close()


def test_a_folder_that_cannot_be_used_is_given_back(tmp_path: Path) -> None:
    state = tmp_path / "outbox.sqlite3"
    state.mkdir()
    for _ in range(2):
        with pytest.raises(OutboxUnusable, match="Is a directory"):
            Outbox(tmp_path)
    state.rmdir()
    Outbox(tmp_path).close()


def test_the_quota_stops_runs_first_then_reading_then_events_and_terminal_events_last(tmp_path: Path) -> None:
    quota = 100_000
    with Outbox(tmp_path, OutboxOptions(quota_bytes=quota)) as outbox:
        seen = [(outbox.has_room, outbox.is_full)]
        for seq in range(1, 90):
            keep_line(outbox, seq)
            seen.append((outbox.has_room, outbox.is_full))
            if outbox.used_bytes > quota * 0.89:
                break
        with pytest.raises(OutboxFull, match="Deliver and acknowledge"):
            keep_line(outbox, seq + 1)
        outbox.append(RUN, seq + 1, [b"x" * 3000], ends=True)
        with pytest.raises(OutboxFull):
            outbox.append(OTHER, 1, [b"x" * 9000], ends=True)
        outbox.sync()

        assert sorted(set(seen), key=seen.index) == [(True, False), (False, False), (False, True)]
        assert outbox.used_bytes <= quota
        assert [each.key for each in outbox.open_keys()] == [RUN]
        outbox.acknowledge(RUN, seq + 1)
        assert outbox.has_room


def keep_line(outbox: Outbox, seq: int) -> None:
    outbox.append(RUN, seq, [b"x" * 999])
    outbox.sync()


def test_one_large_append_does_not_fill_the_outbox_for_ever(tmp_path: Path) -> None:
    with Outbox(tmp_path, OutboxOptions(quota_bytes=10_000)) as outbox:
        outbox.append(RUN, 1, [b"x" * 8700])
        outbox.sync()
        assert outbox.is_full
        outbox.acknowledge(RUN, 1)

        assert outbox.has_room


def test_a_record_that_rotted_on_the_disk_is_reported_and_can_be_left_out(tmp_path: Path) -> None:
    with Outbox(tmp_path) as outbox:
        outbox.append(RUN, 1, [b"x" * 300_000, b"{}"])
        outbox.sync()
        keep(outbox, RUN, 3, 4)
    with Outbox(tmp_path, OutboxOptions(cache_bytes=0)) as outbox:
        path = tmp_path / "outbox.sqlite3"
        content = path.read_bytes()
        path.write_bytes(content.replace(b"x" * 4000, b"x" * 3999 + b"y", 1))

        with pytest.raises(RecordDamaged, match="events 1 to 2 of run_1/1 are lost"):
            outbox.next_batch(RUN)
        outbox.acknowledge(RUN, 2)
        assert delivered(outbox, RUN) == numbered(3, 4)


@pytest.mark.parametrize("name", ["state.sqlite3", "000000000001-0f1e2d3c4b5a6978.jsonl"])
def test_an_outbox_of_the_earlier_form_is_refused_and_left_as_it_is(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"old")

    with pytest.raises(OutboxUnusable, match=rf"{name} is of an earlier form of the outbox.*move .* away and keep it"):
        Outbox(tmp_path)

    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_what_is_written_in_several_transactions_is_told_when_all_of_it_is_durable(tmp_path: Path) -> None:
    with Outbox(tmp_path) as outbox:
        for seq in range(1, 6):
            outbox.append(RUN, seq, [b"x" * 1_000_000])
            outbox.append(OTHER, seq, [b"y" * 1_000_000])
        assert outbox.sync() == {RUN: 5, OTHER: 5}
    with Outbox(tmp_path) as outbox:
        assert list(delivered(outbox, RUN)) == list(delivered(outbox, OTHER)) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("run_id", "attempt"),
    [("", 1), ("x" * 513, 1), ("\u0001" * 512, 1), ("\ud800", 1), ("run", 0), ("run", 10**18)],
    ids=["empty", "long", "long as JSON", "no unicode", "attempt 0", "attempt too large"],
)
def test_a_key_that_could_not_be_read_back_is_refused(run_id: str, attempt: int) -> None:
    with pytest.raises(ValueError, match=r"run_id|attempts"):
        RunKey(run_id, attempt)
