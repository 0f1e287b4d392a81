"""What a profile holds, what it means, and whether an executor can do it. Pure: `search` knows where profiles are."""

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from ao_protocol.contracts import InvalidSchema, check_schema, validate
from ao_protocol.documents import Description, VariableName
from ao_protocol.framing import MAX_SAFE_INTEGER
from ao_protocol.wire import Integer, JsonObject, Name, Seconds

BYTES_IN: Final = {
    "B": 1,
    "kB": 1000,
    "KB": 1000,
    "MB": 1000**2,
    "GB": 1000**3,
    "TB": 1000**4,
    "KiB": 1024,
    "MiB": 1024**2,
    "GiB": 1024**3,
    "TiB": 1024**4,
}

_SIZE: Final = re.compile(r"(?P<number>[0-9]{1,15}(?:\.[0-9]{1,3})?) ?(?P<unit>[A-Za-z]{1,3})")


def bytes_from(written: object) -> object:
    """Return the bytes that a text means; anything else is passed on as it is.

    Raises:
        ValueError: the text is no size.
    """
    if not isinstance(written, str):
        return written
    parts = _SIZE.fullmatch(written)
    if parts is None or parts["unit"] not in BYTES_IN:
        shown = written if len(written) <= 80 else f"{written[:80]}…"
        raise ValueError(f"expected a number of bytes, or text such as '512MiB' or '2GB', found {shown!r}")
    return int(Decimal(parts["number"]) * BYTES_IN[parts["unit"]])


Bytes = Annotated[Integer, BeforeValidator(bytes_from), Field(ge=1, le=MAX_SAFE_INTEGER)]


Count = Annotated[Integer, Field(ge=1)]
EnvironmentValue = Annotated[str, Field(pattern=r"^[^\x00]*$")]

COORDINATOR_TOKEN: Final = "AO_COORDINATOR_TOKEN"  # noqa: S105  # the name of a variable
RUNNERS_OWN: Final = frozenset({COORDINATOR_TOKEN, "OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"})
"""Variables that hold credentials of the runner itself, which no executor gets (AOX-231)."""


class ProfilePart(BaseModel):
    """Base of a profile and its parts: frozen, and what is not known is refused, so that no limit is lost to a typo."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Variables(ProfilePart):
    """Which variables an executor gets besides those that its description names."""

    passed: list[VariableName] = Field(default=[], alias="pass")
    set: dict[VariableName, EnvironmentValue] = {}


class Limits(ProfilePart):
    """How much a run may use. A limit that is None is not set here: the runner's own holds, where it has one."""

    timeout_seconds: Seconds | None = None
    start_seconds: Seconds | None = None
    idle_seconds: Seconds | None = None
    """Without progress. A heartbeat is none."""
    drain_seconds: Seconds | None = None
    max_event_bytes: Annotated[Bytes, Field(ge=4096)] | None = None
    max_turns: Count | None = None
    max_cost_usd: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    memory_bytes: Bytes | None = None
    open_files: Count | None = None
    processes: Count | None = None
    file_bytes: Bytes | None = None
    cpu_seconds: Annotated[Seconds, Field(le=MAX_SAFE_INTEGER)] | None = None


class Warm(ProfilePart):
    """Processes that are started ahead of the runs they wait for."""

    size: Annotated[Integer, Field(ge=0)]
    max_age_seconds: Seconds | None = None
    blueprint: Name | None = None
    """Path of the blueprint that a waiting process may prepare for."""


class Profile(ProfilePart):
    """An executor and how it is run here."""

    name: Name
    """What its file is called, or its executor where there is no file."""
    executor: Name
    """A name, or a path with a slash in it."""
    description: str | None = None
    config: JsonObject = {}
    """The run's `executor_config`, to be held against the executor's `config_schema`."""
    environment: Variables = Variables()
    secrets: list[VariableName] = []
    """Variables that are passed too, and whose values are never shown."""
    limits: Limits = Limits()
    containment: Literal["auto", "cgroup", "lifeline", "process_group"] = "auto"
    """`auto` is the best that is there. A run that cannot have the one that is named is refused."""
    lifecycle: Literal["one_shot", "persistent"] = "one_shot"
    idle_exit_seconds: Seconds | None = None
    warm: Warm | None = None
    tags: list[Name] = []

    @classmethod
    def of_executor(cls, name: str) -> Self:
        """Return the profile of an executor for which nobody wrote one."""
        return cls(name=name, executor=name)

    @model_validator(mode="after")
    def _says_nothing_idle(self) -> Self:
        if self.idle_exit_seconds is not None and self.lifecycle != "persistent":
            raise ValueError("idle_exit_seconds needs lifecycle: persistent, found one_shot")
        return self

    @model_validator(mode="after")
    def _has_one_source_for_each_variable(self) -> Self:
        twice = [name for name in self.environment.set if name in {*self.environment.passed, *self.secrets}]
        if twice:
            found = ", ".join(twice)
            raise ValueError(f"environment.set holds {found}, which pass or secrets take from the runner; keep one")
        return self

    @model_validator(mode="after")
    def _passes_no_credential_of_the_runner(self) -> Self:
        passed = RUNNERS_OWN & {*self.environment.passed, *self.secrets}
        if found := ", ".join(sorted(passed | ({COORDINATOR_TOKEN} & self.environment.set.keys()))):
            raise ValueError(
                f"environment or secrets hold {found}, expected no credential of the runner itself, which no executor "
                "gets; remove the name, or give the executor a credential of its own under another one"
            )
        return self


PARTS: dict[tuple[str, ...], type[ProfilePart]] = {
    (): Profile,
    ("environment",): Variables,
    ("limits",): Limits,
    ("warm",): Warm,
}
"""Which fields are known where."""


def profile_environment(profile: Profile, environ: Mapping[str, str]) -> dict[str, str]:
    """Return what the profile adds: the variables that it passes, its secrets, and those that it sets itself.

    A variable that `environ` does not hold is left out. These are also the variables that blueprints may name.
    """
    passed = {name: environ[name] for name in _taken(profile) if name in environ}
    return passed | profile.environment.set


def missing_variables(profile: Profile, environ: Mapping[str, str]) -> list[str]:
    """Return the names that the profile passes and `environ` does not hold."""
    return [name for name in _taken(profile) if name not in environ]


def _taken(profile: Profile) -> list[str]:
    return list(dict.fromkeys([*profile.environment.passed, *profile.secrets]))


def problems_with(profile: Profile, description: Description) -> list[str]:
    """Return what of a profile its executor cannot do, each with its place; nothing where they fit."""
    return list(_problems(profile, description))


def config_schema_problem(description: Description) -> str | None:
    """Return why nothing can be held against a description's `config_schema` (AOX-122), or None where it can."""
    try:
        check_schema(description.config_schema)
    except InvalidSchema as error:
        return f"the config_schema of {description.executor.name} is no valid JSON Schema Draft-7: {error}"
    return None


def _problems(profile: Profile, description: Description) -> Iterator[str]:
    name, unusable = description.executor.name, config_schema_problem(description)
    if unusable is not None:
        yield f"$.config: cannot be checked: {unusable}"
    else:
        problems = validate(profile.config, description.config_schema)
        yield from (f"$.config{problem.path.removeprefix('$')}: {problem.message}" for problem in problems)
    if profile.lifecycle == "persistent" and not description.capabilities.multi_turn:
        yield f"$.lifecycle: persistent needs an executor with the capability multi_turn, which {name} does not have"
