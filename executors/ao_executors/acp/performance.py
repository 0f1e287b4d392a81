"""Perform one run: open a session, and ask in it until the answer is valid."""

from ao_executors.acp.agents import Agent
from ao_executors.acp.session import opened_session
from ao_executors.acp.turn import Conversation
from ao_executors.acp.usage import RunUsage
from ao_executors.core import Task, converse
from ao_executors.core.foreign_json import JsonDocument, as_object
from ao_protocol.events import Result


async def perform_in_session(agent: Agent, task: Task) -> Result:
    """Perform a task in a session of an agent.

    Raises:
        RunFailed: The session could not be opened, or gave no valid answer.
    """
    usage = RunUsage(counts_turns=agent.counts_turns, is_new=task.invocation.mode == "start")

    async def watch(method: str, params: JsonDocument) -> None:
        """Take only the cost from what is sent before the first prompt: the rest is a replay."""
        if method == "session/update":
            usage.take_update(as_object(params.get("update")))

    async with opened_session(agent, task, watch) as session:
        return await converse(task, Conversation(agent, task, session, usage))
