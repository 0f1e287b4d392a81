"""A damaged file is made anew from what is whole where nothing else is lost; else the outbox says what to do."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ao_runner.outbox import KeyState, Outbox, OutboxOptions, StateDamaged
from tests.process.runner.outbox.filling import OTHER, RUN, broken, delivered, keep, numbered

KNOWING = OutboxOptions(has_a_knowing_coordinator=True)


def break_its_head(path: Path) -> None:
    path.write_bytes(b"no database" + path.read_bytes()[11:])


def break_its_tables(path: Path) -> None:
    """Overwrite the first page: it says where the tables are."""
    path.write_bytes(b"\xff" * 4096 + path.read_bytes()[4096:])


def break_a_key(path: Path) -> None:
    broken(path, b"what was noted", b"what was nOted")


def filled(folder: Path) -> Path:
    """Leave 4 to 9 of one key, whose end is there, and all three of another, which has none."""
    with Outbox(folder) as outbox:
        for first_seq in (1, 4, 7):
            keep(outbox, RUN, first_seq, first_seq + 2, ends=first_seq == 7)
        keep(outbox, OTHER, 1, 3)
        outbox.acknowledge(RUN, 3, "what was noted")
    return folder / "outbox.sqlite3"


@pytest.mark.parametrize("damage", [break_its_head, break_its_tables, break_a_key])
def test_the_state_is_made_anew_from_the_segments(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    damage(path := filled(tmp_path))
    content = path.read_bytes()

    with Outbox(tmp_path, KNOWING) as outbox:
        knows = damage is not break_a_key
        states = {state.key: state for state in outbox.open_keys()}
        note = "what was noted" if knows else ""
        assert states[RUN] == KeyState(RUN, 9, 3 if knows else 0, has_terminal=True, note=note)
        assert states[OTHER] == KeyState(OTHER, 3, 0, has_terminal=False)
        assert (delivered(outbox, RUN), delivered(outbox, OTHER)) == (numbered(4, 9), numbered(1, 3))
        (damaged,) = outbox.damages
        outbox.acknowledge(RUN, 9)
    assert damaged.path == tmp_path / "damaged-1-outbox.sqlite3"
    assert damaged.path.read_bytes() == content
    with Outbox(tmp_path) as outbox:
        assert outbox.damages == ()
        assert [state.key for state in outbox.open_keys()] == [OTHER]


def test_where_only_the_state_knew_of_begun_runs_the_outbox_does_not_open_and_says_what_to_do(tmp_path: Path) -> None:
    break_its_head(filled(tmp_path))
    for _ in range(2):
        with pytest.raises(StateDamaged, match=r"Delete .*/lock and start again: all events that are whole are sent"):
            Outbox(tmp_path)
    (tmp_path / "lock").unlink()

    with Outbox(tmp_path) as outbox:
        assert delivered(outbox, RUN) == numbered(4, 9)


def test_a_run_without_its_end_whose_beginning_is_deleted_keeps_the_state_from_being_made_anew(tmp_path: Path) -> None:
    with Outbox(tmp_path) as outbox:
        keep(outbox, RUN, 1, 3)
        keep(outbox, RUN, 4, 6)
        outbox.acknowledge(RUN, 3, "what was noted")
    break_a_key(tmp_path / "outbox.sqlite3")

    with pytest.raises(StateDamaged, match="noted of the first events of run_1/1"):
        Outbox(tmp_path, KNOWING)


def test_where_nothing_was_open_the_state_is_made_anew_for_any_coordinator(tmp_path: Path) -> None:
    with Outbox(tmp_path) as outbox:
        keep(outbox, RUN, 1, 3, ends=True)
        outbox.acknowledge(RUN, 3)
    break_its_head(tmp_path / "outbox.sqlite3")

    with Outbox(tmp_path) as outbox:
        assert (outbox.open_keys(), outbox.knows(RUN)) == ([], True)
        assert [damage.path.name for damage in outbox.damages] == ["damaged-1-outbox.sqlite3"]


@pytest.mark.parametrize("step", ["before", "between", "after"])
def test_a_process_that_dies_while_it_puts_the_new_file_in_its_place_loses_nothing(tmp_path: Path, step: str) -> None:
    path = filled(tmp_path)
    path.rename(tmp_path / "rebuilt.sqlite3")
    aside = tmp_path / "damaged-1-outbox.sqlite3"
    for name in ("outbox.sqlite3-wal", "outbox.sqlite3"):
        there = {"before": True, "between": name == "outbox.sqlite3", "after": False}[step]
        (tmp_path / name if there else aside.with_name(f"damaged-1-{name}")).write_bytes(b"damaged")

    with Outbox(tmp_path) as outbox:
        assert delivered(outbox, RUN) == numbered(4, 9)
        assert len(outbox.damages) == 1
    assert {one.read_bytes() for one in tmp_path.glob("damaged-*")} == {b"damaged"}
