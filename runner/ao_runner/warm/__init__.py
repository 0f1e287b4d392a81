"""Preparations for later runs: cached descriptions, parked executors, and open sessions."""

from ao_runner.warm.pool import WarmLauncher

__all__ = ["WarmLauncher"]
