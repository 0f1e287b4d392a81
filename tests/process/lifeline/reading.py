"""How tests read what a child writes: until a mark comes, and never for ever."""

import selectors

from ao_runner.processes.spawn import Child, read_available

SECONDS = 100.0


def read_until(child: Child, mark: bytes, *, or_end: bool = False) -> bytes:
    """Return what a child has written to stdout when the mark came, or its stdout ended where that may be."""
    read = b""
    with selectors.DefaultSelector() as selector:
        selector.register(child.stdout_fd, selectors.EVENT_READ)
        while mark not in read:
            assert selector.select(SECONDS), f"no {mark!r} in {read!r}"
            chunk = read_available(child.stdout_fd)
            if chunk == b"":
                assert or_end, f"the end came, and no {mark!r} in {read!r}"
                break
            read += chunk or b""
    return read
