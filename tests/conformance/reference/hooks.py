"""What only tests ask for: output of others on descriptor 1, and a run that lasts longer."""

import os
import sys
from collections.abc import Mapping

from watch import Watch


def make_noise(environment: Mapping[str, str]) -> None:
    """Print to stdout as a library and as a child process would, where `AO_CONFORM_NOISE` is 1."""
    if environment.get("AO_CONFORM_NOISE") == "1":
        print("noise of a library", flush=True)  # noqa: T201
        argv = ["sh", "-c", "echo noise of a child process"]
        noisy = os.posix_spawnp("sh", argv, {"PATH": os.environ.get("PATH", os.defpath)})
        os.waitpid(noisy, 0)
        sys.stdout.flush()


def linger(environment: Mapping[str, str], watch: Watch) -> None:
    """Work for `AO_CONFORM_LINGER_SECONDS` longer."""
    seconds = environment.get("AO_CONFORM_LINGER_SECONDS")
    if seconds:
        watch.attend({}, "model", float(seconds))
