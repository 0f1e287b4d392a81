"""Who a worker says that it is when it registers."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from ao_protocol.wire import JsonObject
from ao_runner.coordinators.http.owned_agents import OwnedAgent


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
