"""The types for the author of an executor: `Executor`, arguments and results of its functions, and `RunFailed`.

Public API; import these names from `ao_executors.core`. This module performs nothing and imports no pydantic models.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TypeAlias, TypeVar

from ao_protocol.errors import RETRYABLE, ErrorType, ExitCode, exit_code_of_failure

if TYPE_CHECKING:  # slow to import, or needed only after run_started
    from pathlib import Path

    from ao_executors.core.emitter import Emitter
    from ao_executors.core.inputs import Inputs
    from ao_protocol.attachments import Attachment
    from ao_protocol.contracts.contract import OutputContract
    from ao_protocol.contracts.enforcement import NativeOutput
    from ao_protocol.documents import Description, Invocation, InvocationRefused, Limits
    from ao_protocol.events import Result

_CANCEL_GRACE_SECONDS: Final = 10.0
_CLEAN_UP_SHARE: Final = 0.7


@dataclass(frozen=True, slots=True)
class Findings:
    """What `check` has found.

    Args:
        problems: One sentence for each problem that prevents a run, with the remedy behind a semicolon.
        programs: The programs that a run starts, as `{"name", "path", "version"}`; the version may be None.
        remarks: One sentence for each fact that prevents no run, such as a version that nobody has tried.
    """

    problems: list[str]
    programs: list[dict[str, str | None]] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def and_problems(self, problems: list[str]) -> Self:
        """Return the findings with further problems."""
        return replace(self, problems=[*self.problems, *problems])


@dataclass(frozen=True, slots=True)
class Executor:
    """An executor as data; `serve` makes a program of it.

    Args:
        name: The executor's name; its program is `ao-<name>-exec`.
        version: The executor's own version.
        perform: Receives a task whose parameters, config and schemas are valid. Returns the result or raises
            `RunFailed`. It is cancelled like an asyncio task, and ends what it started within the grace period.
        description: Further fields of `describe`, in their wire form: `capabilities`, `config_schema`, `secrets`, ….
            `config_schema` is a valid Draft-7 schema: `ao conformance run` checks that, a run does not.
        check: Returns `Findings`, or one sentence for each problem that prevents a run. It costs nothing and runs in
            its own process. None: no capability `check`.
        warm_up: Imports the modules that `perform` needs. It is called if the process starts before its invocation
            arrives, and uses neither network, credentials nor the workspace (SPEC 10).
        connect: Opens a resource that outlives a run. The context is entered before the first `perform`, which finds
            the value as `task.connection`, and left in the same asyncio task before the process ends. It writes no
            event. With the capability `prepare` it may be entered before the invocation arrives (SPEC 4.5).
        starts_mcp_servers: Whether the executor connects the model to the blueprint's MCP servers. If not, a run that
            requires one fails (AOX-052).
        takes_native: Returns whether the provider takes a schema, which `ao_protocol.contracts.native_schema` returned,
            as native output (AOX-177). None: it takes every schema.
        unkept_limits: `max_turns` or `max_cost_usd`, if the executor cannot keep it, with the reason. A run with such
            a limit is refused (AOX-044).
    """

    name: str
    version: str
    perform: "Perform"
    description: Mapping[str, Any] = field(default_factory=dict)
    check: "Callable[[], Findings | list[str]] | None" = None
    warm_up: Callable[[], None] | None = None
    connect: "Callable[[RunContext], AbstractAsyncContextManager[Connection]] | None" = None
    starts_mcp_servers: bool = False
    takes_native: "Callable[[Mapping[str, Any]], bool] | None" = None
    unkept_limits: Mapping[str, str] = field(default_factory=dict)

    @property
    def identity(self) -> dict[str, str]:
        """The field `executor` of `describe` and `run_started`: name and version."""
        return {"name": self.name, "version": self.version}

    @property
    def agent_types(self) -> list[str]:
        """The types of agents that the executor serves."""
        return list(self.description.get("agent_types", ["autonomous"]))

    @property
    def secrets(self) -> list[str]:
        """The names of the environment variables whose values no event may contain."""
        return list(self.description.get("secrets", ()))

    def describe(self) -> "Description":
        """Return the whole description.

        Returns:
            `description` and `identity` as a model of `ao_protocol.documents`.

        Raises:
            ValidationError: The description is not valid in the protocol.
        """
        from ao_protocol.documents import Description  # pydantic models, which few runs need

        return Description.model_validate({**self.description, "executor": self.identity})

    def declares(self, capability: str) -> bool:
        """Return whether the description declares a boolean capability as true.

        Args:
            capability: Its name, such as `resume`.

        Returns:
            True if it is declared as true; False if it is absent or has any other value.
        """
        return self.description.get("capabilities", {}).get(capability) is True


_Number = TypeVar("_Number", int, float)


def lowest(*limits: _Number | None) -> _Number | None:
    """Return the lowest of the limits that are given; None without one."""
    return min((limit for limit in limits if limit is not None), default=None)


@dataclass(frozen=True, slots=True)
class RunLimits:
    """Limits and control of a run, readable without an import of pydantic models.

    Args:
        schema_version: The version of the invocation, such as `3.0`.
        timeout_seconds: The limit of the run's duration in seconds; None: no limit.
        heartbeat_interval_seconds: The interval of heartbeats in seconds; None: no heartbeats.
        cancel_grace_seconds: The time in seconds within which a cancelled run ends.
        max_event_bytes: The limit of an event line in bytes; None: the protocol's default.
        listens: Control lines follow on stdin.
        takes_turns: `turn` lines may be among the control lines.
        takes_input: Every `input_requested` will be answered.
        has_mcp_programs: The blueprint has MCP servers of the type `stdio`.
    """

    schema_version: str
    timeout_seconds: float | None = None
    heartbeat_interval_seconds: float | None = None
    cancel_grace_seconds: float = _CANCEL_GRACE_SECONDS
    max_event_bytes: int | None = None
    listens: bool = False
    takes_turns: bool = False
    takes_input: bool = False
    has_mcp_programs: bool = False

    @classmethod
    def of(cls, schema_version: str, limits: Mapping[str, Any], control: Mapping[str, Any]) -> Self:
        """Return the limits of an invocation.

        Args:
            schema_version: The version of the invocation.
            limits: Its valid `limits`.
            control: Its valid `control`.

        Returns:
            The limits, with `has_mcp_programs` False.
        """
        names = ("timeout_seconds", "heartbeat_interval_seconds", "cancel_grace_seconds")
        seconds: Any = {name: float(limits[name]) for name in names if limits.get(name) is not None}
        listens = control.get("stdin") == "open"
        return cls(
            schema_version,
            **seconds,
            max_event_bytes=limits.get("max_event_bytes"),
            listens=listens,
            takes_turns=listens and control.get("turns") is True,
            takes_input=listens and control.get("input") is True,
        )

    @property
    def clean_up_seconds(self) -> float:
        """The part of the grace period, in seconds, for ending started programs; the rest is for the terminal event."""
        return self.cancel_grace_seconds * _CLEAN_UP_SHARE


@dataclass(frozen=True, slots=True)
class RunContext:
    """The settings of a run, without its prompt.

    Everything but the invocation is the same for every run of a process: a turn has its own parameters and `run_id`.

    Args:
        limits: The limits of the run.
        system_prompt: The blueprint's system prompt, with the demand of the output contract under the strategy
            `system_prompt`; None if both are absent.
        contract: The output contract that the executor keeps; None if it keeps none.
        config: The `executor_config`, valid by the executor's `config_schema`.
        project_dir: The directory in which the agent works. It exists.
        read_invocation: Returns the whole invocation; use `invocation`.
    """

    limits: RunLimits
    system_prompt: str | None
    contract: "OutputContract | None"
    config: dict[str, Any]
    project_dir: "Path"
    read_invocation: "Callable[[], Invocation]"

    @property
    def invocation(self) -> "Invocation":
        """The whole invocation. In a run with only a prompt, the first access imports the pydantic models."""
        return self.read_invocation()


@dataclass(frozen=True, slots=True)
class Task(RunContext):
    """The argument of `perform`: a `RunContext` with the text for the model.

    The contract's strategy decides whether `text` or `system_prompt` ends with the demand of the output contract. Under
    the strategy `native` neither does, and the executor passes the schema to its provider.

    Args:
        text: The user message for the model: the prompt or the `<inputs>` block.
        events: The emitter of the run.
        attachments: The files beside the text. They can be read, and their media types are declared.
        inputs: The requests of the run to a person.
        connection: The value that `connect` yielded; None without `connect`.
        linger: Set by conformance tests only; the toolkit awaits it before it uses an answer.
    """

    text: str
    events: "Emitter"
    inputs: "Inputs"
    attachments: "Sequence[Attachment]" = ()
    connection: "Connection | None" = None
    linger: Callable[[], Awaitable[None]] | None = None


class Connection(Protocol):
    """A connected model session, which an executor keeps from run to run."""

    @property
    def is_alive(self) -> bool:
        """Whether another run can use it. If not, the process ends after the run."""
        ...


class Model(Protocol):
    """A model in a conversation. `converse` asks it, and asks again if the output contract demands it."""

    async def ask(self, text: str) -> "Answer":
        """Send a user message and wait for the answer.

        Args:
            text: The user message, the first time `task.text`.

        Returns:
            The model's last message.

        Raises:
            RunFailed: The model returned no answer.
        """
        ...


@dataclass(frozen=True, slots=True)
class Answer:
    """The last message of a model that was asked once.

    Args:
        text: The whole message.
        message_id: The id of its `message` event; not empty.
        stop_reason: Why the model stopped; not empty. The result repeats it.
        truncated: A limit cut the message off.
        native: The provider's structured output, if the contract's strategy is `native` and the provider returned any.
        is_said: The text has been written as `message` events. This is not allowed under an output contract, because
            an invalid answer must not appear in an event.

    Raises:
        TypeError: A field has a wrong type, or `message_id` or `stop_reason` is empty.
    """

    text: str
    message_id: str
    stop_reason: str = "end_turn"
    truncated: bool = False
    native: "NativeOutput | None" = None
    is_said: bool = False

    def __post_init__(self) -> None:
        for name, given in (("message_id", self.message_id), ("stop_reason", self.stop_reason)):
            if not isinstance(given, str) or not given:
                raise TypeError(f"Answer.{name} is {given!r}; expected a text that is not empty")
        if not isinstance(self.text, str):
            raise TypeError(f"Answer.text is {self.text!r}; expected a text")


@dataclass(frozen=True, slots=True)
class TextResult:
    """A text result without an output contract, which needs no import of pydantic models. Otherwise use `Result`.

    Args:
        text: The answer, `result_text` on the wire.
        stop_reason: Why the model stopped.
    """

    text: str
    stop_reason: str


Perform: TypeAlias = "Callable[[Task], Awaitable[Result | TextResult]]"


class RunFailed(Exception):  # the situation, as the protocol words it
    """A run that ends in a `failure` event: the only way to end a run without a result.

    Args:
        error_type: The type of the error in the protocol's registry.
        message: What happened, with the value, then what to do.
        origin: The cause: `caller`, `model`, `provider`, `tool`, `environment` or `executor`.
        retryable: Whether the same run may succeed later. None: the default of the type in the registry.
        extra: Further fields of the wire's `error`: `retry_after_seconds`, `validation_errors`, `details`.
    """

    def __init__(
        self,
        error_type: ErrorType,
        message: str,
        *,
        origin: str,
        retryable: bool | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(error_type, message)
        self.error_type = error_type
        self.message = message or f"{error_type}, and nothing is told about it"  # the protocol demands a text
        self.origin = origin
        self.retryable = error_type in RETRYABLE if retryable is None else retryable
        self.extra = dict(extra or {})

    def __str__(self) -> str:
        return f"{self.error_type}: {self.message}"

    @property
    def status(self) -> str:
        """`cancelled` if the error type is `cancelled`, else `failed`."""
        return "cancelled" if self.error_type is ErrorType.CANCELLED else "failed"

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of the failure (SPEC 6.4)."""
        return exit_code_of_failure(self.status, self.error_type, retryable=self.retryable)

    def to_fields(self, side_effects: str) -> dict[str, object]:
        """Return the fields of the `failure` event.

        Args:
            side_effects: `none` or `possible`.

        Returns:
            `status` and `error` in their wire form.
        """
        error = {
            "type": str(self.error_type),
            "message": self.message,
            "retryable": self.retryable,
            "side_effects": side_effects,
            "origin": self.origin,
        }
        return {"status": self.status, "error": error | self.extra}


