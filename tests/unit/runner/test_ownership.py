"""Who performs runs, and for whom."""

import os
from pathlib import Path

from ao_runner.store.ownership import EVERY_PROFILE, Owner, living_owners, own_runs


def test_an_owner_that_lives_says_who_it_is(tmp_path: Path) -> None:
    with own_runs(tmp_path, ["reviewer"]) as worker, own_runs(tmp_path) as run:
        owners = living_owners(tmp_path)

    assert owners == {worker: Owner(os.getpid(), ("reviewer",)), run: Owner(os.getpid())}
    assert living_owners(tmp_path) == {}


def test_a_file_that_nobody_has_locked_yet_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "owners" / "just-made"
    path.parent.mkdir()
    path.touch()

    assert living_owners(tmp_path) == {}
    assert path.exists()


def test_a_worker_takes_the_runs_of_its_profiles() -> None:
    assert Owner(1, ("reviewer",)).takes("reviewer")
    assert not Owner(1, ("reviewer",)).takes("writer")
    assert Owner(1, (EVERY_PROFILE,)).takes("writer")
    assert not Owner(1).takes("writer")
