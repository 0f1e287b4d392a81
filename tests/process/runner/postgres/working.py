"""Real workers of a database."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.process.runner.cli.calling import SECONDS, Ao


@contextmanager
def working(ao: Ao, store: str, *options: str, **variables: str) -> Iterator["subprocess.Popen[str]"]:
    """Keep a worker working until the end of the block. Its log is the file `log` of the host."""
    environment = ao.environment() | {"AO_STORE": store} | variables
    argv = ao.argv("worker", "--log-format", "json", *options)
    with (ao.folder / "log").open("a") as log:
        worker = subprocess.Popen(argv, cwd=ao.folder, env=environment, stderr=log, text=True)
    try:
        yield worker
    finally:
        worker.terminate()
        worker.wait(SECONDS)
