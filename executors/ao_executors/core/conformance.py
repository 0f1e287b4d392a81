"""Hooks that a conformance suite, and never a runner, enables by environment variables (SPEC 12).

Internal.

| variable | effect |
| --- | --- |
| `AO_CONFORM_NOISE=1` | a library and a child process print between `run_started` and the terminal event |
| `AO_CONFORM_LINGER_SECONDS=n` | the run waits `n` seconds before its answer, like a slow model |
| `AO_CONFORM_ASK=1` | the run asks a person before its work, if answers will come |
"""

import asyncio
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ao_executors.core.executor import Perform, Task, TextResult
from ao_executors.core.inputs import InputOption, InputRequest

if TYPE_CHECKING:
    from ao_protocol.events import Result

_LINGER_VARIABLE: Final = "AO_CONFORM_LINGER_SECONDS"
_DECIMAL: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")


_QUESTION: Final = InputRequest(
    request_id="ask_1",
    kind="question",
    title="AO_CONFORM_ASK: may the run go on?",
    options=(
        InputOption("yes", "Yes", "allow"),
        InputOption("always", "Yes, in this session", "allow", "session"),
        InputOption("no", "No", "deny"),
    ),
    schema={"type": "string"},
)


def hooked(perform: Perform, environ: Mapping[str, str]) -> Perform:
    """Return `perform` with the hooks that the variables enable. An invalid linger is reported on stderr only."""
    seconds = _seconds(environ.get(_LINGER_VARIABLE, ""))

    async def linger() -> None:
        nonlocal seconds
        waited, seconds = seconds, 0.0  # at the first call only
        await asyncio.sleep(waited)

    async def perform_hooked(task: Task) -> "Result | TextResult":
        if environ.get("AO_CONFORM_NOISE") == "1":
            make_noise("noise: downloading model weights, 42%")
        if environ.get("AO_CONFORM_ASK") == "1" and task.inputs.is_open:
            await task.inputs.ask(_QUESTION)
        result = await perform(replace(task, linger=linger))
        await linger()  # for executors that do not use `converse`
        return result

    return perform_hooked


def _seconds(text: str) -> float:
    if _DECIMAL.fullmatch(text):
        return float(text)
    if text:
        sys.stderr.write(
            f"{_LINGER_VARIABLE} is {text!r} and is ignored; expected seconds as a decimal number, such as 2.5\n"
        )
    return 0.0


def make_noise(text: str) -> None:
    """Write `text` to stdout as careless libraries and tools do (SPEC AOX-190).

    It is written through Python's stdout, through descriptor 1, and by a child process that inherits it.
    """
    print(text, flush=True)  # noqa: T201  # imitates a library that should not print
    os.write(1, text.encode() + b"\n")
    os.waitpid(os.posix_spawn("/bin/echo", ["echo", text], os.environ), 0)
