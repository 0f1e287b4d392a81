"""Who a worker is to the server: the executor that it registers with, and the agents that it brings along."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ao_protocol.wire import JsonObject
from ao_runner.blueprints.loading import load_blueprint
from ao_runner.errors import RunnerError

ANNOUNCED = ("name", "description", "command", "parameters_schema", "output_schema")


@dataclass(eq=False)
class UnusableAgent(RunnerError):
    """A blueprint that no procedural agent can be made of."""

    path: Path
    reason: str

    def __str__(self) -> str:
        return f"{self.path} cannot be offered as an agent: {self.reason}"


@dataclass(frozen=True, slots=True)
class OwnedAgent:
    """An agent that runs on this worker only. `commands_dir` is the folder that its command is relative to."""

    document: JsonObject
    commands_dir: str

    @property
    def name(self) -> str:
        """What it is called."""
        return str(self.document["name"])

    def announcement(self) -> JsonObject:
        """Return what the server is told of it."""
        return {field: self.document[field] for field in ANNOUNCED if self.document.get(field) is not None}


def load_agents(folder: Path, project_dir: Path) -> Sequence[OwnedAgent]:
    """Read every blueprint (.json, .yaml, .yml) in a folder, in the order of their names.

    A command is a path below the folder or below `project_dir`, whichever has such a file, the folder first.

    Raises:
        UnusableAgent: the folder has no blueprints, or one has no command or a name that another one has.
        RunnerError: a file cannot be read, or is no blueprint.
    """
    paths = sorted(path for path in folder.iterdir() if path.suffix in {".json", ".yaml", ".yml"})
    if not paths:
        raise UnusableAgent(folder, "it holds no blueprint (*.json, *.yaml)")
    agents: dict[str, OwnedAgent] = {}
    for path in paths:
        agent = _load(path, folder, project_dir)
        if agent.name in agents:
            raise UnusableAgent(path, f"another blueprint of the folder has the name {agent.name!r}")
        agents[agent.name] = agent
    return tuple(agents.values())


def _load(path: Path, folder: Path, project_dir: Path) -> OwnedAgent:
    document = load_blueprint(path, may_wait=False).document
    if document.get("type", "procedural") != "procedural":
        raise UnusableAgent(path, f"its type is {document['type']!r}; only procedural agents can be offered")
    command = document.get("command")
    try:
        words = shlex.split(command) if isinstance(command, str) else []
    except ValueError as error:
        raise UnusableAgent(path, f"its command cannot be split into words: {error}") from error
    if not words:
        raise UnusableAgent(path, "it has no command; expected the path of a program")
    for place in (folder, project_dir):
        if (place / words[0]).is_file():
            return OwnedAgent(document, str(place.resolve()))
    raise UnusableAgent(path, f"its command {words[0]!r} is neither below {folder} nor below {project_dir}")


@dataclass(frozen=True, slots=True)
class RunnerIdentity:
    """One worker of one executor. The server derives its id from hostname, project_dir, profile and command.

    `agents` are the procedural agents that only this worker performs.
    """

    hostname: str
    project_dir: str
    profile: str
    executor_type: Literal["autonomous", "procedural"]
    command: str
    config: JsonObject = field(default_factory=dict)
    lifecycle: str = "one_shot"
    """How long the executor's process lives; the server keeps it for people to read."""
    tags: Sequence[str] = ()
    require_matching_tags: bool = False
    agents: Sequence[OwnedAgent] = ()

    def agent(self, name: str) -> OwnedAgent | None:
        """Return an agent of this worker's own; None for any other."""
        return next((agent for agent in self.agents if agent.name == name), None)

    def to_document(self) -> JsonObject:
        """Return the body of a registration."""
        document: JsonObject = {
            "hostname": self.hostname,
            "project_dir": self.project_dir,
            "executor_profile": self.profile,
            "executor": {
                "type": self.executor_type,
                "command": self.command,
                "config": self.config,
                "lifecycle": self.lifecycle,
            },
            "require_matching_tags": self.require_matching_tags,
        }
        if self.tags:
            document["tags"] = list(self.tags)
        if self.agents:
            document["agents"] = [agent.announcement() for agent in self.agents]
        return document
