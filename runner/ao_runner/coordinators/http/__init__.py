"""A coordinator behind a REST interface."""

from ao_runner.coordinators.http.coordinator import HttpCoordinator
from ao_runner.coordinators.http.identity import RunnerIdentity
from ao_runner.coordinators.http.owned_agents import OwnedAgent, load_agents
from ao_runner.coordinators.http.timing import Timing

__all__ = ["HttpCoordinator", "OwnedAgent", "RunnerIdentity", "Timing", "load_agents"]
