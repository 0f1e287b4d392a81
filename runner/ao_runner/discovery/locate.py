"""Find executors: a name becomes the path of `ao-<name>-exec`; whoever writes a slash means a file (SPEC 7)."""

import difflib
import os
import re
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ao_runner.errors import RunnerError

EXECUTABLE_NAME: Final = re.compile(r"ao-(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)-exec")

BRIDGE: Final = "http"
"""`ao-http-exec` runs executors for a runner of the older HTTP contract; it is no executor of this protocol itself."""


@dataclass(frozen=True, slots=True)
class Executor:
    """An executable that performs runs, and what it is called here."""

    name: str
    path: Path


@dataclass(eq=False)
class ExecutorNotFound(RunnerError):
    """No executable is known by that name, or the path leads to none."""

    wanted: str
    available: Sequence[str]

    def __str__(self) -> str:
        if "/" in self.wanted:
            return f"{self.wanted} is not an executable file; check the path and its permissions (chmod +x)"
        listed = ", ".join(self.available) or "none"
        close = difflib.get_close_matches(self.wanted, self.available, n=1)
        meant = f" Did you mean {close[0]!r}?" if close else ""
        return (
            f"no executor is called {self.wanted!r}; available: {listed}.{meant} "
            f"Put ao-{self.wanted}-exec on PATH, or give a path that contains a slash"
        )


def locate_executor(name_or_path: str, folders: Sequence[Path] | None = None) -> Executor:
    """Return the executor that a name or a path means.

    `folders` are searched in order; by default the folder of this installation's scripts, then PATH.

    Raises:
        ExecutorNotFound: with the names that there are.
    """
    if "/" in name_or_path:
        path = Path(os.path.abspath(expanded(name_or_path)))  # noqa: PTH100  # a symlink keeps its own name
        if not _is_executable(path):
            raise ExecutorNotFound(name_or_path, [])
        return Executor(_name_of(path), path)
    available = list_executors(folders)
    whole_name = EXECUTABLE_NAME.fullmatch(name_or_path)
    name = whole_name["name"] if whole_name and name_or_path not in available else name_or_path
    if name not in available:
        raise ExecutorNotFound(name_or_path, sorted(available))
    return available[name]


def expanded(path: str) -> Path:
    """Return a path with `~` and `~user` replaced; that of an unknown user stays as it is, and leads nowhere."""
    return Path(os.path.expanduser(path))  # noqa: PTH111  # pathlib's raises


def list_executors(folders: Sequence[Path] | None = None) -> dict[str, Executor]:
    """Return every executor that can be found, by its name. Of two with one name, the one found first counts."""
    found: dict[str, Executor] = {}
    for folder in search_folders() if folders is None else folders:
        for executor in _executors_in(folder):
            found.setdefault(executor.name, executor)
    found.pop(BRIDGE, None)
    return dict(sorted(found.items()))


def search_folders() -> list[Path]:
    """Return where executors are looked for: beside this installation's own commands, then along PATH."""
    along_path = [Path(entry) for entry in os.environ.get("PATH", os.defpath).split(os.pathsep) if entry]
    return list(dict.fromkeys([Path(sysconfig.get_path("scripts")), *along_path]))


def _executors_in(folder: Path) -> Iterator[Executor]:
    try:
        names = sorted(entry.name for entry in os.scandir(folder) if EXECUTABLE_NAME.fullmatch(entry.name))
    except OSError:
        return  # PATH often names folders that are not there or not readable
    for name in names:
        if _is_executable(folder / name):
            yield Executor(_name_of(folder / name), folder / name)


def _name_of(path: Path) -> str:
    named = EXECUTABLE_NAME.fullmatch(path.name)
    return named["name"] if named else path.stem


def _is_executable(path: Path) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)  # noqa: PTH113  # a Path raises for too long a name
