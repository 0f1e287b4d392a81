"""Create the project of a new executor from the example in its language. Independent of the command line.

An example contains its own name as `ao-<language>-exec` and in quotes; nothing else in it is changed.
README and CI file come from templates.
"""

import re
from collections.abc import Set
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


@dataclass(frozen=True, slots=True)
class Language:
    """A language: its requirements, the source file to edit, and the shell commands that build a project."""

    needs: str
    source: str = "{executable}"
    build: tuple[str, ...] = ()
    ci: tuple[str, ...] = ()
    """Commands of the CI file before the build, on Ubuntu."""


LANGUAGES: Final[dict[str, Language]] = {
    "bash": Language("bash 4 and jq 1.6"),
    "c": Language(
        "a C11 compiler and jansson (`libjansson-dev` in Debian)",
        source="{executable}.c",
        build=("cc -std=c11 -O2 -Wall -Wextra -Wpedantic -o {executable} {executable}.c -ljansson",),
        ci=("sudo apt-get update && sudo apt-get install -y libjansson-dev",),
    ),
    "go": Language("Go 1.19", source="main.go", build=("go build -o {executable} .",)),
    "node": Language("Node 20"),
    "perl": Language("Perl 5.26"),
    "php": Language("PHP 8.1 on the command line"),
    "python": Language("Python 3.8"),
    "ruby": Language("Ruby 2.7"),
    "rust": Language(
        "Rust 1.63 and the crate `serde_json`",
        source="src/main.rs",
        build=("cargo build --release", "cp target/release/{executable} ."),
    ),
}


class ProjectError(ValueError):
    """A project that cannot be created, with the reason. Nothing is written."""


@dataclass(frozen=True, slots=True)
class Project:
    """A created project: its folder, and its files as sorted relative paths."""

    name: str
    language: str
    folder: Path
    files: tuple[str, ...]

    @property
    def executable(self) -> str:
        """The name of the executable, which the build writes to `folder`."""
        return f"ao-{self.name}-exec"

    @property
    def next_steps(self) -> tuple[str, ...]:
        """The commands that build and check the executor, to be run in `folder`."""
        return (*build_commands(self.language, self.name), f"ao conformance run -- ./{self.executable}")


def build_commands(language: str, name: str) -> tuple[str, ...]:
    """Return the shell commands that build the executable `ao-<name>-exec`, to be run in the project."""
    return tuple(command.format(executable=f"ao-{name}-exec") for command in LANGUAGES[language].build)


def make_project(language: str, folder: Path, name: str | None = None) -> Project:
    """Write the project of an executor called `name`, by default the name of the folder.

    `language` is a key of `LANGUAGES`. The folder may exist if it is empty.

    Raises:
        ProjectError: The name is not valid for an executor, or the folder exists and is not empty.
        OSError: The folder cannot be written.
    """
    name = name if name is not None else folder.resolve().name
    if not _NAME.fullmatch(name):
        message = f"{name!r} is not a valid executor name; use lowercase letters, digits, '-' and '_': --name NAME"
        raise ProjectError(message)
    contents = read_example(language, name) | fill_templates(language, name)
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise ProjectError(f"{folder} already exists and is not empty; nothing was written. Choose a new folder")
    for place, text in contents.items():
        path = folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755 if text.startswith("#!") else 0o644)
    return Project(name, language, folder, tuple(sorted(contents)))


def read_example(language: str, name: str, examples: Traversable | None = None) -> dict[str, str]:
    """Return the files of a language's example by their relative paths, with the executor called `name`.

    Files in its .gitignore are left out, because they are build products. `examples` defaults to the installed folder.
    """
    root = (examples or _installed_examples()) / language
    listed = root / ".gitignore"
    ignored = {line.rstrip("/") for line in listed.read_text(encoding="utf-8").split()} if listed.is_file() else set()
    own_name = re.compile(rf"""(?<=ao-){language}(?=-exec)|(?<=["']){language}(?=["'])""")
    return {
        own_name.sub(name, path): own_name.sub(name, entry.read_text(encoding="utf-8"))
        for path, entry in _walk(root, "", ignored)
    }


def fill_templates(language: str, name: str) -> dict[str, str]:
    """Return README and CI file of a project, by their relative paths. Words in capitals are replaced."""
    templates = files("ao_executors.scaffold") / "templates"
    readme, ci_file = ((templates / page).read_text(encoding="utf-8") for page in ("README.md", "ci.yml"))
    known, executable, build = LANGUAGES[language], f"ao-{name}-exec", build_commands(language, name)
    words = {
        "NEXT": "\n$ ".join((*build, f"ao conformance run -- ./{executable}")),
        "      # BUILD\n": "".join(f"      - run: {command}\n" for command in (*known.ci, *build)),
        "NEEDS": known.needs,
        "SOURCE": known.source.format(executable=executable),
        "EXECUTABLE": executable,
    }
    for word, text in words.items():
        readme, ci_file = readme.replace(word, text), ci_file.replace(word, text)
    return {"README.md": readme, ".github/workflows/ci.yml": ci_file}


def _installed_examples() -> Traversable:
    """Return the folder of the examples: beside this module in a wheel, beside the package in a clone."""
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
