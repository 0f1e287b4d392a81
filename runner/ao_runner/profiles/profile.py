"""What a profile holds. Pure: where profiles are kept is the business of `search`."""

from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ao_protocol.documents import VariableName
from ao_protocol.framing import MAX_SAFE_INTEGER
from ao_protocol.wire import Integer, JsonObject, Name, Seconds
from ao_runner.profiles.sizes import Bytes

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
