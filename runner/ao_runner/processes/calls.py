"""Call a function in its own process with a deadline, so that a slow call delays no other run.

The process inherits only its pipes from the worker and nothing of its environment. The kernel ends it at the deadline,
even if the worker is gone by then.
"""

import asyncio
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, ParamSpec, TypeVar

from ao_runner.errors import RunnerError

MAX_AT_A_TIME: Final = 2
_START_SECONDS: Final = 20.0
"""Extra time to start the interpreter on a busy host; it does not extend the deadline of the call."""
_MAX_SHOWN_CHARACTERS: Final = 300

_callers: Final = ThreadPoolExecutor(MAX_AT_A_TIME, "ao-calls")
"""Each thread waits for one process; none is started before the first call."""
_long_callers: Final = ThreadPoolExecutor(MAX_AT_A_TIME, "ao-long-calls")

P = ParamSpec("P")
T = TypeVar("T")


class CallNotFinished(RunnerError):
    """A call exceeded its deadline, or its process failed; the message says which."""


async def call_apart(seconds: float, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a module-level function in another process and return its result; arguments and result are copied.

    Raises:
        CallNotFinished: It took longer than `seconds`, or its process ended without an answer.
    """
    return await _call(_callers, seconds, function, args, kwargs)


async def call_long(seconds: float, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Do the same for a function that may take minutes, such as a copy; it delays no `call_apart`."""
    return await _call(_long_callers, seconds, function, args, kwargs)


async def _call(callers: ThreadPoolExecutor, seconds: float, function: Callable[..., T], *job: object) -> T:
    work = pickle.dumps((seconds, function, *job))
    answer: T = await asyncio.get_running_loop().run_in_executor(callers, _ask, seconds, work)
    return answer


def _ask(seconds: float, job: bytes) -> Any:  # noqa: ANN401  # what the function returns
    command = [sys.executable, "-P", "-m", __name__]
    environ = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    limit = seconds + _START_SECONDS
    try:
        done = subprocess.run(
            command, input=job, capture_output=True, env=environ, timeout=limit, check=False, process_group=0
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CallNotFinished(f"{error}") from error
    if done.returncode == -signal.SIGALRM:
        raise CallNotFinished(f"it took longer than {seconds:g} s")
    if done.returncode != 0:
        last_words = done.stderr.decode(errors="replace").strip()[-_MAX_SHOWN_CHARACTERS:]
        raise CallNotFinished(f"the process for it ended with {done.returncode}: {last_words}")
    return pickle.loads(done.stdout)  # noqa: S301  # written by `_answer`


def _answer() -> None:
    """Perform the call that stdin contains."""
    seconds, function, args, kwargs = pickle.load(sys.stdin.buffer)  # noqa: S301  # written by `call_apart`
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
    signal.setitimer(signal.ITIMER_REAL, seconds)
    sys.stdout.buffer.write(pickle.dumps(function(*args, **kwargs)))


if __name__ == "__main__":
    _answer()
