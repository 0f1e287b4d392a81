"""A coordinator that is a pipe: runs on stdin, events on stdout."""

from ao_runner.coordinators.stdout.coordinator import StdoutCoordinator
from ao_runner.coordinators.stdout.run_lines import RunDefaults

__all__ = ["RunDefaults", "StdoutCoordinator"]
