"""Agents as activities of Temporal: `python agents.py serve` on each host, and `python agents.py run "Review PR 7"`."""

import asyncio
import os
import signal
import sys
import uuid
from datetime import timedelta

from temporalio.client import Client

from ao_runner.temporal import AgentRun, AgentWorkflow, agent_workers

QUEUE = "agents"


async def serve(client: Client) -> None:
    """Perform runs until SIGTERM or Ctrl-C, and let those that have begun end within ten minutes."""
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    grace = timedelta(seconds=float(os.environ.get("GRACE_SECONDS", "600")))
    async with agent_workers(client, QUEUE, max_concurrent_activities=4, graceful_shutdown_timeout=grace):
        await stopped.wait()


async def run(client: Client, prompt: str) -> None:
    """Start a workflow, wait for its end, and print the answer."""
    order = AgentRun(blueprint="agent.yaml", prompt=prompt, profile=os.environ.get("PROFILE", "claude-code"))
    result = await client.execute_workflow(AgentWorkflow.run, order, id=f"agent-{uuid.uuid4()}", task_queue=QUEUE)
    print(result["result_text"])  # noqa: T201  # the answer


async def main() -> None:
    """Connect, and do what the command line says."""
    client = await Client.connect(os.environ.get("TEMPORAL_ADDRESS", "127.0.0.1:7233"))
    await (serve(client) if sys.argv[1] == "serve" else run(client, sys.argv[2]))


if __name__ == "__main__":
    asyncio.run(main())
