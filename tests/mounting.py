"""File systems that a test mounts for itself, in user and mount namespaces of its own, so that it need not be root."""

import shutil
import subprocess
import tempfile
from functools import cache
from typing import Final

import pytest

UNSHARED: Final = ("unshare", "--user", "--map-root-user", "--mount")
"""Before a command that may mount. Nobody else sees what it mounts, and it is gone with the command."""
IN_A_MOUNT_OF_ITS_OWN: Final = (*UNSHARED, "sh", "-c")


def require_mounts() -> None:
    """Skip the test where a command behind `UNSHARED` cannot mount a file system, and say why."""
    if reason := _reason_against_mounts():
        pytest.skip(reason)


@cache
def _reason_against_mounts() -> str | None:
    if shutil.which(UNSHARED[0]) is None:
        return "unshare is not there, which lets a test mount a file system; util-linux has it"
    with tempfile.TemporaryDirectory() as folder:
        command = [*IN_A_MOUNT_OF_ITS_OWN, 'mount -t tmpfs none "$0"', folder]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    return f"no file system can be mounted here: {done.stderr.strip()}" if done.returncode else None
