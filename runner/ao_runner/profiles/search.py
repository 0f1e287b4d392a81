"""Where profiles are: a folder of the host's choice (AO_PROFILES), the home's own folder, or any file."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from ao_protocol.json_path import ROOT, below
from ao_protocol.wire import JsonObject, problems_of
from ao_runner.blueprints.loading import UnreadableFile, load_object
from ao_runner.discovery.locate import ExecutorNotFound, expanded, locate_executor
from ao_runner.errors import RunnerError
from ao_runner.profiles.profile import PARTS, Profile, ProfilePart

FOLDER_NAME: Final = "profiles"
FOLDER_VARIABLE: Final = "AO_PROFILES"
SUFFIXES: Final = (".yaml", ".yml", ".json")


@dataclass(frozen=True, slots=True)
class FoundProfile:
    """A file that holds a profile, or one that should and why it does not."""

    name: str
    path: Path
    profile: Profile | None
    problem: str | None = None


@dataclass(eq=False)
class InvalidProfile(RunnerError):
    """A file whose fields are not those of a profile."""

    path: Path
    problems: Sequence[str]

    def __str__(self) -> str:
        return "\n".join([f"{self.path} is not a valid profile:", *(f"  {problem}" for problem in self.problems)])


@dataclass(eq=False)
class ProfileNotFound(RunnerError):
    """Neither a profile nor an executor is known by that name."""

    wanted: str
    profiles: Sequence[str]
    executors: Sequence[str]
    folder: Path

    def __str__(self) -> str:
        close = difflib.get_close_matches(self.wanted, [*self.profiles, *self.executors], n=1)
        meant = f" Did you mean {close[0]!r}?" if close else ""
        return (
            f"no profile or executor is called {self.wanted!r}; profiles: {', '.join(self.profiles) or 'none'}; "
            f"executors: {', '.join(self.executors) or 'none'}.{meant} "
            f"Write {self.folder / self.wanted}.yaml, or give the path of a profile or an executor"
        )


@dataclass(eq=False)
class ProfileFolderUnreadable(RunnerError):
    """A folder of profiles cannot be looked into."""

    folder: Path
    reason: str

    def __str__(self) -> str:
        return (
            f"no profiles can be read from {self.folder}: {self.reason}; correct {FOLDER_VARIABLE} or its permissions"
        )


@dataclass(eq=False)
class ProfileStandsTwice(RunnerError):
    """One folder holds several files for one profile."""

    paths: Sequence[Path]

    def __str__(self) -> str:
        return f"the profile {self.paths[0].stem} is defined in {' and '.join(map(str, self.paths))}; keep only one"


def load_profile(name_or_path: str, home: Path, environ: Mapping[str, str]) -> Profile:
    """Return the profile that a name or a path means.

    What ends in .yaml, .yml or .json is the file of a profile; any other path is an executor's. A name is that of a
    profile, below AO_PROFILES first and then below `home`, or else that of an executor. An executor comes with the
    default profile. Paths inside of a profile count from its own folder.

    Raises:
        ProfileNotFound: with the names that there are.
        ExecutorNotFound: the path leads to no executable.
        UnreadableFile: there is no object to be read.
        InvalidProfile: naming every field that is wrong, what was found and what was expected.
        ProfileFolderUnreadable: AO_PROFILES names no folder.
        ProfileStandsTwice: one folder has it in two files.
    """
    if name_or_path.endswith(SUFFIXES):
        return read_profile(expanded(name_or_path))
    if "/" in name_or_path:
        executor = locate_executor(name_or_path)
        return Profile(name=executor.name, executor=str(executor.path))
    folders = profile_folders(home, environ)
    for folder in folders:
        if files := _files_called(name_or_path, folder):
            return read_profile(_only(files))
    try:
        return Profile.of_executor(locate_executor(name_or_path).name)
    except ExecutorNotFound as error:
        profiles = [found.name for found in list_profiles(home, environ)]
        raise ProfileNotFound(name_or_path, profiles, error.available, folders[0]) from error


def list_profiles(home: Path, environ: Mapping[str, str]) -> list[FoundProfile]:
    """Return every profile, by name, also those that are broken. Of two with one name, the one found first counts.

    Raises:
        ProfileFolderUnreadable: AO_PROFILES names no folder, or one may not be looked into.
    """
    found: dict[str, FoundProfile] = {}
    for folder in profile_folders(home, environ):
        for name in _names_in(folder):
            if name not in found:
                found[name] = _read(name, _files_called(name, folder))
    return [found[name] for name in sorted(found)]


def profile_folders(home: Path, environ: Mapping[str, str]) -> list[Path]:
    """Return where names are looked for, in this order.

    Raises:
        ProfileFolderUnreadable: AO_PROFILES names no folder.
    """
    own = home / FOLDER_NAME
    if not environ.get(FOLDER_VARIABLE):
        return [own]
    chosen = expanded(environ[FOLDER_VARIABLE]).absolute()
    if not chosen.is_dir():
        raise ProfileFolderUnreadable(chosen, "it is not a folder")
    return [chosen, own]


def read_profile(path: Path) -> Profile:
    """Read the file of a profile, which is a regular one: it is read again by workers, and by later runs of a session.

    Raises:
        UnreadableFile: there is no object to be read.
        InvalidProfile: naming every field that is wrong, what was found and what was expected.
    """
    document = load_object(path, may_wait=False)
    known, problems = _without_unknown_fields(document)
    try:
        profile = Profile.model_validate(known | {"name": path.stem})
    except ValidationError as error:
        raise InvalidProfile(path, [*problems, *problems_of(error, document)]) from error
    if problems:
        raise InvalidProfile(path, problems)
    return _with_paths_from(path.absolute().parent, profile)


def _without_unknown_fields(document: JsonObject, where: tuple[str, ...] = ()) -> tuple[JsonObject, list[str]]:
    fields = _fields_of(PARTS[where])
    known: JsonObject = {}
    problems: list[str] = []
    for name, value in document.items():
        if name not in fields:
            problems.append(f"{reduce(below, (*where, name), ROOT)}: {_unknown(name, where, fields)}")
        elif isinstance(value, dict) and (*where, name) in PARTS:
            known[name], inner = _without_unknown_fields(value, (*where, name))
            problems += inner
        else:
            known[name] = value
    return known, problems


def _unknown(name: str, where: tuple[str, ...], fields: Sequence[str]) -> str:
    if (*where, name) == ("name",):
        return "unknown field; a profile is called what its file is called"
    elsewhere = [
        ".".join((*part, name)) for part, model in PARTS.items() if part != where and name in _fields_of(model)
    ]
    close = difflib.get_close_matches(name, fields, n=1)
    meant = f"did you mean {(elsewhere or close)[0]!r}?" if elsewhere or close else f"expected {', '.join(fields)}"
    return f"unknown field; {meant}"


def _fields_of(part: type[ProfilePart]) -> list[str]:
    names = [field.alias or name for name, field in part.model_fields.items()]
    return [name for name in names if not (part is Profile and name == "name")]


def _with_paths_from(folder: Path, profile: Profile) -> Profile:
    executor = str(folder / expanded(profile.executor)) if "/" in profile.executor else profile.executor
    warm = profile.warm
    if warm is not None and warm.blueprint is not None:
        warm = warm.model_copy(update={"blueprint": str(folder / expanded(warm.blueprint))})
    return profile.model_copy(update={"executor": executor, "warm": warm})


def _read(name: str, files: Sequence[Path]) -> FoundProfile:
    try:
        return FoundProfile(name, files[0], read_profile(_only(files)))
    except (InvalidProfile, ProfileStandsTwice, UnreadableFile) as error:
        return FoundProfile(name, files[0], None, str(error))


def _only(files: Sequence[Path]) -> Path:
    if len(files) > 1:
        raise ProfileStandsTwice(files)
    return files[0]


def _names_in(folder: Path) -> list[str]:
    try:
        return sorted({path.stem for path in folder.iterdir() if path.suffix in SUFFIXES and path.is_file()})
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ProfileFolderUnreadable(folder, error.strerror or str(error)) from error


def _files_called(name: str, folder: Path) -> list[Path]:
    try:
        return [path for suffix in SUFFIXES if (path := folder / f"{name}{suffix}").is_file()]
    except OSError:
        return []  # no file can be called so
