"""A failure for which the profile's memory limit is to blame says so. Pure."""

from typing import Final

from ao_protocol.events import Failure, Terminal
from ao_runner.profiles import Profile

OUT_OF_MEMORY: Final = (
    "MemoryError",
    "Cannot allocate memory",
    "cannot allocate memory",
    "failed to map segment from shared object",
    "memory allocation of",
    "out of memory",
)
"""What Python, the dynamic linker, Rust and Node say when the system gives them no memory."""


def with_limit_named(terminal: Terminal, profile: Profile | None) -> Terminal:
    """Return a run's end; a failure whose words tell of missing memory names the limit of the profile, if there is one.

    The words are the error's message and the end of stderr. The error's type stays, for that is the executor's word.
    """
    if not isinstance(terminal, Failure) or terminal.status == "cancelled":
        return terminal
    if profile is None or profile.limits.memory_bytes is None:
        return terminal
    error = terminal.error
    words = f"{error.message}\n{(error.details or {}).get('stderr_tail', '')}"
    if not any(sign in words for sign in OUT_OF_MEMORY):
        return terminal
    limit = (
        f"the profile {profile.name!r} allows each process {profile.limits.memory_bytes / 2**20:g} MiB of address "
        "space (limits.memory_bytes), which may be too little: raise it, or remove it"
    )
    message = f"{error.message.rstrip(' :;')}; {limit}"
    return terminal.model_copy(update={"error": error.model_copy(update={"message": message})})