def refused(error_type: ErrorType, message: str, details: Mapping[str, object] | None = None) -> RunFailed:
    """Return the failure of a refused invocation."""
    return RunFailed(error_type, message, origin="caller", extra={"details": details} if details else None)


class NativeRefused(RunFailed):  # the situation, as the protocol words it
    """The provider does not take the contract's schema as native output. Nothing was done yet.

    The toolkit then asks by the strategy `prompt`, in the same run, if the strategy of the run is `auto` (SPEC 9.6).

    Args:
        why: What the provider said.
    """

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(
            ErrorType.UNSUPPORTED_CAPABILITY,
            f"the provider does not take this schema as native output ({why}); use another strategy",
            origin="caller",
            extra={"details": {"missing": ["output_schema.strategies:native"]}},
        )


def refuse_unkept_limits(limits: "Limits", unkept: Mapping[str, str]) -> None:
    """Raise RunFailed (`unsupported_capability`) if a limit is set that is among `unkept`, which has the reasons."""
    missing = {name: why for name, why in unkept.items() if getattr(limits, name) is not None}
    if missing:
        told = "; ".join(f"limits.{name} cannot be kept: {why}" for name, why in missing.items())
        message = f"{told}; leave it out, or use an executor that keeps it"
        raise refused(ErrorType.UNSUPPORTED_CAPABILITY, message, {"missing": [f"limits.{name}" for name in missing]})


def as_failure(refusal: "InvocationRefused") -> RunFailed:
    """Return the failure for a refusal of `ao_protocol`."""
    extra: dict[str, object] = {"validation_errors": list(refusal.validation_errors), "details": refusal.details}
    present = {name: value for name, value in extra.items() if value}
    return RunFailed(refusal.error_type, refusal.message, origin="caller", extra=present)


def input_required(requests: Sequence[Mapping[str, Any]]) -> RunFailed:
    """Return the failure of a run that was parked with these open requests."""
    names = ", ".join(request["request_id"] for request in requests)
    return RunFailed(
        ErrorType.INPUT_REQUIRED,
        f"the run waits for an answer to {names}; resume the session with input_responses",
        origin="caller",
        extra={"details": {"requests": list(requests)}},
    )


def cancelled(reason: str) -> RunFailed:
    """Return the failure of a cancelled run."""
    return RunFailed(ErrorType.CANCELLED, f"the run was cancelled: {reason}", origin="caller")
