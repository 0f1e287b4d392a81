"""The answers of the API as its OpenAPI document describes them, each shape once. A field with a default may be absent.

Calls return JSON that they make themselves, `-> Annotated[Json, Shape(Run)]`: it is described by the model,
and sent as it is. Tests check each answer of the server against its description.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler, JsonValue, TypeAdapter
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from ao_protocol.documents import Blueprint
from ao_protocol.events import ErrorInfo, InputOption
from ao_protocol.wire import JsonObject
from ao_runner.named_schemas.registry import Outcome
from ao_runner.store.agent_table import AgentStatus
from ao_runner.store.brief_fields import BEGINS, OMITTED
from ao_runner.store.limit_table import RunLimit
from ao_runner.store.notices import EventName
from ao_runner.store.records import ExecutionMode
from ao_server.agent_documents import Demands, Settings
from ao_server.shapes import RunStatusName, SessionStatusName

Time = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
Yes = Literal[True]
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Shape:
    """The type of a JSON value, for its description only."""

    kind: Any

    def __get_pydantic_json_schema__(self, _: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Return the schema of the type in place of that of the value."""
        return handler(core_schema.definitions_schema(TypeAdapter(self.kind).core_schema, []))


class Described(BaseModel):
    """A model that nothing but the OpenAPI document needs; it is built for that."""

    model_config = ConfigDict(defer_build=True)


class Omitted(Described):
    """A field that is too long for a list: its size as JSON, and its first characters."""

    size: int = Field(alias=OMITTED)
    begins: str = Field(alias=BEGINS)


class Done(Described):
    """It is done."""

    ok: Yes


class Health(Described):
    """That the server is there."""

    status: Literal["healthy"]
    worker_api: int = Field(description="The version of the calls of workers.")


class AgentFields(Settings, Blueprint):
    """The fields of an agent: a blueprint (SPEC 4.2), and the settings of its runs."""

    model_config = ConfigDict(extra="allow")

    name: JsonValue = Field(None, description="The address names an agent that exists.")  # type: ignore[assignment]
    mcp_servers: JsonObject | None = None  # type: ignore[assignment]  # those of other tools are kept
    timeout_seconds: float | str | None = Field(None, description="Seconds, or a duration such as 5m.")  # type: ignore[assignment]


class NewAgent(AgentFields):
    """A new agent."""

    name: str


class Agent(NewAgent):
    """A stored agent."""

    status: AgentStatus
    created_at: Time
    modified_at: Time


class ListedAgent(Agent):
    """An agent in a list."""

    description: str | Omitted | None = None  # type: ignore[assignment]
    system_prompt: str | Omitted | None = None  # type: ignore[assignment]
    command: str | Omitted | None = None  # type: ignore[assignment]
    tags: list[str] | Omitted = []  # type: ignore[assignment]
    capabilities: list[str] | Omitted = []  # type: ignore[assignment]


class FoundProblem(Described):
    """What is wrong at a place of a document."""

    path: str
    message: str


class AgentCheck(Described):
    """What is wrong with the document of an agent, and what in it has no effect."""

    valid: bool
    problems: list[FoundProblem]
    remarks: list[str]


class SchemaSummary(Described):
    """A named schema without its content."""

    name: str
    description: str
    created_at: Time
    modified_at: Time
    used_by_runs: int


class NamedSchema(SchemaSummary):
    """A named schema."""

    schema_: JsonObject = Field(alias="schema")


class StoredSchema(NamedSchema):
    """A named schema, and whether it is new."""

    outcome: Outcome


class CreatedRun(Described):
    """A run that was added to the queue. `batch_id` is there if it was added with others."""

    run_id: str
    session_id: str
    status: RunStatusName
    batch_id: str | None = None


class CreatedBatch(Described):
    """Runs that were added together."""

    batch_id: str | None
    runs: list[CreatedRun]


class Run(Described):
    """A run."""

    run_id: str
    type: Literal["start_session", "resume_session"]
    session_id: str
    agent_name: str
    parameters: JsonObject
    project_dir: str | None
    parent_session_id: str | None
    status: RunStatusName
    execution_mode: ExecutionMode
    demands: Demands
    runner_id: str | None
    error: str | None
    created_at: Time
    claimed_at: Time | None
    started_at: Time | None
    completed_at: Time | None
    timeout_at: Time | None
    attempt: int
    profile: str | None
    labels: dict[str, str]
    priority: int
    not_before: Time | None
    error_type: str | None
    last_seq: int
    schema_source: str | None
    schema_name: str | None
    batch_id: str | None
    succeeds: str | None
    succeeded_by: str | None


class ListedRun(Run):
    """A run in a list."""

    error: str | Omitted | None  # type: ignore[assignment]


class RunList(Described):
    """A page of runs."""

    runs: list[ListedRun]
    next_before: int | None


class ShownAttachment(Described):
    """A file beside the prompt; `bytes` is the length of its data."""

    name: str
    media_type: str | None = None
    path: str | None = None
    bytes: int | None = None


class SchemaValidation(Described):
    """What became of an output contract."""

    valid: bool
    schema_name: str | None
    retry_count: int


