"""Runs of a worker that a model script answers: each has a simulator of its own, which holds up no other run."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from ao_protocol.errors import ErrorType
from ao_runner.model_script import SimulatorFailed, play_stored_script
from ao_runner.runs.outcome import NotAcceptable
from ao_runner.runs.run_request import RunRequest


@asynccontextmanager
async def simulated(
    order: RunRequest, script: str, home: Path, note: Callable[[str], None]
) -> AsyncIterator[RunRequest]:
    """Yield the order with a simulator that plays the script until the block ends, or an order that says why not.

    `note` gets a sentence when the model received requests that the script does not expect.
    """
    playing = play_stored_script(script, home, order.environ)
    starting = asyncio.ensure_future(asyncio.to_thread(playing.__enter__))
    try:
        try:
            running = await asyncio.shield(starting)
        except (SimulatorFailed, OSError) as error:
            yield replace(order, refusal=NotAcceptable(ErrorType.INTERNAL_ERROR, f"no simulated model: {error}"))
            return
        yield replace(order, simulation=running.simulation)
    finally:
        await asyncio.wait([starting])
        if not starting.cancelled() and starting.exception() is None:
            await asyncio.to_thread(playing.__exit__, None, None, None)
    if running.report:
        note(f"the model received requests that its script does not expect: {running.report}")
