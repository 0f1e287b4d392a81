"""Which run ids of a pipe are known, and which forgotten."""

from hypothesis import given
from hypothesis import strategies as st

from ao_runner.coordinators.pipe import RunIds


def test_the_latest_ids_and_those_of_runs_that_are_not_over_are_known_and_others_forgotten() -> None:
    ids = RunIds(remembered=2)
    assert [ids.add(run_id) for run_id in "abab"] == [True, True, False, False]
    ids.end("a")

    assert [ids.add(run_id) for run_id in "cdef"] == [True] * 4
    assert not ids.add("b")
    assert ids.add("a")


@given(st.lists(st.sampled_from("abcdefghij"), max_size=60), st.integers(1, 4))
def test_an_id_is_never_taken_twice_at_one_attempt_and_not_again_soon(lines: list[str], remembered: int) -> None:
    ids, taken = RunIds(remembered), list[tuple[str, int]]()
    for run_id in lines:
        if ids.add(run_id):
            taken.append((run_id, ids.generation))
        ids.end(run_id)

    assert len(set(taken)) == len(taken)
    order = [run_id for run_id, _ in taken]
    for number, run_id in enumerate(order):
        assert run_id not in order[max(0, number - remembered) : number]
