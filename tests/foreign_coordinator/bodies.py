"""What the server expects in the body of each request, and how it words what is wrong with one."""

from typing import Any, Final, Literal

from pydantic import BaseModel, ValidationError

Document = dict[str, Any]
Reply = tuple[int, Any]


class OfRunner(BaseModel):
    runner_id: str


class Failed(OfRunner):
    error: str


class SessionStatus(OfRunner):
    status: str


class RunnerAgent(BaseModel):
    name: str
    command: str


class Registration(BaseModel):
    hostname: str
    project_dir: str
    executor_profile: str
    executor: Document | None = None
    agents: list[RunnerAgent] | None = None


class Binding(BaseModel):
    executor_session_id: str
    hostname: str
    executor_profile: str
    project_dir: str | None = None


class Metadata(BaseModel):
    project_dir: str | None = None
    agent_name: str | None = None
    last_resumed_at: str | None = None
    executor_session_id: str | None = None
    executor_profile: str | None = None
    hostname: str | None = None


class Event(BaseModel):
    event_type: str
    session_id: str
    timestamp: str
    tool_name: str | None = None
    tool_input: Document | None = None
    tool_output: Any = None
    error: str | None = None
    exit_code: int | None = None
    reason: str | None = None
    role: str | None = None
    content: list[Document] | None = None
    result_text: str | None = None
    result_data: Document | None = None


class NewRun(BaseModel):
    type: Literal["start_session", "resume_session"]
    parameters: Document
    session_id: str | None = None
    agent_name: str | None = None
    project_dir: str | None = None
    parent_session_id: str | None = None
    execution_mode: Literal["sync", "async_poll", "async_callback"] = "sync"
    additional_demands: Document | None = None
    scope: Document | None = None


SAID: Final[dict[str, type[OfRunner]]] = {
    "started": OfRunner,
    "completed": OfRunner,
    "failed": Failed,
    "stopped": OfRunner,
}
"""What a runner may say of a run."""
PROMPT_ONLY: Final[Document] = {
    "type": "object",
    "required": ["prompt"],
    "properties": {"prompt": {"type": "string", "minLength": 1}},
    "additionalProperties": False,
}
"""The schema of parameters where an agent has none, and of every resume."""


def unprocessable(error: ValidationError) -> Reply:
    """Return the answer to a body that does not validate."""
    found: list[Document] = [{**one, "loc": ["body", *one["loc"]]} for one in error.errors(include_url=False)]
    for one in found:
        if one["type"] == "literal_error":  # an enum there
            one["type"] = "enum"
    return 422, {"detail": found}
