"""A failure for which a limit of the profile is to blame says so. Pure."""

from collections.abc import Iterator
from typing import Final

from ao_protocol.events import Failure, Terminal
from ao_runner.profiles import Limits, Profile

OUT_OF_MEMORY: Final = (
    "MemoryError",
    "Cannot allocate memory",
    "cannot allocate memory",
    "failed to map segment from shared object",
    "memory allocation of",
    "out of memory",
)
"""What Python, the dynamic linker, Rust and Node say when the system gives them no memory."""
OUT_OF_FILES: Final = ("Too many open files", "too many open files", "EMFILE")
OUT_OF_TIME: Final = ("SIGXCPU",)
OUT_OF_ROOM: Final = ("SIGXFSZ", "File too large", "EFBIG")


def with_limit_named(terminal: Terminal, profile: Profile | None) -> Terminal:
    """Return a run's end; a failure whose words tell of a limit names it, and the profile that holds it.

    The words are the error's message and the end of stderr. The error's type stays, for that is the executor's word.
    """
    if not isinstance(terminal, Failure) or terminal.status == "cancelled" or profile is None:
        return terminal
    error = terminal.error
    words = f"{error.message}\n{(error.details or {}).get('stderr_tail', '')}"
    allowed = next((what for signs, what in _allowances(profile.limits) if any(sign in words for sign in signs)), None)
    if allowed is None:
        return terminal
    limit = (
        f"the profile {profile.name!r} allows each process {allowed}, which may be too little: raise it, or remove it"
    )
    message = f"{error.message.rstrip(' :;')}; {limit}"
    return terminal.model_copy(update={"error": error.model_copy(update={"message": message})})


def _allowances(limits: Limits) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield what a profile allows each process, and the words of one that wanted more."""
    if limits.memory_bytes is not None:
        yield OUT_OF_MEMORY, f"{limits.memory_bytes / 2**20:g} MiB of address space (limits.memory_bytes)"
    if limits.open_files is not None:
        yield OUT_OF_FILES, f"{limits.open_files} open files (limits.open_files)"
    if limits.cpu_seconds is not None:
        yield OUT_OF_TIME, f"{limits.cpu_seconds:g} s of processor time (limits.cpu_seconds)"
    if limits.file_bytes is not None:
        yield OUT_OF_ROOM, f"files of {limits.file_bytes} bytes (limits.file_bytes)"
