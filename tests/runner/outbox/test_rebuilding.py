"""A damaged state is made anew where nothing is lost by that; else the outbox says what to do."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ao_runner.outbox import KeyState, Outbox, OutboxOptions, StateDamaged
from tests.runner.outbox.filling import OTHER, RUN, delivered, keep, numbered, segments

SMALL = OutboxOptions(segment_bytes=100)
KNOWING = OutboxOptions(segment_bytes=100, has_a_knowing_coordinator=True)


def break_its_head(state: Path) -> None:
    state.write_bytes(b"no database" + state.read_bytes()[11:])


def break_its_table(state: Path) -> None:
    data = state.read_bytes()
    state.write_bytes(data[:4096] + b"\xff" * (len(data) - 4096))


def filled(folder: Path) -> None:
    """Leave 4 to 9 of one key, whose end is there, and all three of another, which has none."""
    with Outbox(folder, SMALL) as outbox:
        for first_seq in (1, 4, 7):
            keep(outbox, RUN, first_seq, first_seq + 2, ends=first_seq == 7)
        keep(outbox, OTHER, 1, 3)
        outbox.acknowledge(RUN, 3)


@pytest.mark.parametrize("damage", [break_its_head, break_its_table])
def test_the_state_is_made_anew_from_the_segments(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    filled(tmp_path)
    damage(tmp_path / "state.sqlite3")
    broken = (tmp_path / "state.sqlite3").read_bytes()

    with Outbox(tmp_path, KNOWING) as outbox:
        assert sorted(map(str, outbox.open_keys())) == sorted(
            map(str, [KeyState(RUN, 9, 3, has_terminal=True), KeyState(OTHER, 3, 0, has_terminal=False)])
        )
        assert (delivered(outbox, RUN), delivered(outbox, OTHER)) == (numbered(4, 9), numbered(1, 3))
        (damaged,) = outbox.damages
        outbox.acknowledge(RUN, 9)
    assert damaged.path.read_bytes() == broken
    with Outbox(tmp_path) as outbox:
        assert outbox.damages == ()
        assert [state.key for state in outbox.open_keys()] == [OTHER]


def test_where_only_the_state_knew_of_begun_runs_the_outbox_does_not_open_and_says_what_to_do(tmp_path: Path) -> None:
    filled(tmp_path)
    break_its_head(tmp_path / "state.sqlite3")
    for _ in range(2):
        with pytest.raises(StateDamaged, match=r"Move state.sqlite3, state.sqlite3-wal .* keep them, and start again"):
            Outbox(tmp_path)
    for path in tmp_path.glob("state.sqlite3*"):
        path.unlink()

    with Outbox(tmp_path) as outbox:
        assert delivered(outbox, RUN) == numbered(4, 9)


def test_a_run_without_its_end_whose_beginning_is_deleted_keeps_the_state_from_being_made_anew(tmp_path: Path) -> None:
    with Outbox(tmp_path, SMALL) as outbox:
        keep(outbox, RUN, 1, 3)
        keep(outbox, RUN, 4, 6)
        outbox.acknowledge(RUN, 3, "what was noted")
    break_its_head(tmp_path / "state.sqlite3")

    with pytest.raises(StateDamaged, match="noted of the first events of run_1/1"):
        Outbox(tmp_path, KNOWING)


def test_a_segment_that_is_missing_keeps_the_state_from_being_made_anew(tmp_path: Path) -> None:
    with Outbox(tmp_path, SMALL) as outbox:
        for first_seq in (1, 4, 7):
            keep(outbox, RUN, first_seq, first_seq + 2)
    segments(tmp_path)[1].unlink()
    break_its_head(tmp_path / "state.sqlite3")

    with pytest.raises(StateDamaged, match="what is missing in"):
        Outbox(tmp_path, KNOWING)


def test_where_nothing_was_open_the_state_is_made_anew_for_any_coordinator(tmp_path: Path) -> None:
    with Outbox(tmp_path) as outbox:
        keep(outbox, RUN, 1, 3, ends=True)
        outbox.acknowledge(RUN, 3)
    break_its_head(tmp_path / "state.sqlite3")

    with Outbox(tmp_path) as outbox:
        assert outbox.open_keys() == []
        assert [damage.path.name for damage in outbox.damages] == ["damaged-1-state.sqlite3"]
