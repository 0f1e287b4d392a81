"""`ao mcp`: agents of an `ao serve` as tools for an MCP client that starts programs."""

import asyncio
import os
import signal
from typing import Final

import click

from ao_runner.cli.options import examples
from ao_runner.coordinators.http.transport import Exchange, Timing
from ao_runner.orchestrator.coordinator_client import CoordinatorClient
from ao_runner.orchestrator.mcp_sdk import over_stdio

SERVER_TOKEN: Final = "AO_SERVER_TOKEN"  # noqa: S105  # the name of a variable


@click.command(
    "mcp",
    epilog=examples(
        "claude mcp add ao -- ao mcp",
        "claude mcp add ao -e AO_SERVER_TOKEN=TOKEN -- ao mcp --server https://ao.example",
    )
    + "\n\n\b\nA server has the same tools at URL/mcp:"
    + "\n  claude mcp add --transport http ao http://127.0.0.1:8765/mcp"
    + "\n\n\b\nVariables: AO_SERVER_TOKEN is the token, of the role client, if the server demands one.",
)
@click.option(
    "--server",
    envvar="AO_SERVER",
    default="http://127.0.0.1:8765",
    show_default=True,
    metavar="URL",
    help="Address of the `ao serve`; also AO_SERVER.",
)
def mcp_command(server: str) -> None:
    """Offer the agents of a server as tools to an MCP client, on stdin and stdout.

    The client starts this program. Its tools list, start, resume and stop agents, and read their results.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # else the end would wait for the next line of stdin
    asyncio.run(_serve(server, os.environ.get(SERVER_TOKEN, "").strip() or None))


async def _serve(server: str, token: str | None) -> None:
    async with Exchange(server, token, Timing()) as exchange:
        await over_stdio(CoordinatorClient(exchange))
