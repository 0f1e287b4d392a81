"""The types that the author of an executor uses: `Executor`, what its functions receive and return, and `RunFailed`.

Public API; import these names from `ao_executors.core`. Nothing here performs anything or imports a model.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TypeAlias

from ao_protocol.errors import RETRYABLE, ErrorType, ExitCode, exit_code_of_failure

if TYPE_CHECKING:  # what takes long to import, or is needed after run_started only
    from pathlib import Path

    from ao_executors.core.emitter import Emitter
    from ao_protocol.contracts.contract import OutputContract
    from ao_protocol.contracts.enforcement import NativeOutput
    from ao_protocol.documents import Description, Invocation, InvocationRefused
    from ao_protocol.events import Result
    from ao_protocol.wire import JsonObject

_CANCEL_GRACE_SECONDS: Final = 10.0
_CLEAN_UP_SHARE: Final = 0.7


@dataclass(frozen=True, slots=True)
class Executor:
    """An executor as data; `serve` makes a program of it.

    Args:
        name: The executor's name; its program is `ao-<name>-exec`.
        version: The executor's own version.
        perform: Receives a task whose parameters, config and schemas are valid, and returns the result or raises
            `RunFailed`. It is cancelled like an asyncio task, and ends what it started within the grace period.
        description: Further fields of `describe`, in their wire form: `capabilities`, `config_schema`, `secrets`, ….
            `config_schema` is a valid Draft-7 schema: `ao conformance run` checks that, a run does not.
        check: Returns a sentence for each thing that is missing for a run, without spending anything; it runs in a
            process of its own. None: no capability `check`.
        warm_up: Imports what `perform` needs. It is called if the process starts before there is an invocation, and
            uses neither network, credentials nor the workspace (SPEC 10).
        connect: Opens what outlives a run. The context is entered before the first `perform`, which finds the value
            as `task.connection`, and left in the same asyncio task before the process ends. It writes no event. With
            the capability `prepare` it may be entered before the invocation arrives (SPEC 4.5).
        starts_mcp_servers: Whether the model gets the blueprint's MCP servers. If not, a run that requires some
            fails (AOX-052).
    """

    name: str
    version: str
    perform: "Perform"
    description: Mapping[str, object] = field(default_factory=dict)
    check: Callable[[], list[str]] | None = None
    warm_up: Callable[[], None] | None = None
    connect: "Callable[[RunContext], AbstractAsyncContextManager[Connection]] | None" = None
    starts_mcp_servers: bool = False

    @property
    def identity(self) -> dict[str, str]:
        """The executor as `describe` and `run_started` name it."""
        return {"name": self.name, "version": self.version}

    @property
    def agent_types(self) -> list[str]:
        """The types of agents that the executor serves."""
        types = self.description.get("agent_types", ["autonomous"])
        return [str(name) for name in types] if isinstance(types, list) else []

    @property
    def secrets(self) -> list[str]:
        """The names of the variables whose values no event may contain."""
        names = self.description.get("secrets")
        return [str(name) for name in names] if isinstance(names, list) else []

    def describe(self) -> "Description":
        """Return the whole description.

        Raises:
            ValidationError: the protocol does not know such a description.
        """
        from ao_protocol.documents import Description  # models, which few runs have a use for

        return Description.model_validate({**self.description, "executor": self.identity})

    def declares(self, capability: str) -> bool:
        """Return whether the description declares a capability that is either true or false."""
        capabilities = self.description.get("capabilities")
        return isinstance(capabilities, Mapping) and capabilities.get(capability) is True


@dataclass(frozen=True, slots=True)
class RunLimits:
    """Limits and control of a run, readable without importing the models. None: the limit is not set.

    `listens`: control lines follow on stdin. `takes_turns`: `turn` lines may be among them.
    `has_mcp_programs`: the blueprint has MCP servers that are programs to be started.
    """

    schema_version: str
    timeout_seconds: float | None = None
    heartbeat_interval_seconds: float | None = None
    cancel_grace_seconds: float = _CANCEL_GRACE_SECONDS
    max_event_bytes: int | None = None
    listens: bool = False
    takes_turns: bool = False
    has_mcp_programs: bool = False

    @classmethod
    def of(cls, schema_version: str, limits: Mapping[str, Any], control: Mapping[str, Any]) -> Self:
        """Return what the valid `limits` and `control` of an invocation say."""

        def seconds(name: str) -> float | None:
            given = limits.get(name)
            return None if given is None else float(given)

        listens = control.get("stdin") == "open"
        return cls(
            schema_version,
            timeout_seconds=seconds("timeout_seconds"),
            heartbeat_interval_seconds=seconds("heartbeat_interval_seconds"),
            cancel_grace_seconds=seconds("cancel_grace_seconds") or _CANCEL_GRACE_SECONDS,
            max_event_bytes=limits.get("max_event_bytes"),
            listens=listens,
            takes_turns=listens and control.get("turns") is True,
        )

    @property
    def clean_up_seconds(self) -> float:
        """The part of the grace period in which work ends what it started; the rest is for the terminal event."""
        return self.cancel_grace_seconds * _CLEAN_UP_SHARE


@dataclass(frozen=True, slots=True)
class RunContext:
    """What is known of a run before anything is asked.

    Everything but `read_invocation` is the same for every run of a process: a turn has its own parameters and
    `run_id`. `system_prompt` is the blueprint's, None if it has none. `config` is the `executor_config`, valid by the
    executor's `config_schema`.
    """

    limits: RunLimits
    system_prompt: str | None
    contract: "OutputContract | None"
    config: "JsonObject"
    project_dir: "Path"
    read_invocation: "Callable[[], Invocation]"

    @property
    def invocation(self) -> "Invocation":
        """The whole invocation. A run that asks a prompt only imports its models at the first access."""
        return self.read_invocation()


@dataclass(frozen=True, slots=True)
class Task(RunContext):
    """What `perform` receives.

    `text` is what the model reads: the prompt or the `<inputs>` block. It or `system_prompt` ends with the demand of
    the output contract, as the contract's strategy says; with the strategy `native` neither does, and the executor
    passes the schema to its provider. `connection` is what `connect` yielded, None without `connect`. `linger` is set
    by conformance tests only; the toolkit awaits it once before the answer.
    """

    text: str
    events: "Emitter"
    connection: "Connection | None" = None
    linger: Callable[[], Awaitable[None]] | None = None


class Connection(Protocol):
    """What an executor keeps from run to run: a connected model session."""

    @property
    def is_alive(self) -> bool:
        """Whether another run can use it. If not, the process ends after the run."""
        ...


class Model(Protocol):
    """A model in the middle of a conversation. `converse` asks it, and asks again if a contract demands it."""

    async def ask(self, text: str) -> "Answer":
        """Send a user message and wait for the answer.

        Args:
            text: The user message, the first time `task.text`.

        Returns:
            The model's last message.

        Raises:
            RunFailed: the model did not deliver.
        """
        ...


@dataclass(frozen=True, slots=True)
class Answer:
    """The last message of a model that was asked once.

    Args:
        text: The whole message.
        message_id: The id of its `message` event.
        stop_reason: Why the model stopped; the result repeats it.
        truncated: A limit cut the message off.
        native: The provider's structured output, if the contract's strategy is `native` and there is any.
        is_said: The text has been written as `message` events. With an output contract it must not be: an invalid
            answer is in no event.

    Raises:
        TypeError: no event could carry the fields.
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
    """A result that is the model's text, without an output contract, at the cost of no import; else use `Result`."""

    text: str
    stop_reason: str


