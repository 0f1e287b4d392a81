"""Signals as wishes to stop, in a process of their own."""

import subprocess
import sys

import pytest

SECONDS = 60
COUNTS = """
import asyncio, signal, sys
from ao_runner.runs.run_request import on_signals

async def main():
    wishes, done = [], asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, done.set)
    with on_signals(lambda: wishes.append(1)):
        for name in [*sys.argv[1:], "SIGUSR1"]:
            signal.raise_signal(signal.Signals[name])
        await done.wait()
    print(len(wishes))

asyncio.run(main())
"""
NOHUP = "import signal\nsignal.signal(signal.SIGHUP, signal.SIG_IGN)\n"


@pytest.mark.parametrize(
    ("signals", "before", "wishes"),
    [
        pytest.param(["SIGINT", "SIGTERM"], "", 2, id="Ctrl-C and SIGTERM count alike"),
        pytest.param(["SIGHUP"], "", 1, id="a hang-up counts"),
        pytest.param(["SIGHUP", "SIGHUP", "SIGTERM"], "", 2, id="several hang-ups are one"),
        pytest.param(["SIGHUP", "SIGTERM"], NOHUP, 1, id="below nohup there is none"),
    ],
)
def test_a_signal_is_a_wish_to_stop(signals: list[str], before: str, wishes: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", before + COUNTS, *signals], stdout=subprocess.PIPE, timeout=SECONDS, check=False
    )

    assert (done.returncode, done.stdout) == (0, f"{wishes}\n".encode())
