"""A pipe that tells when the last process which holds it is gone."""

import os
import select
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def held_pipe() -> Iterator[tuple[int, int]]:
    """Yield the ends of a pipe: the reading one ends when nobody has the writing one any more."""
    reading, writing = os.pipe()
    try:
        yield reading, writing
    finally:
        os.close(reading)


def assert_everybody_is_gone(reading: int) -> None:
    poll = select.poll()
    poll.register(reading, select.POLLIN)
    assert poll.poll(5000), "a descendant is alive"
