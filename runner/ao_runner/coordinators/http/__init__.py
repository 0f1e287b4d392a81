"""A coordinator behind a REST interface."""

from ao_runner.coordinators.http.coordinator import TOKEN_VARIABLE, HttpCoordinator
from ao_runner.coordinators.http.identity import RunnerIdentity
from ao_runner.coordinators.http.owned_agents import OwnedAgent, load_agents
from ao_runner.coordinators.http.timing import Timing

__all__ = ["TOKEN_VARIABLE", "HttpCoordinator", "OwnedAgent", "RunnerIdentity", "Timing", "load_agents"]