class AnswerAttempt(Described):
    """An answer under an output contract. `text` is null where it is not kept."""

    attempt: int
    valid: bool
    errors: list[str]
    text: str | None
    is_cut: bool


class ContractOutcome(Described):
    """How the output contract of a run was met."""

    schema_validation: SchemaValidation | None
    errors: list[str]
    attempts: list[AnswerAttempt]


class RunDetails(Run):
    """A run, why it waits, how it ended, and what became of its output contract."""

    attachments: list[ShownAttachment]
    metadata: JsonObject | None
    waiting: str | None
    failure: ErrorInfo | None
    output: ContractOutcome


class RunResult(Described):
    """The result of a run. What the contract made of it is null without a contract."""

    result_text: str | None
    result_data: JsonValue
    validated_output: JsonValue
    schema_validation: SchemaValidation | None


class Stopped(Described):
    """What came of a request to stop; `run_id` is that of the run which it stops."""

    ok: Yes
    run_id: str | None = None
    session_id: str
    status: SessionStatusName
    message: str | None = None


class BatchStatus(Described):
    """The number of runs of a batch, by status."""

    batch_id: str
    runs: int
    statuses: dict[str, int]


class BatchRow(Described):
    """What a run of a batch has come to."""

    place: int
    run_id: str
    session_id: str
    status: RunStatusName
    error_type: str | None
    error_message: str | Omitted | None
    answer: JsonValue
    cost_usd: float | None
    seconds: float | None
    parameters: JsonObject
    labels: dict[str, str]


class BatchResults(Described):
    """What the runs of a batch have come to."""

    results: list[BatchRow]


class InputRequest(Described):
    """A request to a person: the fields of its event (SPEC 8.3), and how it was resolved."""

    model_config = ConfigDict(extra="allow")

    run_id: str
    session_id: str
    agent_name: str
    request_id: str
    asked_at: Time
    waiting: bool
    parked: bool
    outcome: str | None
    option_id: str | None
    answered_by: str | None
    kind: str | None = None
    title: str | Omitted | None = None
    options: list[InputOption] | Omitted | None = None
    schema_: JsonObject | None = Field(None, alias="schema")
    default: str | None = None
    tool_call_id: str | None = None
    tool_input: JsonValue = None


class InputRequests(Described):
    """Requests to a person."""

    inputs: list[InputRequest]


class AnsweredInput(Described):
    """How an answer has resolved a request; `next_run_id` is the run that goes on with a parked one."""

    request_id: str
    outcome: str
    next_run_id: str | None


class Session(Described):
    """A session."""

    session_id: str
    status: SessionStatusName
    created_at: Time
    project_dir: str
    agent_name: str
    last_resumed_at: Time | None
    parent_session_id: str | None
    executor_session_id: str | None
    executor_profile: str | None
    hostname: str | None
    runs: int


class SessionList(Described):
    """Sessions; `next_after` is there if they are listed in pages."""

    sessions: list[Session]
    next_after: str | None = None


class OneSession(Described):
    """A session."""

    session: Session


class ChangedSession(OneSession, Done):
    """A session that was changed."""


class CurrentStatus(Described):
    """The status of a session."""

    status: SessionStatusName | Literal["not_existent"]


class Affinity(Described):
    """Where a session lives."""

    hostname: str | None
    project_dir: str
    executor_profile: str | None
    executor_session_id: str | None


class SessionAffinity(Described):
    """Where a session lives."""

    affinity: Affinity


class LoggedEvent(Described):
    """A stored event."""

    id: str
    run_id: str
    event: JsonObject = Field(description="An event of the protocol (SPEC 5).")


class EventPage(Described):
    """A page of events."""

    events: list[LoggedEvent]
    next_after: str | None


class DeletedRows(Described):
    """What was deleted with a session."""

    runs_count: int


class DeletedSession(Described):
    """A session that was deleted."""

    ok: Yes
    session_id: str
    deleted: DeletedRows


class Webhook(Described):
    """A URL to which events are sent."""

    webhook_id: str
    url: str
    created_at: Time
    events: list[EventName]
    agents: list[str]
    format: Literal["json", "chat"]
    delivered_at: Time | None


class CreatedWebhook(Webhook):
    """A new webhook, and its secret if the server has made it."""

    secret: str | None = None


class Webhooks(Described):
    """Webhooks."""

    webhooks: list[Webhook]


class Delivery(Described):
    """An event that was not received. Without `next_at`, it is given up."""

    run_id: str
    status: Literal["waiting", "failed"]
    since: Time
    tries: int
    next_at: Time | None
    problem: str | None


class Deliveries(Described):
    """The events that a webhook has not received."""

    deliveries: list[Delivery]


class Callbacks(Described):
    """The ends of runs of which a session has not heard."""

    callbacks: list[Delivery]


class RetriedDelivery(Described):
    """A delivery that is tried again."""

    ok: Yes
    webhook_id: str
    run_id: str


class RunLimits(Described):
    """How many runs may run at a time."""

    limits: list[RunLimit]


class ChangedLimit(Described):
    """How many runs of an agent or profile may run at a time."""

    kind: Literal["agent", "profile"]
    name: str
    most: int
