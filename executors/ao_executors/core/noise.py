"""What careless libraries and tools do to stdout: a run has to bear it, and tests bring it about (SPEC AOX-190)."""

import os


def make_noise(text: str) -> None:
    """Write `text` the three ways: by Python's stdout, by descriptor 1, and by a child process that inherits it."""
    print(text, flush=True)  # noqa: T201  # what a library should not do
    os.write(1, text.encode() + b"\n")
    os.waitpid(os.posix_spawn("/bin/echo", ["echo", text], os.environ), 0)
