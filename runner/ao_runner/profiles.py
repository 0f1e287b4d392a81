"""Profiles: how the host of a runner runs an executor, and how to find their files."""

import difflib
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import reduce
from pathlib import Path
from typing import Annotated, Final, Literal, NamedTuple, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator, model_validator

from ao_protocol.common_settings import Access, settings_said, undeclared_settings
from ao_protocol.contracts import InvalidSchema, check_schema, validate
from ao_protocol.documents import Description, VariableName
from ao_protocol.framing import MAX_SAFE_INTEGER
from ao_protocol.json_path import ROOT, below
from ao_protocol.short_text import shorten
from ao_protocol.wire import Integer, JsonObject, Name, Seconds, problems_of
from ao_runner.blueprints.loading import load_object
from ao_runner.discovery import ExecutorNotFound, did_you_mean, expanded, locate_executor
from ao_runner.durations import seconds_from
from ao_runner.errors import RunnerError
from ao_runner.processes.spawn import filled_in

BYTES_IN: Final = {
    "B": 1,
    "kB": 1000,
    **{f"{letter}B": 1000**power for power, letter in enumerate("KMGT", 1)},
    **{f"{letter}iB": 1024**power for power, letter in enumerate("KMGT", 1)},
}
_SIZE: Final = re.compile(r"(?P<number>[0-9]{1,15}(?:\.[0-9]{1,3})?) ?(?P<unit>[A-Za-z]{1,3})")


def bytes_from(written: object) -> object:
    """Return the number of bytes for a text; return any other value unchanged.

    Raises:
        ValueError: The text is not a size.
    """
    if not isinstance(written, str):
        return written
    parts = _SIZE.fullmatch(written)
    if parts is None or parts["unit"] not in BYTES_IN:
        found = shorten(written, 80)
        raise ValueError(f"expected a number of bytes, or text such as '512MiB' or '2GB', found {found!r}")
    return int(Decimal(parts["number"]) * BYTES_IN[parts["unit"]])


Bytes = Annotated[Integer, BeforeValidator(bytes_from), Field(ge=1, le=MAX_SAFE_INTEGER)]
Duration = Annotated[Seconds, BeforeValidator(seconds_from)]
Count = Annotated[Integer, Field(ge=1)]
EnvironmentValue = Annotated[str, Field(pattern=r"^[^\x00]*$")]

COORDINATOR_TOKEN: Final = "AO_COORDINATOR_TOKEN"  # noqa: S105  # the name of a variable
RUNNERS_OWN: Final = frozenset({COORDINATOR_TOKEN, "OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"})
"""Variables with credentials of the runner itself, which no executor gets (AOX-231)."""


class ProfilePart(BaseModel):
    """Base of a profile and its parts: frozen, and unknown fields are errors, so that no typo disables a limit.

    A default profile needs no validator, so these are made when the first file is read.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)


class Variables(ProfilePart):
    """The variables that an executor gets in addition to those in its description."""

    passed: list[VariableName] = Field(default=[], alias="pass")
    set: dict[VariableName, EnvironmentValue] = {}


class ProfileLimits(ProfilePart):
    """The limits of a run. None means not set: the runner's default applies, if there is one."""

    timeout_seconds: Duration | None = None
    start_seconds: Duration | None = None
    idle_seconds: Duration | None = None
    """Maximum time without progress. A heartbeat is not progress."""
    drain_seconds: Duration | None = None
    max_event_bytes: Annotated[Bytes, Field(ge=4096)] | None = None
    max_turns: Count | None = None
    max_cost_usd: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    memory_bytes: Bytes | None = None
    open_files: Count | None = None
    processes: Count | None = None
    file_bytes: Bytes | None = None
    cpu_seconds: Annotated[Duration, Field(le=MAX_SAFE_INTEGER)] | None = None


class Warm(ProfilePart):
    """Processes that are started before the runs they wait for."""

    size: Annotated[Integer, Field(ge=0)]
    max_age_seconds: Duration | None = None
    blueprint: Name | None = None
    """Path of the blueprint that a waiting process may prepare for."""


