"""Functions that are called in a process of their own."""

import asyncio
import os
from pathlib import Path

import pytest

from ao_runner.processes.calls import CallNotFinished, call_apart

SECONDS = 100.0


def test_the_loop_goes_on_while_a_call_is_under_way(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    async def call_and_answer() -> str:
        async with asyncio.timeout(SECONDS):
            call = asyncio.create_task(call_apart(SECONDS, Path.read_text, pipe))
            writer = await _opened_for_its_reader(pipe)
            assert not call.done()
            os.write(writer, b"written while it was under way")
            os.close(writer)
            return await call

    assert asyncio.run(call_and_answer()) == "written while it was under way"


async def _opened_for_its_reader(pipe: Path) -> int:
    while True:
        try:
            return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            await asyncio.sleep(0.01)  # nobody reads yet


def test_what_takes_too_long_is_ended() -> None:
    with pytest.raises(CallNotFinished, match=r"it took longer than 0\.1 s"):
        asyncio.run(call_apart(0.1, sum, range(10**15)))


def test_a_process_that_fails_is_told_of_with_its_last_words() -> None:
    with pytest.raises(CallNotFinished, match="FileNotFoundError"):
        asyncio.run(call_apart(SECONDS, Path.read_text, Path("/there/is/none")))


def test_the_process_has_nothing_of_the_environment_and_no_other_descriptor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AO_TEST_SECRET", "s3cret")
    with (tmp_path / "open").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        descriptors = asyncio.run(call_apart(SECONDS, os.listdir, "/proc/self/fd"))
    environment = asyncio.run(call_apart(SECONDS, Path.read_bytes, Path("/proc/self/environ")))

    assert sorted(map(int, descriptors)) == [0, 1, 2, 3]  # 3 is the folder itself
    assert b"s3cret" not in environment
    assert b"PYTHONPATH=" in environment


def test_the_process_is_another_one() -> None:
    assert asyncio.run(call_apart(SECONDS, os.getpid)) != os.getpid()
