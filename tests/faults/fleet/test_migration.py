"""A store of three layouts ago is changed while a worker of that time performs runs: all of them end, each once."""

import json
import os
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ao_runner.store.opening import LOCAL
from ao_runner.store.store_file import FILE_NAME
from tests.faults.worker.working import until
from tests.postgres_server import PostgresServer, require_server
from tests.process.runner.cli.calling import MINIATURES, Ao
from tests.process.runner.postgres.acting import ao_at, working
from tests.repositories import git, skip_outside_a_clone

pytestmark = pytest.mark.slow  # each case starts two versions of the program several times

REPOSITORY = Path(__file__).parents[3]
COMMIT = "4116efad"
"""The last commit of layout 2 of PostgreSQL and of layout 7 of SQLite."""
PACKAGES = ("runner", "protocol", "executors")


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the PYTHONPATH of the program as it was then."""
    folder = tmp_path_factory.mktemp("older")
    skip_outside_a_clone()
    is_there = subprocess.run(["git", "-C", REPOSITORY, "cat-file", "-e", COMMIT], check=False).returncode == 0  # noqa: S607
    if not is_there and git(REPOSITORY, "rev-parse", "--is-shallow-repository") == "true":
        pytest.skip(f"this clone is shallow, and lacks the program of that time, {COMMIT}: git fetch --unshallow")
    packed = subprocess.run(["git", "-C", REPOSITORY, "archive", COMMIT, *PACKAGES], capture_output=True, check=True)  # noqa: S607
    subprocess.run(["tar", "-x", "-C", folder], input=packed.stdout, check=True)  # noqa: S607
    return os.pathsep.join(str(folder / name) for name in PACKAGES)


@pytest.fixture(params=["postgres", "sqlite"])
def store(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "sqlite":
        yield LOCAL
        return
    require_server()
    with PostgresServer() as server:
        yield server.new_database()


def submit(ao: Ao, store: str, prompt: str, executor: str, **variables: str) -> str:
    called = ao("submit", "agent.yaml", "-p", prompt, "--profile", executor, AO_STORE=store, **variables)
    return called.stdout.strip()


def events_of(ao: Ao, store: str, run: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in ao("events", run, AO_STORE=store).stdout.splitlines()]


def migrate(ao: Ao, store: str) -> None:
    """Change the layout of a database, after checking what it is; of a file, the next command does it."""
    if store == LOCAL:
        with closing(sqlite3.connect(ao.folder / "ao-home" / FILE_NAME)) as connection:
            assert connection.execute("PRAGMA user_version").fetchone() == (7,)
    else:
        assert "changed from layout 2 to layout" in ao("store", "migrate", AO_STORE=store).stdout


def test_a_worker_of_that_time_goes_on_while_and_after_the_store_is_changed(
    older: str, store: str, tmp_path: Path
) -> None:
    ao, of_then = ao_at(tmp_path / "host"), {"PYTHONPATH": older}
    long, told = str(MINIATURES / "works_until_told"), tmp_path / "told"
    with working(ao, store, **of_then):
        ended = submit(ao, store, "before", "echo", **of_then)
        held = submit(ao, store, str(told), long, **of_then)
        until(lambda: "run_started" in ao("events", held, AO_STORE=store, **of_then).stdout, "it does not begin")
        queued = [submit(ao, store, f"queued {number}", "echo", **of_then) for number in range(10)]
        migrate(ao, store)
        runs = json.loads(ao("runs", "--json", AO_STORE=store).stdout)
        assert {run["run_id"] for run in runs} == {ended, held, *queued}
        later = [submit(ao, store, f"later {number}", "echo") for number in range(10)]
        told.touch()
        until(
            lambda: all(ao("result", run, AO_STORE=store).exit_code == 0 for run in [held, *queued, *later]),
            "the worker of then does not go on",
        )
    of_now = submit(ao, store, "now", "echo")
    assert ao("worker", "--until-idle", AO_STORE=store).exit_code == 0

    said_by = {ended: "before", held: "done", of_now: "now", **{run: f"later {n}" for n, run in enumerate(later)}}
    for run, said in said_by.items():
        assert ao("result", run, AO_STORE=store).stdout == f"{said}\n"
        events = events_of(ao, store, run)
        assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
        assert [event["event_type"] for event in events].count("result") == 1
    states = json.loads(ao("runs", "--json", AO_STORE=store).stdout)
    assert {state["attempt"] for state in states} == {1}
    if store == LOCAL:
        refused = ao("runs", AO_STORE=store, **of_then)
        assert refused.exit_code == 2
        assert "a newer version of ao made it" in refused.stderr