class Sandbox(ProfilePart):
    """A program that starts the executor, and confines it and its tools."""

    command: Annotated[list[EnvironmentValue], Field(min_length=1)]
    """The program and its arguments, before the path of the executor. `SANDBOX_PLACES` may stand in an argument."""

    @field_validator("command")
    @classmethod
    def _has_known_places(cls, command: list[str]) -> list[str]:
        for found in re.findall(r"\{[a-z_]+\}", "\n".join(command)):
            if found not in SANDBOX_PLACES:
                raise ValueError(f"expected one of {', '.join(SANDBOX_PLACES)}, found {found}")
        return command

    def prefix(self, *, project_dir: str, home: str, tmp: str) -> tuple[str, ...]:
        """Return the command for one process."""
        return filled_in(self.command, dict(zip(SANDBOX_PLACES, (project_dir, home, tmp), strict=True)))


SANDBOX_PLACES: Final = ("{project_dir}", "{home}", "{tmp}")
"""The folders of a run: where the agent works, HOME, and TMPDIR, which is its own."""


class InputWait(ProfilePart):
    """How long a run waits for the answer to each of its requests, and what happens then."""

    wait_seconds: Duration
    then: Literal["deny", "cancel", "park"] = "deny"
    """`deny` goes on without the answer, `cancel` ends the run, `park` ends it so that an answer continues it."""


class Profile(ProfilePart):
    """An executor and how it is run here."""

    name: Name
    """The name of its file, or of its executor if there is no file."""
    executor: Name
    """A name, or a path that contains a slash."""
    description: str | None = None
    config: JsonObject = {}
    """The run's `executor_config`, which must match the executor's `config_schema`."""
    model: Name | None = None
    reasoning_effort: Name | None = None
    show_reasoning: bool | None = None
    access: Access | None = None
    allowed_tools: list[Name] | None = None
    additional_folders: list[Name] | None = None
    """As the common settings (SPEC 7); relative folders are relative to the profile's folder."""
    environment: Variables = Variables.model_construct()
    secrets: list[VariableName] = []
    """Variables that are also passed, and whose values are never shown."""
    limits: ProfileLimits = ProfileLimits.model_construct()
    containment: Literal["auto", "cgroup", "lifeline", "process_group"] = "auto"
    """`auto` is the best available one. If the named one is not available, the run is refused."""
    workspace: Literal["none", "worktree", "copy"] = "none"
    """Where the agent works: in `project_dir`, or in a git worktree or a copy of it for each session."""
    sandbox: Sandbox | None = None
    """If it cannot run, the run is refused."""
    lifecycle: Literal["one_shot", "persistent"] = "one_shot"
    idle_exit_seconds: Duration | None = None
    warm: Warm | None = None
    input: InputWait | Literal["deny"] | None = None
    """Whether a run may ask a person. None is `deny`, but `ao run` on a terminal asks there."""
    pause_on_limit: bool = False
    """Whether a failure at a usage limit with a known reset pauses the profile until then, on all hosts."""
    shared_sessions: bool = False
    """Whether the executor keeps its sessions on storage that all hosts share, so that any host can resume them."""
    tags: list[Name] = []

    @classmethod
    def of_executor(cls, name: str, path: str = "") -> "Profile":
        """Return the default profile of an executor with a name, at a path or where the name leads."""
        return cls.model_construct(name=name, executor=path or name)

    @property
    def settings(self) -> JsonObject:
        """The `executor_config` of its runs: `config`, and the common settings, which take precedence over it."""
        return {**self.config, **settings_said(self)}

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if self.idle_exit_seconds is not None and self.lifecycle != "persistent":
            raise ValueError("idle_exit_seconds needs lifecycle: persistent, found one_shot")
        if self.workspace != "none":
            asked = {"lifecycle: persistent": self.lifecycle != "one_shot", "warm": self.warm is not None}
            for name, is_asked in {**asked, "shared_sessions": self.shared_sessions}.items():
                if is_asked:
                    raise ValueError(f"workspace: {self.workspace} belongs to one session on one host; remove {name}")
        taken = {*self.environment.passed, *self.secrets}
        if found := ", ".join(name for name in self.environment.set if name in taken):
            raise ValueError(f"environment.set holds {found}, which pass or secrets take from the runner; keep one")
        passed = RUNNERS_OWN & taken
        if found := ", ".join(sorted(passed | ({COORDINATOR_TOKEN} & self.environment.set.keys()))):
            raise ValueError(
                f"environment or secrets hold {found}, expected no credential of the runner itself, which no executor "
                "gets; remove the name, or give the executor a credential of its own under another one"
            )
        return self


