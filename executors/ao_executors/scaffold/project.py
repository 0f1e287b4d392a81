"""Makes the project of a new executor from the example in its language. Knows files, not the command line.

An example says its own name as `ao-<language>-exec`, in quotes, and behind `--executor`; nothing else in it is changed.
"""

import re
from collections.abc import Set
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")

BUILD: Final[dict[str, tuple[str, ...]]] = {
    "bash": (),
    "c": ("cc -std=c11 -O2 -Wall -Wextra -Wpedantic -pthread -o {executable} *.c",),
    "go": ("go build -o {executable} .",),
    "node": (),
    "perl": (),
    "python": (),
    "rust": ("cargo build --release", "cp target/release/{executable} ."),
}
"""By language, the commands that make the executable, to be run by a shell in the project."""


@dataclass(eq=False)
class ProjectError(ValueError):
    """A project that cannot be made, and why."""


@dataclass(eq=False)
class NameNotAllowed(ProjectError):
    """The executable could not be called that."""

    name: str

    def __str__(self) -> str:
        return f"{self.name!r} is not a valid executor name; use lowercase letters, digits, '-' and '_': --name NAME"


@dataclass(eq=False)
class PlaceTaken(ProjectError):
    """There is something in the place already, and nothing is overwritten."""

    path: Path

    def __str__(self) -> str:
        return f"{self.path} already exists and is not empty; nothing was written. Choose a new folder"


@dataclass(frozen=True, slots=True)
class Project:
    """A project that was made: where, and its files as paths within it, sorted."""

    name: str
    language: str
    folder: Path
    files: tuple[str, ...]

    @property
    def executable(self) -> str:
        """Return the name of the executable, which is in `folder` once it is built."""
        return f"ao-{self.name}-exec"

    @property
    def next_steps(self) -> tuple[str, ...]:
        """Return the commands that build and check it, to be run in `folder`."""
        build = (command.format(executable=self.executable) for command in BUILD[self.language])
        return (*build, f"ao conformance run -- ./{self.executable}")


def make_project(language: str, folder: Path, name: str | None = None) -> Project:
    """Write the project of an executor called `name`, by default as the folder is called.

    `language` is a key of `BUILD`. The folder may be there if it is empty.

    Raises:
        NameNotAllowed: before anything is written.
        PlaceTaken: likewise.
        OSError: the folder cannot be written.
    """
    name = name if name is not None else folder.resolve().name
    if not _NAME.fullmatch(name):
        raise NameNotAllowed(name)
    contents = read_example(language, name)
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise PlaceTaken(folder)
    for place, text in contents.items():
        path = folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755 if text.startswith("#!") else 0o644)
    return Project(name, language, folder, tuple(sorted(contents)))


def read_example(language: str, name: str, examples: Traversable | None = None) -> dict[str, str]:
    """Return the files of a language's example by their paths within it, with the executor called `name`.

    What its .gitignore names is left out: it was built there. `examples` is by default the folder that is installed.
    """
    root = (examples or _installed_examples()) / language
    ignored = {line.rstrip("/") for line in (root / ".gitignore").read_text(encoding="utf-8").splitlines()}
    own_name = re.compile(
        rf"""(?<=ao-){language}(?=-exec)|(?<=["'`]){language}(?=\\?["'`])|(?<=--executor ){language}\b"""
    )
    return {
        own_name.sub(name, path): own_name.sub(name, entry.read_text(encoding="utf-8"))
        for path, entry in _walk(root, "", ignored)
    }


def _installed_examples() -> Traversable:
    """Return the folder of the examples: a wheel has it beside this module, a clone beside the package."""
    installed = files("ao_executors.scaffold") / "examples"
    return installed if installed.is_dir() else Path(__file__).parents[2] / "examples"


def _walk(folder: Traversable, prefix: str, ignored: Set[str]) -> list[tuple[str, Traversable]]:
    found: list[tuple[str, Traversable]] = []
    for entry in folder.iterdir():
        if entry.name in ignored:
            continue
        path = prefix + entry.name
        found += _walk(entry, f"{path}/", ignored) if entry.is_dir() else [(path, entry)]
    return found
