"""A coordinator behind a REST interface."""

from ao_runner.coordinators.http.http_coordinator import HttpCoordinator
from ao_runner.coordinators.http.leased import LeasedCoordinator, speaks_leases
from ao_runner.coordinators.http.registration import OwnedAgent, RunnerIdentity, load_agents
from ao_runner.coordinators.http.transport import Timing

__all__ = [
    "HttpCoordinator",
    "LeasedCoordinator",
    "OwnedAgent",
    "RunnerIdentity",
    "Timing",
    "load_agents",
    "speaks_leases",
]
