"""Who holds a store that cannot be written is named: real processes that write, and are stopped while they do."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ao_runner.store.records import Holder, Session, StoreBusy
from ao_runner.store.sqlite_store import SqliteStore
from ao_runner.store.store_file import find_holder
from tests.process.runner.cli.calling import Ao

SHOWS_LOCKS = pytest.mark.skipif(not Path("/proc/locks").exists(), reason="this system does not say who holds a lock")
WRITES = """
import pathlib, signal, sys
from ao_runner.store.sqlite_store import SqliteStore
with SqliteStore(pathlib.Path(sys.argv[1])) as store, store.transaction():
    print("writing", flush=True)
    signal.pause()
"""

MAKES = """
import pathlib, signal, sys
from ao_runner.store.store_file import FILE_NAME
from ao_runner.store.store_file import made_by_one
with made_by_one(pathlib.Path(sys.argv[1]) / FILE_NAME, 1.0):
    print("making", flush=True)
    signal.pause()
"""


@contextmanager
def writer(home: Path, *, stopped: bool, does: str = WRITES) -> Iterator[int]:
    """Yield the id of a process in the middle of a transaction, or of what else it does."""
    with subprocess.Popen([sys.executable, "-c", does, str(home)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        if stopped:
            process.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        try:
            yield process.pid
        finally:
            process.kill()


@SHOWS_LOCKS
@pytest.mark.parametrize(
    ("stopped", "advice"), [(True, "is suspended. Resume it: kill -CONT {}"), (False, "Inspect it: ps -fp {}")]
)
def test_who_writes_to_the_store_without_end_is_named(tmp_path: Path, stopped: bool, advice: str) -> None:
    with SqliteStore(tmp_path, busy_seconds=0.05) as store, writer(tmp_path, stopped=stopped) as pid:
        with pytest.raises(StoreBusy) as in_transaction, store.transaction():
            pass
        with pytest.raises(StoreBusy) as in_statement:
            store.add_session(Session("ses_1", "now", "x", "x", "/", {"name": "a"}))

        assert in_transaction.value.holder == in_statement.value.holder == Holder(pid, is_stopped=stopped)
        assert advice.format(pid) in str(in_transaction.value)
        assert find_holder(store.path.with_name("other")) is None
    assert find_holder(store.path) is None


@SHOWS_LOCKS
@pytest.mark.parametrize("stopped", [True, False])
def test_who_makes_the_store_without_end_is_named(
    tmp_path: Path, stopped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ao_runner.store.store_file.BUSY_SECONDS", 0.05)
    with writer(tmp_path, stopped=stopped, does=MAKES) as pid:
        with pytest.raises(StoreBusy) as busy:
            SqliteStore(tmp_path)
        assert busy.value.holder == Holder(pid, is_stopped=stopped)
    with SqliteStore(tmp_path):
        pass


def test_where_nobody_is_known_it_is_said_how_to_look(tmp_path: Path) -> None:
    assert "another process does not release the write lock. Find it: lsof" in str(StoreBusy(tmp_path, "locked"))


def test_a_store_that_this_process_writes_to_has_no_holder_but_it(tmp_path: Path) -> None:
    with SqliteStore(tmp_path) as store, store.transaction():
        assert find_holder(store.path) is None


@SHOWS_LOCKS
@pytest.mark.slow  # waits until commands give up
def test_a_command_says_who_keeps_it_from_writing(tmp_path: Path) -> None:
    ao = Ao(tmp_path)
    ao.write("agent.yaml", "name: agent\n")
    home = tmp_path / "ao-home"
    with SqliteStore(home):
        pass
    with writer(home, stopped=True) as pid:
        said = ao("submit", "agent.yaml", "-p", "x")

        assert said.exit_code == 1
        assert f"process {pid} holds the write lock and is suspended. Resume it: kill -CONT {pid}" in said.stderr
        assert "Traceback" not in said.stderr
