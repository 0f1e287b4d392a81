"""Documents other than events and control lines: blueprints, invocations of every version, descriptions (SPEC 4, 7)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, Self, TypeAlias

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    JsonValue,
    Tag,
    ValidationError,
    WithJsonSchema,
    model_validator,
)

from ao_protocol.attachments import Attachments, MediaRange
from ao_protocol.errors import ErrorType
from ao_protocol.field_rules import OF_AN_INVOCATION
from ao_protocol.framing import NotIJson, decode_object
from ao_protocol.json_words import missing
from ao_protocol.version import (
    MalformedSchemaVersion,
    SchemaVersion,
    UnsupportedSchemaVersion,
    negotiate,
    supported_texts,
    upgrade_invocation,
)
from ao_protocol.wire import (
    EventBytes,
    ExecutorIdentity,
    Identifier,
    InvalidDocument,
    JsonObject,
    Name,
    PositiveCount,
    Seconds,
    VersionText,
    WireModel,
    problems_of,
)

Required = Annotated[bool, Field(description="Whether a run fails if the server is not available.")]


class StdioMcpServer(WireModel):
    """An MCP server that is a program, spoken to over its stdin and stdout."""

    type: Literal["stdio"] = "stdio"
    command: Name
    args: list[str] = []
    env: dict[str, str] = {}
    required: Required = True


def _known_type(kind: object) -> object:
    if kind not in ("http", "sse"):
        raise ValueError(f"expected stdio, http or sse, found {kind!r}")
    return kind


class RemoteMcpServer(WireModel):
    """An MCP server behind a URL."""

    type: Annotated[Literal["http", "sse"], BeforeValidator(_known_type)]
    url: Annotated[str, Field(pattern=r"^https?://")]
    headers: dict[str, str] = {}
    required: Required = True


def _mcp_server_kind(server: Any) -> str:  # noqa: ANN401  # pydantic passes any value
    if isinstance(server, StdioMcpServer | RemoteMcpServer):
        return "remote" if isinstance(server, RemoteMcpServer) else "stdio"
    kind = server.get("type", "stdio") if isinstance(server, dict) else "stdio"
    return "stdio" if kind == "stdio" else "remote"


def _has_a_type(server: Any) -> Any:  # noqa: ANN401  # pydantic passes any value
    if isinstance(server, dict) and {"type", "url", "command"} & server.keys() == {"url"}:
        raise ValueError("url without type; write type: http, or type: sse, beside it")
    return server


McpServer: TypeAlias = Annotated[
    Annotated[StdioMcpServer, Tag("stdio")] | Annotated[RemoteMcpServer, Tag("remote")],
    Discriminator(_mcp_server_kind),
    BeforeValidator(_has_a_type),
]


class AgentResponseDemand(WireModel):
    """The agent answers with the response that many agents share, in one of its forms (SPEC 9.8)."""

    type: Literal["agent_response"]
    form: Literal["xml", "json", "markdown"] = "xml"
    """How the model writes it."""


class Blueprint(WireModel):
    """An agent: who it is, what it takes and what it gives (SPEC 4.2)."""

    model_config = ConfigDict(
        json_schema_extra={
            "not": {
                "required": ["output_schema", "output_format"],
                "properties": {"output_schema": {"type": "object"}, "output_format": {"type": "object"}},
            }
        }
    )

    name: Name
    description: str | None = None
    """For people."""
    type: Literal["autonomous", "procedural"] = "autonomous"
    """A model decides, or a program does."""
    system_prompt: str | None = None
    command: str | None = None
    """The program of a procedural agent."""
    parameters_schema: JsonObject | None = None
    """JSON Schema Draft-7 of `parameters`; alone decides what a start takes (SPEC 8)."""
    output_schema: JsonObject | None = None
    """JSON Schema Draft-7 of the final answer; authoritative: no caller overrides it (SPEC 9)."""
    output_format: AgentResponseDemand | None = None
    """Another format of the final answer than JSON; authoritative, and not beside `output_schema` (SPEC 9.8)."""
    default_output_schema: JsonObject | None = None
    """JSON Schema Draft-7 of the final answer if nobody demands another (SPEC 9.1)."""
    default_output_schema_options: JsonObject | None = None
    """Options for `default_output_schema`; those of the run win."""
    mcp_servers: dict[str, McpServer] | None = None
    """MCP servers by name."""

    @model_validator(mode="after")
    def _demands_one_answer(self) -> Self:
        if self.output_schema is not None and self.output_format is not None:
            raise ValueError("output_schema and output_format contradict each other; expected one of them")
        return self


INPUT_FEATURE: Final = "input"
"""The feature in `requires` of a resume with `input_responses` (SPEC 8.3)."""
ATTACHMENTS_FEATURE: Final = "attachments"
"""The feature in `requires` of an invocation with `attachments` (SPEC 4.1)."""
KNOWN_REQUIREMENTS: Final[frozenset[str]] = frozenset({INPUT_FEATURE, ATTACHMENTS_FEATURE})
"""Features that `requires` may name (AOX-014). `refuse_what_is_not_served` refuses those that an executor lacks."""


class Limits(WireModel):
    """How much a run may use. A limit that is absent or null is not set."""

    timeout_seconds: Seconds | None = None
    max_turns: PositiveCount | None = None
    max_cost_usd: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    max_event_bytes: EventBytes | None = None
    """Of an event line with its line end."""
    heartbeat_interval_seconds: Seconds | None = None
    cancel_grace_seconds: Seconds | None = None


class Control(WireModel):
    """Whether control lines follow on stdin (SPEC 4.4)."""

    stdin: Literal["open", "closed"] = "closed"
    turns: bool = False
    """Whether the process is to stay after its run and wait for turns."""
    input: bool = False
    """Whether every `input_requested` will be answered (SPEC 8.3)."""


class InputAnswer(WireModel):
    """An answer to a request of a parked run, which a resume carries (SPEC 8.3).

    `value` is any JSON; absent is null.
    """

    request_id: Name
    option_id: Name | None = None
    value: JsonValue = None


class Invocation(WireModel):
    """The line that an executor reads on stdin to begin a run (SPEC 4). Null for an optional field means absent.

    Invocations of every version are read into this shape, that of 3.0.
    """

    model_config = ConfigDict(json_schema_extra=OF_AN_INVOCATION)

    schema_version: str = Field(json_schema_extra={"pattern": r"^3\.(0|[1-9][0-9]{0,5})$"})
    """Any minor of major 3. Once read, the negotiated version: at most what was asked for."""
    mode: Literal["start", "resume"]
    """A new session, or one that exists."""
    run_id: Identifier | None = None
    """The runner's name of the run."""
    session_id: Identifier | None = None
    """The runner's name of the session."""
    parameters: JsonObject
    """What the agent is asked; its own schema decides what it holds (SPEC 8)."""
    prompt: Name | None = None
    """The text that the agent receives, made by the runner (SPEC 8, 11.4). Absent if nobody made it."""
    attachments: Attachments | None = None
    """Files beside the prompt; the agent receives them in this order, before the text."""
    agent_name: str | None = None
    agent_blueprint: Blueprint | None = None
    output_schema: JsonObject | None = None
    """The caller's output contract, JSON Schema Draft-7 (SPEC 9)."""
    output_schema_source: str | None = None
    """Where `output_schema` came from: blueprint, inline, named or default."""
    output_schema_options: JsonObject | None = None
    """How the contract is kept: max_retries, extract_json, strict_json_only, validation_mode, strategy, ambiguous."""
    project_dir: Annotated[str, Field(pattern=r"^/")] | None = None
    """Where the agent works, an absolute path."""
    executor_session_id: Identifier | None = None
    """What `session_bound` announced."""
    input_responses: list[InputAnswer] | None = None
    """Answers to the requests of a parked run; only in a resume that requires `input`, and not beside `prompt`."""
    executor_config: JsonObject = {}
    """Settings as the executor's `config_schema` defines them."""
    limits: Limits = Limits.model_construct()
    requires: list[str] = []
    """Features that change meaning; an executor that does not know one refuses."""
    control: Control = Control.model_construct()
    metadata: JsonObject = {}
    """Passed through."""

    @model_validator(mode="after")
    def _resume_names_its_session(self) -> Self:
        if self.mode == "resume" and self.executor_session_id is None and self.schema_version.startswith("3."):
            raise ValueError("executor_session_id is missing; expected the one that session_bound announced")
        return self

    @model_validator(mode="after")
    def _answers_in_a_resume(self) -> Self:
        if self.input_responses is None:
            return self
        if self.mode != "resume" or INPUT_FEATURE not in self.requires or not self.control.input:
            raise ValueError(
                "input_responses is set; expected mode resume, 'input' in requires and control.input true beside it"
            )
        if self.prompt is not None:
            raise ValueError("input_responses and prompt are both set; expected one of them")
        return self


