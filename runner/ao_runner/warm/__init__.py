"""Processes that are there before their run is: descriptions remembered, executors parked, sessions kept open."""

from ao_runner.warm.launcher import WarmLauncher

__all__ = ["WarmLauncher"]