PARTS: dict[tuple[str, ...], type[ProfilePart]] = {
    (): Profile,
    ("environment",): Variables,
    ("limits",): ProfileLimits,
    ("sandbox",): Sandbox,
    ("warm",): Warm,
    ("input",): InputWait,
}
"""The known fields of each part."""


def profile_environment(profile: Profile, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the profile: those that it passes, its secrets, and those that it sets.

    Variables that `environ` lacks are omitted. Blueprints may refer to exactly these variables.
    """
    passed = {name: environ[name] for name in _taken(profile) if name in environ}
    return passed | profile.environment.set


def missing_variables(profile: Profile, environ: Mapping[str, str]) -> list[str]:
    """Return the names that the profile passes and `environ` lacks."""
    return [name for name in _taken(profile) if name not in environ]


def _taken(profile: Profile) -> list[str]:
    return list(dict.fromkeys([*profile.environment.passed, *profile.secrets]))


def config_schema_problem(description: Description) -> str | None:
    """Return why nothing can be validated against a description's `config_schema` (AOX-122), or None."""
    try:
        check_schema(description.config_schema)
    except InvalidSchema as error:
        return f"the config_schema of {description.executor.name} is no valid JSON Schema Draft-7: {error}"
    return None


def problems_with(profile: Profile, description: Description) -> list[str]:
    """Return the parts of a profile that its executor does not support, each with its place."""
    name, unusable = description.executor.name, config_schema_problem(description)
    if unusable is not None:
        problems = [f"$.config: cannot be checked: {unusable}"]
    else:
        settings, own = profile.settings, settings_said(profile)
        found = undeclared_settings(settings, description) or validate(settings, description.config_schema)
        names = [re.split(r"[.\[]", problem.path[2:])[0] for problem in found]
        problems = [
            f"$.config{problem.path[1:]}: {problem.message}" if name not in own else str(problem)
            for name, problem in zip(names, found, strict=True)
        ]
    if profile.lifecycle == "persistent" and not description.capabilities.multi_turn:
        problems.append(
            f"$.lifecycle: persistent needs an executor with the capability multi_turn, which {name} does not have"
        )
    if isinstance(profile.input, InputWait) and (problem := waiting_problem(profile.input, description)):
        problems.append(f"$.input: {problem}")
    return problems


def waiting_problem(wait: InputWait, description: Description) -> str | None:
    """Return why an executor cannot wait for answers as a profile says, or None."""
    name, capabilities = description.executor.name, description.capabilities
    if not capabilities.input:
        return f"expected deny, because {name} does not have the capability input"
    if wait.then == "park" and not capabilities.input_parking:
        return f"then is park, expected deny or cancel, because {name} does not have the capability input_parking"
    return None


FOLDER_NAME: Final = "profiles"
FOLDER_VARIABLE: Final = "AO_PROFILES"
SUFFIXES: Final = (".yaml", ".yml", ".json")


class FoundProfile(NamedTuple):
    """The file of a profile; if the profile is invalid, the file and the problem."""

    name: str
    path: Path
    profile: Profile | None
    problem: str | None = None


class InvalidProfile(RunnerError):
    """A file whose fields are not those of a profile."""

    def __init__(self, path: Path, problems: Sequence[str]) -> None:
        super().__init__("\n".join([f"{path} is not a valid profile:", *(f"  {problem}" for problem in problems)]))


class ProfileNotFound(RunnerError):
    """Neither a profile nor an executor has that name."""


class ProfileFolderUnreadable(RunnerError):
    """A folder of profiles cannot be read."""

    def __init__(self, folder: Path, reason: str) -> None:
        told = f"no profiles can be read from {folder}: {reason}; correct {FOLDER_VARIABLE} or its permissions"
        super().__init__(told)


def with_whole_path(name_or_path: str) -> str:
    """Return the name of a profile as it is, and a path from the root on: the run may be performed elsewhere."""
    is_path = "/" in name_or_path or name_or_path.endswith(SUFFIXES)
    return str(expanded(name_or_path).absolute()) if is_path else name_or_path


def load_profile(name_or_path: str, home: Path, environ: Mapping[str, str]) -> Profile:
    """Return the profile with a name or path.

    A path that ends in .yaml, .yml or .json is the file of a profile; any other path is an executor. A name is that of
    a profile, in AO_PROFILES first and then in `home`, or else that of an executor. An executor has the default
    profile. Paths in a profile are relative to its folder.

    Raises:
        ProfileNotFound: There is none; the error lists the available names.
        ExecutorNotFound: The path leads to no executable.
        UnreadableFile, InvalidProfile: See `read_profile`.
        ProfileFolderUnreadable: AO_PROFILES names no folder.
        RunnerError: One folder contains two files for it.
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
        raise ProfileNotFound(
            f"no profile or executor is called {name_or_path!r}; profiles: {', '.join(profiles) or 'none'}; "
            f"executors: {', '.join(error.available) or 'none'}."
            f"{did_you_mean(name_or_path, [*profiles, *error.available])} "
            f"Write {folders[0] / name_or_path}.yaml, or give the path of a profile or an executor"
        ) from error


def list_profiles(home: Path, environ: Mapping[str, str]) -> list[FoundProfile]:
    """Return every profile by name, including invalid ones. The first one with a name takes precedence.

    Raises:
        ProfileFolderUnreadable: AO_PROFILES names no folder, or a folder may not be read.
    """
    found: dict[str, FoundProfile] = {}
    for folder in profile_folders(home, environ):
        try:
            names = {path.stem for path in folder.iterdir() if path.suffix in SUFFIXES and path.is_file()}
        except FileNotFoundError:
            continue
        except OSError as error:
            raise ProfileFolderUnreadable(folder, error.strerror or str(error)) from error
        for name in names - found.keys():
            files = _files_called(name, folder)
            try:
                found[name] = FoundProfile(name, files[0], read_profile(_only(files)))
            except RunnerError as error:
                found[name] = FoundProfile(name, files[0], None, str(error))
    return [found[name] for name in sorted(found)]


def profile_folders(home: Path, environ: Mapping[str, str]) -> list[Path]:
    """Return the folders to search for names, in order.

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
    """Read the regular file of a profile; workers and later runs of a session read it again.

    Raises:
        UnreadableFile: The file contains no readable object.
        InvalidProfile: Fields are invalid; the error names each with the found and the expected value.
    """
    document = load_object(path, may_wait=False)
    known, problems = _without_unknown_fields(document)
    try:
        profile = Profile.model_validate(known | {"name": path.stem})
    except ValidationError as error:
        raise InvalidProfile(path, [*problems, *problems_of(error, document)]) from error
    if problems:
        raise InvalidProfile(path, problems)
    folder, warm = path.absolute().parent, profile.warm
    executor = str(folder / expanded(profile.executor)) if "/" in profile.executor else profile.executor
    if warm is not None and warm.blueprint is not None:
        warm = warm.model_copy(update={"blueprint": str(folder / expanded(warm.blueprint))})
    folders = profile.additional_folders
    if folders is not None:
        folders = [str(folder / expanded(one)) for one in folders]
    return profile.model_copy(update={"executor": executor, "warm": warm, "additional_folders": folders})


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


def _only(files: Sequence[Path]) -> Path:
    if len(files) > 1:
        raise RunnerError(f"the profile {files[0].stem} is defined in {' and '.join(map(str, files))}; keep only one")
    return files[0]


def _files_called(name: str, folder: Path) -> list[Path]:
    try:
        return [path for suffix in SUFFIXES if (path := folder / f"{name}{suffix}").is_file()]
    except OSError:
        return []  # not a valid file name
