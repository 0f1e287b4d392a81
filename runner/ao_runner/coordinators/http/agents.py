"""The blueprint of a run: as it was handed out, as its session began with it, or as the server keeps the agent.

The server hands a run out with its blueprint, but not where a callback resumes a parent, and not in its list of runs,
where a worker finds a run whose handing out it missed.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from pydantic import JsonValue

from ao_protocol.wire import JsonObject
from ao_runner.coordinators.http.assignments import UnusableRun
from ao_runner.coordinators.http.registration import Enrolment

MAX_SESSIONS: Final = 1000


@dataclass(frozen=True, slots=True)
class Found:
    """A blueprint, and whether the server has filled in its placeholders."""

    document: JsonObject
    is_resolved: bool


class Blueprints:
    """Finds blueprints, and remembers those of the sessions that began on this worker.

    A resume has the blueprint that its session began with: the server fills the placeholders of a resume anew, with
    its parameters, which lack those of the start.
    """

    def __init__(self, enrolment: Enrolment) -> None:
        self._enrolment = enrolment
        self._begun: OrderedDict[str, Found] = OrderedDict()

    async def of_run(self, run: JsonObject, session_id: str, agent_name: str | None) -> Found | None:
        """Return a run's blueprint; None for a run without an agent, or with one that the server does not know.

        Raises:
            UnusableRun: the agent refers to an MCP server that the server does not know.
            CoordinatorUnavailable: the server does not answer now.
        """
        is_resume = run.get("type") == "resume_session"
        if is_resume and session_id in self._begun:
            self._begun.move_to_end(session_id)
            return self._begun[session_id]
        handed_out = run.get("resolved_agent_blueprint")
        found = Found(handed_out, is_resolved=True) if isinstance(handed_out, dict) else None
        if found is None and agent_name is not None:
            found = await self._of_agent(agent_name)
        if not is_resume and found is not None:
            self._begun[session_id] = found
            if len(self._begun) > MAX_SESSIONS:
                self._begun.popitem(last=False)
        return found

    async def _of_agent(self, name: str) -> Found | None:
        answer = await self._enrolment.ask("GET", f"/agents/{quote(name, safe='')}")
        if not answer.is_success:
            return None
        servers = answer.document.get("mcp_servers")
        if not isinstance(servers, dict):
            return Found(answer.document, is_resolved=False)
        resolved: JsonObject = {key: await self._resolved(server) for key, server in servers.items()}
        return Found({**answer.document, "mcp_servers": resolved}, is_resolved=False)

    async def _resolved(self, server: JsonValue) -> JsonValue:
        """Return an MCP server of the registry in place of a reference to it, as the server resolves references."""
        ref = server.get("ref") if isinstance(server, dict) else None
        if not isinstance(server, dict) or not isinstance(ref, str):
            return server
        answer = await self._enrolment.ask("GET", f"/mcp-servers/{quote(ref, safe='')}")
        if not answer.is_success:
            raise UnusableRun(f"invalid_invocation: the server does not give MCP server {ref!r}: {answer.reason}")
        known = answer.document
        defaults, config = known.get("default_config"), server.get("config")
        merged = {**(defaults if isinstance(defaults, dict) else {}), **(config if isinstance(config, dict) else {})}
        return {"url": known.get("url"), "config": merged}