@dataclass(eq=False)
class InvocationRefused(ValueError):
    """A refusal of an invocation, before any work was done. It becomes a `failure` with exit code 64.

    Args:
        error_type: The `error.type` of the failure.
        message: The `error.message` of the failure.
        details: The `error.details` of the failure; None if it has none.
        validation_errors: The `error.validation_errors` of the failure, each as `path: message`.
    """

    error_type: ErrorType
    message: str
    details: JsonObject | None = None
    validation_errors: Sequence[str] = ()

    def __str__(self) -> str:
        return self.message


def invocation_from_document(document: dict[str, JsonValue]) -> Invocation:
    """Return the invocation of any supported version that a document describes.

    Args:
        document: The object that `decode_object` returned for the line.

    Returns:
        The invocation in the form of version 3.0. Its `schema_version` is the negotiated version.

    Raises:
        InvocationRefused: The invocation is refused as `unsupported_schema_version` (`details.requested`,
            `details.supported`), `unsupported_capability` (`details.missing`) or `invalid_invocation`
            (`details.problems`).
    """
    version = _negotiated_version(document)
    upgraded = upgrade_invocation(document, version)
    present = {name: value for name, value in upgraded.items() if value is not None or name in {"mode", "parameters"}}
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
    written = document.get("schema_version")
    try:
        return negotiate(SchemaVersion.parse(written))
    except MalformedSchemaVersion as error:
        place = "$.schema_version" if "schema_version" in document else "$"
        raise _invalid([f"{place}: {error}"]) from error
    except UnsupportedSchemaVersion as error:
        raise InvocationRefused(
            ErrorType.UNSUPPORTED_SCHEMA_VERSION,
            str(error),
            {"requested": written, "supported": list[JsonValue](supported_texts())},
        ) from error


