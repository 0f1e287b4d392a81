"""Where a limit is too small the failure names it, and the profile that holds it."""

from pathlib import Path
from typing import Any

import pytest

from ao_protocol.events import ErrorInfo, Failure
from ao_runner.profiles import Profile, ProfileLimits
from ao_runner.runs.outcome import with_limit_named
from tests.process.lifeline.offered import needs
from tests.process.runner.performing import perform

SMALL = Profile(name="small", executor="x", limits=ProfileLimits(memory_bytes=256 << 20))
LIMIT = "the profile 'small' allows each process 256 MiB of address space (limits.memory_bytes)"


def failed(message: str, **details: Any) -> Failure:
    error = ErrorInfo(type="internal_error", message=message, retryable=False, side_effects="none", origin="executor")
    return Failure(status="failed", error=error.model_copy(update={"details": details or None}))


@pytest.mark.parametrize(
    "failure",
    [
        failed("MemoryError: "),
        failed("OSError: [Errno 12] Cannot allocate memory: '/lib/x'"),
        failed("it exited with code 127", stderr_tail="libc.so.6: failed to map segment from shared object\n"),
        failed("it was ended by SIGABRT", stderr_tail="memory allocation of 64 bytes failed\n"),
    ],
)
def test_what_tells_of_missing_memory_names_the_limit(failure: Failure) -> None:
    named = with_limit_named(failure, SMALL)

    assert isinstance(named, Failure)
    assert named.error.message.startswith(failure.error.message.rstrip(" :"))
    assert LIMIT in named.error.message


@pytest.mark.parametrize(
    ("limits", "words", "allowed"),
    [
        (ProfileLimits(open_files=3), "OSError: [Errno 24] Too many open files", "3 open files (limits.open_files)"),
        (ProfileLimits(cpu_seconds=0.5), "it was ended by SIGXCPU", "0.5 s of processor time (limits.cpu_seconds)"),
        (ProfileLimits(file_bytes=1), "it was ended by SIGXFSZ", "files of 1 bytes (limits.file_bytes)"),
    ],
    ids=["files", "time", "room"],
)
def test_the_other_limits_are_named_by_their_own_words(limits: ProfileLimits, words: str, allowed: str) -> None:
    profile = Profile(name="small", executor="x", limits=limits)

    named = with_limit_named(failed(words), profile)

    assert isinstance(named, Failure)
    assert f"the profile 'small' allows each process {allowed}, which may be too little" in named.error.message
    assert with_limit_named(failed(words), SMALL) == failed(words)


def test_where_nothing_tells_of_memory_or_there_is_no_limit_a_failure_stays_as_it_is() -> None:
    other, short = failed("it exited with code 1", stderr_tail="KeyError: 'memory'"), failed("MemoryError: ")

    assert with_limit_named(other, SMALL) is other
    assert with_limit_named(short, None) is short
    assert with_limit_named(short, Profile.of_executor("x")) is short


@needs("lifeline")
def test_a_run_that_dies_of_its_limit_says_which(tmp_path: Path) -> None:
    terminal = perform("wants_too_much_memory", tmp_path, profile=SMALL).terminal

    assert isinstance(terminal, Failure)
    assert terminal.error.type == "missing_terminal"
    assert LIMIT in terminal.error.message
