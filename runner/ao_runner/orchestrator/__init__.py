"""The MCP server with which agents start, resume and read sessions of other agents at an HTTP coordinator."""

from ao_runner.orchestrator.hosting import OrchestratorHosting

__all__ = ["OrchestratorHosting"]
