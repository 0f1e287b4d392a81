"""Makes the project of a new executor from a template. Knows files, not the command line."""

import re
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

NAME_PLACEHOLDER: Final = "__NAME__"
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")

BUILD: Final[dict[str, tuple[str, ...]]] = {
    "python": (),
    "node": (),
    "bash": (),
    "go": ("go build -o {executable} .",),
    "rust": ("cargo build --release", "cp target/release/{executable} ."),
}
"""By language, the commands that make the executable, to be run in the project."""

PLACES: Final = {"gitignore": ".gitignore", "ci.yml": ".github/workflows/ci.yml"}
"""Where a file of a template goes whose own name would mean something already in the template's place."""


@dataclass(eq=False)
class ProjectError(ValueError):
    """A project that cannot be made, and why."""


@dataclass(eq=False)
class NameNotAllowed(ProjectError):
    """The executable could not be called that."""

    name: str

    def __str__(self) -> str:
        return f"{self.name!r} cannot be the name of an executor; take small letters, digits, '-' and '_': --name NAME"


@dataclass(eq=False)
class PlaceTaken(ProjectError):
    """There is something in the place already, and nothing is overwritten."""

    path: Path

    def __str__(self) -> str:
        return f"{self.path} is there already and not empty; nothing was written. Name a folder that is new"


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
    contents = read_template(language, name)
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise PlaceTaken(folder)
    for place, text in contents.items():
        path = folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755 if text.startswith("#!") else 0o644)
    return Project(name, language, folder, tuple(sorted(contents)))


def read_template(language: str, name: str) -> dict[str, str]:
    """Return the files of a language's project by their paths within it, with the executor's name put in."""
    root = files("ao_executors.scaffold") / "templates" / language
    return {
        _place(path).replace(NAME_PLACEHOLDER, name): entry.read_text(encoding="utf-8").replace(NAME_PLACEHOLDER, name)
        for path, entry in _walk(root, "")
    }


def _walk(folder: Traversable, prefix: str) -> list[tuple[str, Traversable]]:
    found: list[tuple[str, Traversable]] = []
    for entry in folder.iterdir():
        path = prefix + entry.name
        found += _walk(entry, f"{path}/") if entry.is_dir() else [(path, entry)]
    return found


def _place(path: str) -> str:
    return PLACES.get(path, path)
