"""A coordinator behind a REST interface."""

from ao_runner.coordinators.http.http_coordinator import HttpCoordinator
from ao_runner.coordinators.http.registration import OwnedAgent, RunnerIdentity, load_agents
from ao_runner.coordinators.http.transport import Timing

__all__ = ["HttpCoordinator", "OwnedAgent", "RunnerIdentity", "Timing", "load_agents"]
