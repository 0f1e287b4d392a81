"""Agents as the server keeps them: what a document may contain, and what is wrong with one."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from ao_protocol.contracts import InvalidSchema, Problem, check_schema
from ao_protocol.json_path import ROOT, below
from ao_protocol.wire import JsonObject, problems_of
from ao_protocol.written import NotInteroperable, check_interoperable
from ao_runner.blueprints.loading import InvalidBlueprint, LoadedBlueprint, oddities, understand_blueprint
from ao_runner.blueprints.placeholders import SCHEMA_FIELDS, variables_of_other_tools
from ao_runner.profiles import Duration
from ao_runner.store.agent_table import StoredAgent
from ao_runner.store.records import check_tag
from ao_runner.store.store import Store
from ao_server.request_text import LongName

AGENT_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}"
NAME_EXPECTED: Final = "expected 1 to 100 letters, digits, '.', '_' or '-', the first one a letter or a digit"
BODY: Final = Path("agent")
"""The name of a document in messages."""


Tag = Annotated[str, AfterValidator(check_tag)]


class Demands(BaseModel):
    """What a run demands of the worker that performs it."""

    model_config = ConfigDict(extra="forbid")

    hostname: LongName | None = None
    project_dir: LongName | None = None
    executor_profile: LongName | None = None
    executor_type: str | None = None
    tags: list[Tag] = []

    def with_more(self, other: "Demands") -> "Demands":
        """Return these demands and those of another one where these leave something open."""
        mine = {name: value for name, value in self.model_dump().items() if value is not None}
        return Demands(**{**other.model_dump(), **mine, "tags": [*dict.fromkeys([*self.tags, *other.tags])]})


class Settings(BaseModel):
    """The fields of an agent that are not those of a blueprint."""

    profile: LongName | None = Field(None, description="Profile or executor that performs the runs.")
    executor_config: dict[str, Any] = Field({}, description="Settings of the executor.")
    demands: Demands = Demands()
    tags: list[str] = Field([], description="Labels, by which clients list agents.")
    capabilities: list[str] = []
    timeout_seconds: Duration | None = None
    runner_id: str | None = Field(None, description="The runner of the older contract that alone performs the agent.")


@dataclass(frozen=True, slots=True)
class Agent:
    """A stored agent, parsed."""

    stored: StoredAgent
    loaded: LoadedBlueprint
    settings: Settings


def read_agent(stored: StoredAgent) -> Agent:
    """Return a stored agent, parsed.

    Raises:
        InvalidBlueprint: Its document is not that of an agent.
    """
    try:
        check_interoperable(stored.document)
        settings = Settings.model_validate(stored.document)
    except NotInteroperable as error:
        raise InvalidBlueprint(BODY, [str(error)]) from error
    except ValidationError as error:
        raise InvalidBlueprint(BODY, problems_of(error, stored.document)) from error
    own = Settings.model_fields.keys()
    document: JsonObject = {name: value for name, value in stored.document.items() if name not in own}
    return Agent(stored, understand_blueprint(BODY, document), settings)


def problems_of_agent(document: JsonObject) -> list[Problem]:
    """Return what is wrong with the document of an agent, each with its place; empty if it can be stored."""
    problems = []
    for name in SCHEMA_FIELDS:
        if isinstance(schema := document.get(name), dict):
            try:
                check_schema(schema)
            except InvalidSchema as error:
                place = below(ROOT, name)
                problems += [Problem(f"{place}{one.path.removeprefix(ROOT)}", one.message) for one in error.problems]
    try:
        read_agent(StoredAgent("", document, "active", "", ""))
    except InvalidBlueprint as error:
        for problem in error.problems:
            path, _, message = problem.partition(": ")
            problems.append(Problem(path, message) if path.startswith(ROOT) else Problem(ROOT, problem))
    return problems


def remarks_on_agent(document: JsonObject) -> list[str]:
    """Return what an acceptable document contains that has no effect."""
    loaded = read_agent(StoredAgent("", document, "active", "", "")).loaded
    return [*oddities(loaded), *variables_of_other_tools(loaded.document)]


def listed_agents(store: Store) -> list[StoredAgent]:
    """Return all agents by name, without those that only a runner performs whose lease is over."""
    agents = store.agents.all()
    if not any(agent.document.get("runner_id") for agent in agents):
        return agents
    alive = store.workers.living()
    return [agent for agent in agents if agent.document.get("runner_id") in {None, *alive}]


def shown_agent(agent: StoredAgent) -> JsonObject:
    """Return the JSON of an agent for clients."""
    always: JsonObject = {"type": "autonomous", "description": "", "tags": [], "capabilities": []}
    times: JsonObject = {"status": agent.status, "created_at": agent.created_at, "modified_at": agent.modified_at}
    return {**always, **agent.document, "name": agent.name, **times}
