"""The documents around events: blueprints, invocations of every version, control lines, descriptions (SPEC 4, 7)."""

import json
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal, Self, TypeAlias, get_args

from pydantic import AfterValidator, Discriminator, Field, JsonValue, Tag, ValidationError, model_validator

from ao_protocol.errors import ErrorType
from ao_protocol.events import ExecutorIdentity
from ao_protocol.framing import NotIJson, decode_object
from ao_protocol.version import (
    MalformedSchemaVersion,
    SchemaVersion,
    UnsupportedSchemaVersion,
    negotiate,
    supported_texts,
)
from ao_protocol.wire import Identifier, Integer, JsonObject, Name, Seconds, VersionText, WireModel, problems_of


class StdioMcpServer(WireModel):
    """An MCP server that is a program, spoken to over its stdin and stdout."""

    type: Literal["stdio"] = "stdio"
    command: Name
    args: list[str] = []
    env: dict[str, str] = {}
    required: bool = True
    """Whether a run fails where the server is not available."""


class RemoteMcpServer(WireModel):
    """An MCP server behind a URL."""

    type: Literal["http", "sse"]
    url: Annotated[str, Field(pattern=r"^https?://")]
    headers: dict[str, str] = {}
    required: bool = True


def _mcp_server_kind(server: Any) -> str:  # noqa: ANN401  # pydantic hands over whatever stands there
    if isinstance(server, StdioMcpServer | RemoteMcpServer):
        return "remote" if isinstance(server, RemoteMcpServer) else "stdio"
    kind = server.get("type", "stdio") if isinstance(server, dict) else "stdio"
    return "stdio" if kind == "stdio" else "remote"


McpServer: TypeAlias = Annotated[
    Annotated[StdioMcpServer, Tag("stdio")] | Annotated[RemoteMcpServer, Tag("remote")],
    Discriminator(_mcp_server_kind),
]


class AgentResponseDemand(WireModel):
    """The agent answers with the response that many agents share, in one of its forms (SPEC 9.8)."""

    type: Literal["agent_response"]
    form: Literal["xml", "json", "markdown"] = "xml"


class Blueprint(WireModel):
    """An agent: who it is, what it takes and what it gives.

    `output_schema` and `output_format` are authoritative: no caller overrides them. `default_output_schema` holds
    where neither they nor a caller say otherwise. `command` is for agents of type `procedural`.
    """

    name: Name
    description: str | None = None
    type: Literal["autonomous", "procedural"] = "autonomous"
    system_prompt: str | None = None
    command: str | None = None
    parameters_schema: JsonObject | None = None
    output_schema: JsonObject | None = None
    output_format: AgentResponseDemand | None = None
    default_output_schema: JsonObject | None = None
    default_output_schema_options: JsonObject | None = None
    mcp_servers: dict[str, McpServer] | None = None

    @model_validator(mode="after")
    def _demands_one_answer(self) -> Self:
        if self.output_schema is not None and self.output_format is not None:
            raise ValueError("output_schema and output_format contradict each other; expected one of them")
        return self


_FIRST_WITH_PARAMETERS: Final = SchemaVersion(2, 2)


def upgrade_invocation(document: dict[str, JsonValue], version: SchemaVersion) -> dict[str, JsonValue]:
    """Return the document as 3.0 would have written it. A document of 3.x is returned as it is.

    2.1 has `prompt` where later versions have `parameters`. `output_schema_hint` becomes the run's own schema:
    in those versions the coordinator enforced it, in 3.0 the executor does. It never replaced the agent's own
    contract, and beside one it goes. Their stdin carried no control lines. Their MCP servers had no `type`.
    """
    if version.major >= 3:
        return document
    upgraded = dict(document)
    prompt = upgraded.pop("prompt", None) if version < _FIRST_WITH_PARAMETERS else None
    if prompt is not None:
        upgraded["parameters"] = {"prompt": prompt}
    hint = upgraded.pop("output_schema_hint", None)
    if hint is not None and not _has_its_own_contract(upgraded.get("agent_blueprint")):
        upgraded |= {"output_schema": hint, "output_schema_source": "inline"}
    upgraded.pop("control", None)
    blueprint = upgraded.get("agent_blueprint")
    if isinstance(blueprint, dict):
        upgraded["agent_blueprint"] = with_typed_servers(blueprint)
    return upgraded