def _invalid(problems: list[str]) -> InvocationRefused:
    message = f"invalid invocation: {'; '.join(problems)}"
    return InvocationRefused(ErrorType.INVALID_INVOCATION, message, {"problems": list[JsonValue](problems)})


VariableName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


def _only_false(value: bool) -> Literal[False]:
    if value:
        raise ValueError("expected false or an object")
    return False


Absent = Annotated[bool, AfterValidator(_only_false), WithJsonSchema({"type": "boolean", "const": False})]


class OutputSchemaCapability(WireModel):
    """The executor keeps output contracts itself, by these strategies."""

    strategies: Annotated[list[Name], Field(min_length=1)]
    """An open list: prompt, system_prompt, extract, native, tool (SPEC 9.6)."""
    formats: list[Name] = []
    """The types of `output_format` that it knows, besides JSON of a schema."""


class AttachmentsCapability(WireModel):
    """The executor passes files of these media types to the agent."""

    media_types: Annotated[list[MediaRange], Field(min_length=1)]
    """Such as `application/pdf`; `image/*` stands for every type of images."""


class Capabilities(WireModel):
    """What the executor can do. A capability that is absent or false is not there."""

    resume: bool = False
    """Goes on with an earlier session in a new process."""
    multi_turn: bool = False
    """Serves several runs in one process."""
    prepare: bool = False
    """Connects before the invocation comes."""
    cancel: bool = False
    """Obeys `cancel` on stdin."""
    streaming: bool = False
    """Writes `message_delta`."""
    check: bool = False
    """Has the verb `check`."""
    trace: bool = False
    """Passes the trace context on."""
    input: bool = False
    """Asks a person and takes answers."""
    input_parking: bool = False
    """Can end a run that waits for an answer, and resume it with the answer."""
    output_schema: OutputSchemaCapability | Absent = False
    """Keeps output contracts itself, by these strategies."""
    attachments: AttachmentsCapability | Absent = False
    """Passes files of these media types to the agent."""


class RequiredProgram(WireModel):
    """A program that must be on the machine, and how one gets it."""

    name: Name
    install_hint: str | None = None


class ModelEndpoint(WireModel):
    """Which variables point the executor at another model API and give it a key."""

    env: VariableName
    api_key_env: VariableName | None = None


class Description(WireModel):
    """What `ao-<name>-exec describe` prints (SPEC 7): one JSON object, made without network, credentials or a home."""

    model_config = ConfigDict(json_schema_extra={"required": ["schema_versions", "executor"]})

    schema_versions: Annotated[list[VersionText], Field(min_length=1)] = Field(default_factory=supported_texts)
    """Versions that are spoken, newest first."""
    executor: ExecutorIdentity
    agent_types: list[Literal["autonomous", "procedural"]] = ["autonomous"]
    """The types of blueprint that are served."""
    capabilities: Capabilities = Capabilities.model_construct()
    config_schema: JsonObject = {"type": "object"}
    """JSON Schema Draft-7 of `executor_config`; without it any object fits."""
    secrets: list[VariableName] = []
    """Variables that hold secrets and that the runner hands through."""
    environment: list[VariableName] = []
    """Other variables that the runner hands through."""
    requires_programs: list[RequiredProgram] = []
    """Programs that must be on the machine."""
    model_endpoint: dict[Name, ModelEndpoint] = {}
    """By kind of API: the variables that point the executor at another endpoint."""


class InvalidDescription(InvalidDocument):
    """The output of `describe` is not a description."""

    kind = "description"


def parse_description(line: bytes) -> Description:
    """Return the description that `ao-<name>-exec describe` printed.

    Args:
        line: The printed JSON object, in UTF-8.

    Returns:
        The description, with the defaults of SPEC 7 for absent fields.

    Raises:
        InvalidDescription: The line is not a description. The problems name every invalid field.
    """
    try:
        document = decode_object(line)
        description = Description.model_validate(document)
    except NotIJson as error:
        raise InvalidDescription([str(error)]) from error
    except ValidationError as error:
        raise InvalidDescription(problems_of(error, document)) from error
    # The default is for executors that use this package. The versions of other executors are not known.
    if "schema_versions" not in description.model_fields_set:
        raise InvalidDescription([f"$: {missing('schema_versions')}"])
    return description
