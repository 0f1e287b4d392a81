"""Whether a registration that blocks this worker was left by a killed worker of this host.

The server keeps a worker that was killed registered for about 150 s, and its open poll claims runs for up to 30 s.
A worker notes its registration in a file that it keeps locked. The system releases the lock when the process dies,
so a file that is unlocked and names the blocking registration proves that its worker is dead.
"""

import hashlib
import json
import os
from pathlib import Path
from typing import Self

from ao_runner.coordinators.http.identity import RunnerIdentity
from ao_runner.home import make_private, take_lock


class RegistrationNote:
    """The note of one worker's registration. A `with` block owns its file.

    Args:
        folder: Where the notes for one coordinator are; None keeps none, and then nothing is ever proved.
        identity: Whom the server sees.
    """

    def __init__(self, folder: Path | None, identity: RunnerIdentity) -> None:
        who = [identity.hostname, identity.project_dir, identity.profile, identity.command]
        name = hashlib.sha256(json.dumps(who).encode()).hexdigest()[:16]
        self._path = None if folder is None else folder / name
        self._descriptor: int | None = None
        self._left_behind = ""

    def __enter__(self) -> Self:
        """Take the file; another living worker of the same home and identity may have it."""
        if self._path is None or self._descriptor is not None:
            return self
        make_private(self._path.parent)
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if take_lock(descriptor):
            self._descriptor = descriptor
            self._left_behind = os.pread(descriptor, 4096, 0).decode(errors="replace")
        else:
            os.close(descriptor)
        return self

    def __exit__(self, *_: object) -> None:
        """Let go of the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def proves_dead(self, runner_id: str) -> bool:
        """Tell whether the worker that registered as `runner_id` has died without saying goodbye."""
        return runner_id != "" and runner_id == self._left_behind

    def write(self, runner_id: str) -> None:
        """Note the registration; an empty text notes that it has ended."""
        self._left_behind = ""
        if self._descriptor is not None:
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, runner_id.encode(), 0)
