"""A store that another process keeps from being written: real processes that write, and are stopped while they do."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ao_runner.store.records import Session
from ao_runner.store.sqlite_store import SqliteStore
from ao_runner.store.store_errors import StoreBusy
from tests.process.runner.cli.calling import Ao

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


@pytest.mark.parametrize("stopped", [True, False])
def test_a_store_that_another_process_writes_to_without_end_is_told_with_what_to_do(
    tmp_path: Path, stopped: bool
) -> None:
    with SqliteStore(tmp_path, busy_seconds=0.05) as store, writer(tmp_path, stopped=stopped):
        with pytest.raises(StoreBusy) as in_transaction, store.transaction():
            pass
        with pytest.raises(StoreBusy) as in_statement:
            store.sessions.add(Session("ses_1", "now", "x", "x", "/", {"name": "a"}))

        for busy in (in_transaction, in_statement):
            assert f"another process does not release the write lock. Find it: lsof {store.path};" in str(busy.value)
            assert "if it is suspended, resume it: kill -CONT" in str(busy.value)


def test_a_store_that_another_process_makes_without_end_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ao_runner.store.store_file.BUSY_SECONDS", 0.05)
    with writer(tmp_path, stopped=True, does=MAKES), pytest.raises(StoreBusy):
        SqliteStore(tmp_path)
    with SqliteStore(tmp_path):
        pass


def test_a_command_says_what_keeps_it_from_writing(tmp_path: Path) -> None:
    ao = Ao(tmp_path)
    ao.write("agent.yaml", "name: agent\n")
    home = tmp_path / "ao-home"
    with SqliteStore(home):
        pass
    with writer(home, stopped=True):
        said = ao("submit", "agent.yaml", "-p", "x")

        assert said.exit_code == 1
        assert "another process does not release the write lock" in said.stderr
        assert "Traceback" not in said.stderr
