"""A request for a run, from a client, a page or a callback, as the request that every door makes."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import AwareDatetime, ConfigDict, Field, JsonValue

from ao_protocol.wire import JsonObject
from ao_runner.blueprints.loading import understand_blueprint
from ao_runner.runs.asked_in_json import AskedInJson
from ao_runner.runs.repetition import repetition_of
from ao_runner.runs.submission import (
    MAX_SHOWN_CHARACTERS,
    AcceptedRun,
    NewRun,
    Reception,
    accept,
    shown,
)
from ao_runner.store.records import ExecutionMode, timestamp
from ao_runner.store.store import Store
from ao_server.agent_documents import Agent, Demands, read_agent
from ao_server.problems import Told, refusal
from ao_server.request_text import LongName, Name

NO_AGENT: Final[JsonObject] = {"name": "assistant"}
"""The blueprint of a run without an agent: a model with a prompt."""


class RunBody(AskedInJson):
    """A request for a run."""

    model_config = ConfigDict(extra="forbid", defer_build=False)  # built late, FastAPI's own model of it warns

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
    profile: LongName | None = Field(None, description="Profile or executor that performs the run.")
    priority: Annotated[int, Field(ge=-1000, le=1000)] = 0
    not_before: AwareDatetime | None = Field(None, description="The earliest start.")
    requeue_at_reset: bool = Field(
        False, description="Queue a copy for the reset if the run ends at a usage limit, without side effects."
    )


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """What the server adds to every run."""

    home: Path
    environ: Mapping[str, str]
    project_dir: str
    model_script: str | None = None
    """A model script, as JSON, that answers instead of a model in every run."""


def reception(store: Store, settings: ServerSettings) -> Reception:
    """Return the place where the requests of one call arrive."""
    return Reception(settings.environ, settings.home, settings.project_dir, store)


def accepted(
    store: Store, wanted: RunBody | NewRun, settings: ServerSettings, at: Reception | None = None
) -> AcceptedRun:
    """Check a request against agent, session and schemas; `at` is shared by those of a batch. Nothing is written.

    Raises:
        HTTPException: There is no such agent or session.
        RunnerError: What every door refuses.
    """
    asked = wanted if isinstance(wanted, NewRun) else _asked(store, wanted, settings)
    return accept(asked, at or reception(store, settings))


def _asked(store: Store, wanted: RunBody, settings: ServerSettings) -> NewRun:
    agent = None if wanted.agent_name is None else _find_agent(store, wanted.agent_name)
    is_new = wanted.type == "start_session"
    if not is_new:
        _check_known(store, wanted.session_id)
    demands = wanted.additional_demands or Demands()
    if agent is not None and is_new:
        demands = agent.settings.demands.with_more(demands)
    requires = [*demands.tags, *([f"host:{demands.hostname}"] if demands.hostname else [])]
    asked = NewRun(
        parameters=wanted.parameters,
        session_id=wanted.session_id,
        project_dir=wanted.project_dir or demands.project_dir,
        **wanted.to_fields(),
        model_script=settings.model_script,
        requires=tuple(dict.fromkeys(requires)),
        priority=wanted.priority,
        not_before=None if wanted.not_before is None else timestamp(wanted.not_before),
        requeue=wanted.requeue_at_reset,
        parent_session_id=wanted.parent_session_id,
        execution_mode=wanted.execution_mode,
    )
    return _with_agent(asked, agent, demands.executor_profile, settings) if is_new else asked


def _with_agent(asked: NewRun, agent: Agent | None, profile: str | None, settings: ServerSettings) -> NewRun:
    """Return the request with what its agent says; `profile` is what it demands in the second place."""
    folder = Path(settings.project_dir)
    if agent is None:
        return replace(
            asked, blueprint=understand_blueprint(folder / "agent", dict(NO_AGENT)), profile=asked.profile or profile
        )
    document = {**agent.loaded.document, "name": agent.stored.name}
    return replace(
        asked,
        blueprint=understand_blueprint(folder / "agent", document),
        executor_config=dict(agent.settings.executor_config),
        profile=asked.profile or agent.settings.profile or profile,
        timeout_seconds=asked.timeout_seconds or agent.settings.timeout_seconds,
    )


def _check_known(store: Store, session_id: str | None) -> None:
    if session_id is None:
        raise Told(HTTPStatus.BAD_REQUEST, "session_id_missing", "session_id is required for resume_session")
    if not store.sessions.exists(session_id):
        raise Told(HTTPStatus.NOT_FOUND, "session_not_found", f"Session {shown(session_id)} not found")


def _find_agent(store: Store, name: str) -> Agent:
    stored = store.agents.find(name)
    if stored is None:
        raise Told(HTTPStatus.NOT_FOUND, "agent_not_found", f"Agent not found: {name[:MAX_SHOWN_CHARACTERS]}")
    if stored.status != "active":
        raise refusal(HTTPStatus.CONFLICT, "agent_inactive", f"Agent {shown(name)} is inactive; activate it first")
    return read_agent(stored)


def repeated(store: Store, run_id: str, settings: ServerSettings) -> NewRun:
    """Return the request that asks the same as a stored run. An agent that is stored is taken as it is now."""
    run = store.runs.exactly(run_id)
    session = store.sessions.find(run.session_id)
    asked = repetition_of(run, session)
    stored = None if asked.blueprint is None else store.agents.find(session.agent_name)
    if stored is None or asked.blueprint is None:
        return asked
    return _with_agent(asked, _find_agent(store, stored.name), None, settings)


def digest_of(document: JsonValue) -> str:
    """Return the digest of a request, by which a repetition is told from another request."""
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
