"""What the tools return, from which their output schemas are made. A server may add fields and leave out some."""

from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from ao_protocol.wire import JsonObject

Status = Literal["pending", "running", "stopping", "idle", "finished", "failed", "stopped", "not_existent"]


class _Result(BaseModel):
    model_config = ConfigDict(extra="allow")


class AgentShown(_Result):
    """An agent that can be started."""

    name: str
    description: str | None = None
    type: str | None = Field(None, description="`autonomous` or `procedural`.")
    tags: list[str] | None = None
    parameters_schema: JsonObject | None = Field(None, description='Null: the parameters are {"prompt": "..."}.')


class SessionShown(_Result):
    """A session of an agent."""

    session_id: str
    status: str
    agent_name: str | None = None
    created_at: str | None = None
    last_resumed_at: str | None = None


class SessionStatus(_Result):
    """The status of a session."""

    session_id: str
    status: Status


class SessionResult(_Result):
    """The result of a run, or the session of one that goes on."""

    session_id: str
    status: Literal["pending"] | None = Field(None, description="Only of a run that was not waited for.")
    result_text: str | None = None
    result_data: JsonValue = None
    validated_output: JsonValue = Field(None, description="The answer that fits the schema.")
    schema_validation: JsonObject | None = Field(None, description="valid, schema_name, retry_count and more.")


class Deleted(_Result):
    """What was deleted, and what was not."""

    deleted_count: int
    not_deleted: list[JsonObject] = Field([], description="session_id and error of each.")


class SchemaShown(_Result):
    """A named schema; `schema` is left out in a list."""

    name: str
    description: str | None = None
    schema_: JsonObject | None = Field(None, alias="schema")


class RequestShown(_Result):
    """A request of a run that waits for a person."""

    run_id: str
    request_id: str
    session_id: str | None = None
    agent_name: str | None = None
    asked_at: str | None = None
    kind: str | None = Field(None, description="`permission`, `question` or another kind.")
    title: str | None = Field(None, description="What is asked.")
    tool_input: JsonValue = Field(None, description="The input of the call that waits.")
    options: list[JsonObject] | None = Field(None, description="The answers to choose from, each with its `id`.")
    schema_: JsonObject | None = Field(None, alias="schema", description="JSON Schema of the value that is asked for.")


class Answered(_Result):
    """What became of an answer."""

    request_id: str
    outcome: str | None = Field(None, description="How the executor resolved it; null while it does not say.")
    next_run_id: str | None = Field(None, description="The run that continues one that was parked.")


_ENVELOPE: Final = {"type": "object", "required": ["result"]}


def output_schema(result: type[BaseModel], name: str, *, is_list: bool) -> JsonObject:
    """Return the JSON Schema of a structured result, which is an object: that of a list is `{result: [...]}`."""
    schema: dict[str, Any] = {**result.model_json_schema(), "title": f"{name}Output"}
    if not is_list:
        return schema
    definitions = schema.pop("$defs", {})
    return {
        **_ENVELOPE,
        "title": schema.pop("title"),
        "properties": {"result": {"type": "array", "items": schema}},
        **({"$defs": definitions} if definitions else {}),
    }
