"""The MCP server through which agents start, resume and read other agents' sessions at an HTTP coordinator."""

from ao_runner.orchestrator.hosting import OrchestratorHosting

__all__ = ["OrchestratorHosting"]
