"""Whatever happens to the bytes of a segment: what is undamaged comes back once, in order, and nothing is invented."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ao_runner.outbox import Damage, KeyState, Lost, Outbox, OutboxOptions
from ao_runner.outbox.record import Intact, scan
from ao_runner.outbox.recovery import recover
from ao_runner.run_events import RunKey
from tests.runner.outbox.filling import OTHER, RUN, delivered, fresh_folder, keep, numbered, segments


@contextmanager
def three_records(folder: Path) -> Iterator[tuple[Path, list[int]]]:
    """RUN 1-3, RUN 4-6 and OTHER 1-2 in one segment; with the places where they begin and end."""
    with Outbox(folder) as outbox:
        keep(outbox, RUN, 1, 3)
        keep(outbox, RUN, 4, 6)
        keep(outbox, OTHER, 1, 2)
    (segment,) = segments(folder)
    content = segment.read_bytes()
    yield segment, [piece.offset for piece in scan(content, mark_of(segment))] + [len(content)]


def mark_of(segment: Path) -> str:
    return segment.stem.split("-")[1]


def test_a_torn_end_is_cut_and_its_numbers_are_used_again(tmp_path: Path) -> None:
    with three_records(tmp_path) as (segment, places):
        segment.write_bytes(segment.read_bytes()[:-1])

    with Outbox(tmp_path) as outbox:
        torn = places[3] - 1 - places[2]
        assert outbox.damages == (Damage(segment, places[2], torn, (Lost(OTHER, 1, 2),), was_cut=True),)
        assert outbox.open_keys() == [KeyState(RUN, durable_seq=6, acknowledged_seq=0, has_terminal=False)]
        assert segment.stat().st_size == places[2]
        keep(outbox, OTHER, 1, 1)
    with Outbox(tmp_path) as outbox:
        assert outbox.damages == ()
        assert delivered(outbox, RUN) == numbered(1, 6)
        assert delivered(outbox, OTHER) == numbered(1, 1)


@pytest.mark.parametrize("what", ["header", "lines"])
def test_damage_in_the_middle_is_left_alone_and_the_gap_is_told(tmp_path: Path, what: str) -> None:
    with three_records(tmp_path) as (segment, places):
        content = bytearray(segment.read_bytes())
        content[places[0] + 2 if what == "header" else places[1] - 2] ^= 1
        segment.write_bytes(content)

    for _ in range(2):
        with Outbox(tmp_path) as outbox:
            assert outbox.damages == (Damage(segment, 0, places[1], (Lost(RUN, 1, 3),)),)
            assert delivered(outbox, RUN) == numbered(4, 6)
            assert delivered(outbox, OTHER) == numbered(1, 2)


def test_a_number_whose_header_is_readable_is_not_used_again(tmp_path: Path) -> None:
    with three_records(tmp_path) as (segment, places):
        content = bytearray(segment.read_bytes())
        content[places[2] - 2] ^= 1
        segment.write_bytes(content)

    with Outbox(tmp_path) as outbox:
        assert outbox.damages == (Damage(segment, places[1], places[2] - places[1], (Lost(RUN, 4, 6),)),)
        keep(outbox, RUN, 7, 7)
        assert delivered(outbox, RUN) == numbered(1, 3) | numbered(7, 7)
        assert outbox.next_batch(RUN, max_events=9) == outbox.next_batch(RUN, max_events=3)


def test_a_file_that_is_missing_is_told_by_the_gap(tmp_path: Path) -> None:
    with Outbox(tmp_path, OutboxOptions(segment_bytes=1)) as outbox:
        for seq in (1, 2, 3):
            keep(outbox, RUN, seq, seq)
    segments(tmp_path)[1].unlink()

    with Outbox(tmp_path) as outbox:
        (damage,) = outbox.damages
        assert (damage.path, damage.bytes, damage.lost) == (segments(tmp_path)[1], 0, (Lost(RUN, 2, 2),))
        assert delivered(outbox, RUN) == numbered(1, 1) | numbered(3, 3)


LINE = st.binary(max_size=12).map(lambda line: line.replace(b"\n", b""))


@st.composite
def damaged(draw: st.DrawFn, segment: bytes) -> tuple[bytes, int, int]:
    """The content with one region replaced, and where the region is."""
    begin = draw(st.integers(0, len(segment)))
    end = draw(st.integers(begin, min(len(segment), begin + draw(st.sampled_from([0, 1, 40, 10_000])))))
    copy = draw(st.integers(0, len(segment)))
    inserted = draw(st.one_of(st.binary(max_size=9), st.just(segment[copy : copy + 400])))
    return segment[:begin] + inserted + segment[end:], begin, end


def written(folder: Path, appended: list[tuple[int, list[bytes]]]) -> dict[RunKey, dict[int, bytes]]:
    original: dict[RunKey, dict[int, bytes]] = {RUN: {}, OTHER: {}}
    with Outbox(folder, OutboxOptions(segment_bytes=600)) as outbox:
        for which, lines in appended:
            key = (RUN, OTHER)[which]
            first_seq = len(original[key]) + 1
            outbox.append(key, first_seq, lines)
            outbox.sync()
            original[key].update(zip(range(first_seq, first_seq + len(lines)), lines, strict=True))
    return original


@given(
    st.data(), st.lists(st.tuples(st.integers(0, 1), st.lists(LINE, min_size=1, max_size=4)), min_size=1, max_size=9)
)
def test_every_undamaged_record_comes_back_once_in_order_and_nothing_else(
    data: st.DataObject, appended: list[tuple[int, list[bytes]]]
) -> None:
    with fresh_folder() as folder:
        original = written(folder, appended)
        safe: dict[RunKey, set[int]] = {RUN: set(), OTHER: set()}
        victim = data.draw(st.sampled_from(segments(folder)))
        content, begin, end = data.draw(damaged(victim.read_bytes()))
        for path in segments(folder):
            for piece in scan(path.read_bytes(), mark_of(path)):
                assert isinstance(piece, Intact)
                if path != victim or piece.end <= begin or piece.offset >= end:
                    safe[piece.header.key] |= set(range(piece.header.first_seq, piece.header.last_seq + 1))
        victim.write_bytes(content)

        recovered = recover(folder, lambda _: None)

        for key, lines in original.items():
            found = dict[int, bytes]()
            for record in recovered.records.get(key, []):
                assert record.header.first_seq > max(found, default=0)
                found.update(enumerate(record.read()[:-1].split(b"\n"), record.header.first_seq))
            assert found.items() <= lines.items()
            assert safe[key] <= found.keys()
            lost = [each for damage in recovered.damages for each in damage.lost if each.key == key]
            told = [seq for each in lost for seq in range(each.from_seq, each.to_seq + 1)]
            assert len(told) == len(set(told))
            assert sorted([*told, *found]) == list(range(1, max([*told, *found], default=0) + 1))
        assert recover(folder, lambda _: None).last_seqs == recovered.last_seqs
