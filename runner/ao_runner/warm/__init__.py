"""Processes that are there before their run is: descriptions remembered, executors parked, sessions kept open."""

from ao_runner.warm.pool import WarmLauncher

__all__ = ["WarmLauncher"]