def with_typed_servers(blueprint: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Return a blueprint of 2.x with its MCP servers in the form of 3.0.

    A server of 2.x that has a `url` and no `type` is an HTTP server that a run can do without, and its `config` holds
    the headers. The coordinator of 2.x writes servers only in this form. A name in `headers` keeps that value.
    """
    servers = blueprint.get("mcp_servers")
    if not isinstance(servers, dict):
        return blueprint
    return {**blueprint, "mcp_servers": {name: _typed_server(server) for name, server in servers.items()}}


def _typed_server(server: JsonValue) -> JsonValue:
    if not isinstance(server, dict) or "url" not in server:
        return server
    typed = dict(server)
    if typed.get("type") is None:
        typed |= {"type": "http", "required": typed.get("required", False)}
    config, headers = typed.get("config"), typed.get("headers")
    if isinstance(config, dict):
        del typed["config"]
        texts: dict[str, JsonValue] = {name: _header_text(value) for name, value in config.items() if value is not None}
        typed["headers"] = texts | (headers if isinstance(headers, dict) else {})
    return typed


def _header_text(value: JsonValue) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _has_its_own_contract(blueprint: JsonValue) -> bool:
    fields = ("output_schema", "output_format")
    return isinstance(blueprint, dict) and any(blueprint.get(field) is not None for field in fields)


KNOWN_REQUIREMENTS: Final[frozenset[str]] = frozenset()
"""Features that `requires` may name. Version 3.0 defines none: each later one that changes meaning goes here."""


class Limits(WireModel):
    """How much a run may use. A limit that is absent is not set."""

    timeout_seconds: Seconds | None = None
    max_turns: Annotated[Integer, Field(ge=1)] | None = None
    max_cost_usd: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    max_event_bytes: Annotated[Integer, Field(ge=4096)] | None = None
    heartbeat_interval_seconds: Seconds | None = None
    cancel_grace_seconds: Seconds | None = None


class Control(WireModel):
    """Whether control lines follow the invocation on stdin, and whether turns may be among them."""

    stdin: Literal["open", "closed"] = "closed"
    turns: bool = False


class Invocation(WireModel):
    """One run, as the runner asks for it, in the shape of version 3.0 whatever version it came in.

    `schema_version` is the negotiated one: at most what was asked for.
    """

    schema_version: str
    mode: Literal["start", "resume"]
    run_id: Identifier | None = None
    session_id: Identifier | None = None
    parameters: JsonObject
    prompt: Name | None = None
    agent_name: str | None = None
    agent_blueprint: Blueprint | None = None
    output_schema: JsonObject | None = None
    output_schema_source: str | None = None
    output_schema_options: JsonObject | None = None
    project_dir: Annotated[str, Field(pattern=r"^/")] | None = None
    executor_session_id: Identifier | None = None
    executor_config: JsonObject = {}
    limits: Limits = Limits()
    requires: list[str] = []
    control: Control = Control()
    metadata: JsonObject = {}

    @model_validator(mode="after")
    def _resume_names_its_session(self) -> Self:
        if self.mode == "resume" and self.executor_session_id is None and self.schema_version.startswith("3."):
            raise ValueError("executor_session_id is missing; expected the one that session_bound announced")
        return self


class InvocationRefused(ValueError):
    """An invocation that no work is done for. It becomes a `failure` with exit code 64."""

    def __init__(
        self,
        error_type: ErrorType,
        message: str,
        details: JsonObject | None = None,
        *,
        validation_errors: Sequence[str] = (),
    ) -> None:
        super().__init__(error_type, message, details)
        self.error_type = error_type
        self.message = message
        self.details = details
        self.validation_errors = tuple(validation_errors)

    def __str__(self) -> str:
        return self.message


def invocation_from_document(document: dict[str, JsonValue]) -> Invocation:
    """Read an invocation of any supported version.

    Args:
        document: What `decode_object` returned for the line.

    Returns:
        The invocation in the shape of version 3.0.

    Raises:
        InvocationRefused: with `unsupported_schema_version` (`details.requested`, `details.supported`),
            `unsupported_capability` (`details.missing`) or `invalid_invocation` (`details.problems`).
    """
    version = _negotiated_version(document)
    upgraded = upgrade_invocation(document, version)
    present = {name: value for name, value in upgraded.items() if value is not None}
    try:
        invocation = Invocation.model_validate(present | {"schema_version": str(version)})
    except ValidationError as error:
        raise _invalid(problems_of(error, present)) from error
    missing = [name for name in invocation.requires if name not in KNOWN_REQUIREMENTS]
    if missing:
        raise InvocationRefused(
            ErrorType.UNSUPPORTED_CAPABILITY,
            f"the invocation requires {', '.join(missing)}, which this executor does not know",
            {"missing": list(missing)},
        )
    return invocation


def _negotiated_version(document: dict[str, JsonValue]) -> SchemaVersion:
    try:
        return negotiate(SchemaVersion.parse(document.get("schema_version")))
    except MalformedSchemaVersion as error:
        raise _invalid([f"$.{error}"]) from error
    except UnsupportedSchemaVersion as error:
        raise InvocationRefused(
            ErrorType.UNSUPPORTED_SCHEMA_VERSION,
            str(error),
            {"requested": str(error.requested), "supported": list[JsonValue](supported_texts())},
        ) from error


def _invalid(problems: list[str]) -> InvocationRefused:
    message = f"invalid invocation: {'; '.join(problems)}"
    return InvocationRefused(ErrorType.INVALID_INVOCATION, message, {"problems": list[JsonValue](problems)})


class Cancel(WireModel):
    """End the current run, as cancelled. A second one, or one after the end, means nothing."""

    type: Literal["cancel"] = "cancel"
    reason: str | None = None


class Turn(WireModel):
    """Begin another run in the same session. For executors that declare `multi_turn`."""

    type: Literal["turn"] = "turn"
    run_id: Identifier
    parameters: JsonObject
    prompt: Name | None = None


class Shutdown(WireModel):
    """End the process once the current run has ended."""

    type: Literal["shutdown"] = "shutdown"


class InputResponse(WireModel):
    """The answer to an `input_requested` event."""

    type: Literal["input_response"] = "input_response"
    request_id: Name
    value: JsonValue = None


class Prepare(WireModel):
    """Connect what can be connected before the invocation comes. For executors that declare `prepare`.

    It stands before the invocation (SPEC 4.5); behind it, it means nothing. `invocation` has no `parameters`.
    """

    type: Literal["prepare"] = "prepare"
    invocation: JsonObject


ControlLine: TypeAlias = Cancel | Turn | Shutdown | InputResponse | Prepare

_KINDS: Final[dict[str, type[ControlLine]]] = {
    kind.model_fields["type"].default: kind for kind in get_args(ControlLine)
}


class InvalidControlLine(ValueError):
    """A control line of a known type that is not as the type demands, or that is no JSON object."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__(problems)
        self.problems = problems

    def __str__(self) -> str:
        return f"invalid control line: {'; '.join(self.problems)}"


def parse_control_line(line: bytes) -> ControlLine | None:
    """Read a control line; None for a type that is unknown here and is to be ignored.

    Raises:
        InvalidControlLine: naming every field that is wrong.
    """
    try:
        document = decode_object(line)
    except NotIJson as error:
        raise InvalidControlLine([str(error)]) from error
    kind = document.get("type")
    if not isinstance(kind, str):
        raise InvalidControlLine([f"$.type: expected a string, found {kind!r}"])
    model = _KINDS.get(kind)
    try:
        return model.model_validate(document) if model else None
    except ValidationError as error:
        raise InvalidControlLine(problems_of(error, document)) from error


VariableName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


def _only_false(value: bool) -> Literal[False]:
    if value:
        raise ValueError("expected false, or an object with strategies")
    return False


Absent = Annotated[bool, AfterValidator(_only_false)]


class OutputSchemaCapability(WireModel):
    """The executor enforces output contracts itself, by these strategies.

    `formats` are the types of `output_format` that it knows besides JSON.
    """

    strategies: Annotated[list[Literal["prompt", "system_prompt", "extract", "native"]], Field(min_length=1)]
    formats: list[Name] = []


class Capabilities(WireModel):
    """What the executor can do. A capability that is absent or false is not there."""

    resume: bool = False
    multi_turn: bool = False
    prepare: bool = False
    cancel: bool = False
    streaming: bool = False
    check: bool = False
    trace: bool = False
    output_schema: OutputSchemaCapability | Absent = False


class RequiredProgram(WireModel):
    """A program that must be on the machine, and how one gets it."""

    name: Name
    install_hint: str | None = None


class ModelEndpoint(WireModel):
    """Which variables point the executor at another model API and give it a key."""

    env: VariableName
    api_key_env: VariableName | None = None


class Description(WireModel):
    """What `describe` prints: one JSON object, made without network, credentials or a home."""

    schema_versions: Annotated[list[VersionText], Field(min_length=1)] = Field(default_factory=supported_texts)
    executor: ExecutorIdentity
    agent_types: list[Literal["autonomous", "procedural"]] = ["autonomous"]
    capabilities: Capabilities = Capabilities()
    config_schema: JsonObject = {"type": "object"}
    secrets: list[VariableName] = []
    environment: list[VariableName] = []
    requires_programs: list[RequiredProgram] = []
    model_endpoint: dict[Name, ModelEndpoint] = {}


class InvalidDescription(ValueError):
    """What `describe` printed is no description."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__(problems)
        self.problems = problems

    def __str__(self) -> str:
        return f"invalid description: {'; '.join(self.problems)}"


def parse_description(line: bytes) -> Description:
    """Read what `ao-<name>-exec describe` printed.

    Args:
        line: The JSON object, in UTF-8.

    Returns:
        The description, with the defaults of SPEC 7 for what it leaves out.

    Raises:
        InvalidDescription: naming every field that is wrong.
    """
    try:
        document = decode_object(line)
        description = Description.model_validate(document)
    except NotIJson as error:
        raise InvalidDescription([str(error)]) from error
    except ValidationError as error:
        raise InvalidDescription(problems_of(error, document)) from error
    # The default is this package's own versions, for executors made with it; another's are not ours to guess.
    if "schema_versions" not in description.model_fields_set:
        raise InvalidDescription(["$.schema_versions: field required"])
    return description