Perform: TypeAlias = "Callable[[Task], Awaitable[Result | TextResult]]"


class RunFailed(Exception):  # the situation, as the protocol words it
    """A run that ends in a `failure` event: the one way to end a run without a result.

    Args:
        error_type: The type of the error in the protocol's registry.
        message: What happened, with the value, then what to do.
        origin: Whose fault it is: `caller`, `model`, `provider`, `tool`, `environment` or `executor`.
        retryable: Whether the same run may succeed later. None: what the registry says of the type.
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
        self.message = message
        self.origin = origin
        self.retryable = error_type in RETRYABLE if retryable is None else retryable
        self.extra = dict(extra or {})

    def __str__(self) -> str:
        return f"{self.error_type}: {self.message}"

    @property
    def status(self) -> str:
        """`cancelled` if the run was asked to end, else `failed`."""
        return "cancelled" if self.error_type is ErrorType.CANCELLED else "failed"

    @property
    def exit_code(self) -> ExitCode:
        """The exit code that agrees with the event."""
        return exit_code_of_failure(self.status, self.error_type, retryable=self.retryable)

    def to_fields(self, side_effects: str) -> dict[str, object]:
        """Return the fields of the `failure` event."""
        error = {
            "type": str(self.error_type),
            "message": self.message,
            "retryable": self.retryable,
            "side_effects": side_effects,
            "origin": self.origin,
        }
        return {"status": self.status, "error": error | self.extra}


def refused(error_type: ErrorType, message: str, details: Mapping[str, object] | None = None) -> RunFailed:
    """Return the failure of an invocation that no work is done for."""
    return RunFailed(error_type, message, origin="caller", extra={"details": details} if details else None)


def as_failure(refusal: "InvocationRefused") -> RunFailed:
    """Return the failure of an invocation that the rules of the protocol refuse."""
    extra: dict[str, object] = {"validation_errors": list(refusal.validation_errors), "details": refusal.details}
    present = {name: value for name, value in extra.items() if value}
    return RunFailed(refusal.error_type, refusal.message, origin="caller", extra=present)


def cancelled(reason: str) -> RunFailed:
    """Return the failure of a run that was asked to end."""
    return RunFailed(ErrorType.CANCELLED, f"the run was cancelled: {reason}", origin="caller")
