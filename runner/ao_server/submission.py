"""A request for a run, from a client, a page or a callback: checked, and turned into a session and a queued run."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from fastapi import HTTPException
from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from ao_protocol.contracts import InvalidSchema
from ao_protocol.contracts.contract import InvalidOptions
from ao_protocol.documents import Blueprint
from ao_protocol.identifiers import MAX_IDENTIFIER_BYTES, is_identifier
from ao_protocol.inputs import PROMPT_SCHEMA, ParametersInvalid, check_against
from ao_protocol.wire import JsonObject, Seconds
from ao_protocol.written import check_interoperable
from ao_runner.discovery import ExecutorNotFound
from ao_runner.named_schemas.registry import SchemaRegistry
from ao_runner.named_schemas.vetting import vet
from ao_runner.profiles import InvalidProfile, ProfileNotFound, load_profile
from ao_runner.runs.acceptance import CallerDemand
from ao_runner.runs.admission import blueprint_of, check_resumable, check_size, demand_for
from ao_runner.runs.run_request import DEFAULT_EXECUTORS, new_run_id, new_session_id
from ao_runner.store.records import OPEN_STATUSES, ExecutionMode, Placement, QueuedRun, Run, Session, timestamp
from ao_runner.store.store import Store
from ao_runner.store.store_errors import SessionUnknown
from ao_server.agents import Agent, Demands, read_agent
from ao_server.problems import problems_in, refusal
from ao_server.request_text import LongName, Name

NO_AGENT: Final[JsonObject] = {"name": "assistant"}
"""The blueprint of a run without an agent: a model with a prompt."""
MAX_NAME_CHARACTERS: Final = 200


class NewRun(BaseModel):
    """A request for a run."""

    model_config = ConfigDict(extra="forbid")

    type: Literal["start_session", "resume_session"]
    parameters: dict[str, Any] = Field(description="What the agent's parameters_schema asks for, else `{prompt}`.")
    session_id: Name | None = Field(None, description="The session to resume, or the id of the new one.")
    agent_name: str | None = Field(None, description="The agent; the one of its session for a resume.")
    project_dir: LongName | None = Field(
        None, pattern="^/", description="Absolute path of the folder of the agent's work."
    )
    parent_session_id: str | None = Field(None, description="The session that asks for the run.")
    execution_mode: ExecutionMode = "sync"
    additional_demands: Demands | None = Field(None, description="Demands on the worker, beside those of the agent.")
    scope: dict[str, Any] | None = Field(None, description="Accepted for compatibility; has to be empty.", max_length=0)
    output_schema: dict[str, Any] | None = Field(None, description="JSON Schema of the answer.")
    output_schema_name: str | None = Field(None, description="A named schema, instead of output_schema.")
    output_schema_options: dict[str, Any] | None = Field(None, description="How the schema is enforced.")
    profile: LongName | None = Field(None, description="Profile or executor that performs the run.")
    priority: Annotated[int, Field(ge=-1000, le=1000)] = 0
    timeout_seconds: Seconds | None = None
    metadata: dict[str, Any] = Field({}, description="Passed to the executor.")

    @model_validator(mode="after")
    def _can_be_sent(self) -> Self:
        documents = self.model_dump(include={"parameters", "metadata", "output_schema", "output_schema_options"})
        for name, document in documents.items():
            check_interoperable(document, place=f"$.{name}")
        return self


@dataclass(frozen=True, slots=True)
class Hosting:
    """What the server adds to every run."""

    home: Path
    environ: Mapping[str, str]
    project_dir: str
    model_script: str | None = None
    """A model script, as JSON, that answers instead of a model in every run."""


@dataclass(frozen=True, slots=True)
class Submission:
    """A checked run, ready to be queued."""

    queued: QueuedRun
    new_session: Session | None

    def store_in(self, store: Store) -> None:
        """Queue the run, as a step of a transaction.

        Raises:
            ConstraintBroken: The session exists.
            SessionUnknown: The session was deleted meanwhile.
        """
        run = self.queued.run
        if self.new_session is not None:
            store.sessions.add(self.new_session)
        elif run.parent_session_id is not None:
            store.sessions.set_parent(run.session_id, run.parent_session_id)
        else:
            store.sessions.resolve(run.session_id)
        store.queue.add(self.queued)


def checked(store: Store, wanted: NewRun, hosting: Hosting) -> Submission:
    """Check a request against agent, session and schemas. Nothing is written.

    Raises:
        HTTPException: Something is missing or does not fit; the detail says what, and where.
        RunnerError: The same, for what the command line refuses as well.
    """
    if (parent := wanted.parent_session_id) is not None:
        _check_parent(store, wanted, parent)
    check = _first_run if wanted.type == "start_session" else _further_run
    return check(store, wanted, hosting)


def _check_parent(store: Store, wanted: NewRun, parent: str) -> None:
    if parent == wanted.session_id:
        raise refusal(HTTPStatus.BAD_REQUEST, "own_parent", "a session cannot be its own parent")
    if not store.sessions.exists(parent):
        message = f"Parent session {shown(parent)} not found"
        raise refusal(HTTPStatus.BAD_REQUEST, "parent_not_found", message)


def _first_run(store: Store, wanted: NewRun, hosting: Hosting) -> Submission:
    if wanted.session_id is not None and not is_identifier(wanted.session_id):
        message = f"session_id: expected at most {MAX_IDENTIFIER_BYTES} bytes as JSON"
        raise refusal(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid_session_id", message)
    if wanted.session_id is not None and store.sessions.exists(wanted.session_id):
        raise HTTPException(HTTPStatus.CONFLICT, f"Session {shown(wanted.session_id)} already exists")
    agent = None if wanted.agent_name is None else _find_agent(store, wanted.agent_name)
    blueprint = Blueprint.model_validate(NO_AGENT) if agent is None else agent.blueprint
    _check_parameters(None if agent is None else agent.blueprint.parameters_schema, wanted, blueprint)
    demands = wanted.additional_demands or Demands()
    config: JsonObject = {}
    timeout_seconds = wanted.timeout_seconds
    if agent is not None:
        demands = agent.settings.demands.with_more(demands)
        config = dict(agent.settings.executor_config)
        if blueprint.type == "procedural":
            config.setdefault("commands_dir", hosting.project_dir)
        timeout_seconds = timeout_seconds or agent.settings.timeout_seconds
    own_profile = None if agent is None else agent.settings.profile
    profile = wanted.profile or own_profile or demands.executor_profile or DEFAULT_EXECUTORS[blueprint.type]
    executor = _executor_of(profile, hosting)
    session = Session(
        session_id=wanted.session_id or new_session_id(),
        created_at=timestamp(),
        executor_name=executor,
        executor_path=executor,
        project_dir=wanted.project_dir or demands.project_dir or hosting.project_dir,
        blueprint=dict(NO_AGENT) if agent is None else {**agent.loaded.document, "name": agent.stored.name},
        executor_config=config,
        profile=profile,
        is_simulated=hosting.model_script is not None,
        parent_session_id=wanted.parent_session_id,
    )
    run = _run(store, wanted, session, blueprint)
    return Submission(_queued(wanted, run, profile, demands, timeout_seconds, hosting), session)


def _further_run(store: Store, wanted: NewRun, hosting: Hosting) -> Submission:
    if wanted.session_id is None:
        raise HTTPException(HTTPStatus.BAD_REQUEST, "session_id is required for resume_session")
    if not store.sessions.exists(wanted.session_id):
        raise HTTPException(HTTPStatus.NOT_FOUND, f"Session {shown(wanted.session_id)} not found")
    session = store.sessions.find(wanted.session_id)
    blueprint = blueprint_of(session)
    if blueprint.type == "procedural":
        message = "Procedural agents are stateless and cannot be resumed"
        raise refusal(HTTPStatus.BAD_REQUEST, "procedural_agent_no_resume", message, agent_name=session.agent_name)
    _check_parameters(None, wanted, blueprint)
    is_open = any(run.status in OPEN_STATUSES for run in store.runs.of_sessions(session.session_id))
    check_resumable(session, is_open=is_open, has_script=hosting.model_script is not None)
    profile = wanted.profile or session.profile or session.executor_path
    run = _run(store, wanted, session, blueprint)
    demands = wanted.additional_demands or Demands()
    return Submission(_queued(wanted, run, profile, demands, wanted.timeout_seconds, hosting), None)


def _find_agent(store: Store, name: str) -> Agent:
    stored = store.agents.find(name)
    if stored is None:
        raise HTTPException(HTTPStatus.NOT_FOUND, f"Agent not found: {name[:MAX_NAME_CHARACTERS]}")
    if stored.status != "active":
        raise refusal(HTTPStatus.CONFLICT, "agent_inactive", f"Agent {shown(name)} is inactive; activate it first")
    return read_agent(stored)


def _check_parameters(schema: JsonObject | None, wanted: NewRun, blueprint: Blueprint) -> None:
    if schema is None and blueprint.type == "procedural":
        return
    try:
        check_against(schema, wanted.parameters)
    except InvalidSchema:
        return  # the run fails with the reason
    except ParametersInvalid as error:
        raise refusal(
            HTTPStatus.BAD_REQUEST,
            "parameter_validation_failed",
            "Parameters do not match the agent's parameters_schema",
            agent_name=wanted.agent_name or "(no agent)",
            validation_errors=problems_in(error.problems),
            parameters_schema=PROMPT_SCHEMA if schema is None else schema,
        ) from error


def _executor_of(profile: str, hosting: Hosting) -> str:
    """Return the executor of a profile; a profile that this host does not have belongs to workers elsewhere."""
    try:
        return load_profile(profile, hosting.home, hosting.environ).executor
    except (ProfileNotFound, InvalidProfile, ExecutorNotFound):
        return profile


def _run(store: Store, wanted: NewRun, session: Session, blueprint: Blueprint) -> Run:
    run = Run(
        run_id=new_run_id(),
        session_id=session.session_id,
        mode="start" if wanted.type == "start_session" else "resume",
        parameters=wanted.parameters,
        started_at=timestamp(),
        status="queued",
        contract=_contract(store, wanted, blueprint),
        parent_session_id=wanted.parent_session_id,
        execution_mode=wanted.execution_mode,
    )
    check_size(session, run, wanted.metadata)
    return run


def _contract(store: Store, wanted: NewRun, blueprint: Blueprint) -> JsonObject | None:
    name, schema = wanted.output_schema_name, wanted.output_schema
    if name is not None and schema is not None:
        message = "output_schema and output_schema_name contradict each other; expected one of them"
        raise refusal(HTTPStatus.UNPROCESSABLE_ENTITY, "two_schemas", message)
    if name is not None:
        schema = SchemaRegistry(store).get(name).schema
    elif schema is not None:
        vet("output_schema", schema)
    try:
        return demand_for(CallerDemand(schema, name, wanted.output_schema_options or {}), blueprint).record
    except InvalidOptions as error:
        message = "output_schema_options are not valid"
        problems: JsonValue = problems_in(list(error.problems))
        raise refusal(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid_options", message, problems=problems) from error


def _queued(  # what a run is made of
    wanted: NewRun, run: Run, profile: str, demands: Demands, timeout_seconds: float | None, hosting: Hosting
) -> QueuedRun:
    requires = [*demands.tags, *([f"host:{demands.hostname}"] if demands.hostname else [])]
    placement = Placement(tuple(dict.fromkeys(requires)), wanted.priority)
    return QueuedRun(run, profile, timeout_seconds, wanted.metadata, hosting.model_script, placement)


def digest_of(document: JsonValue) -> str:
    """Return the digest of a request, by which a repetition is told from another request."""
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def shown(name: str) -> str:
    """Return a name of a client in quotation marks, shortened."""
    return repr(name[:MAX_NAME_CHARACTERS])


__all__ = ["Hosting", "NewRun", "SessionUnknown", "Submission", "checked", "digest_of", "shown"]
