"""A Temporal activity that performs one run of an agent, and a workflow that uses it."""

import asyncio
import json
import os
from asyncio.subprocess import PIPE, Process
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from temporalio import activity, workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ApplicationError

MAX_LINE_BYTES = 17 << 20  # an event has at most 16 MiB, unless the profile says otherwise
RETRIES = RetryPolicy(
    maximum_attempts=5,
    non_retryable_error_types=["TemporalTimeout:Heartbeat", "TemporalTimeout:StartToClose"],
)


@dataclass(frozen=True)
class AgentRun:
    """What to run. The blueprint is a path on the hosts of the Temporal workers."""

    blueprint: str
    prompt: str
    profile: str = "claude-code"
    timeout_seconds: int = 3600


@workflow.defn
class AgentWorkflow:
    """One run, tried again only if it failed without side effects."""

    @workflow.run
    async def run(self, order: AgentRun) -> dict[str, Any]:
        """Return the terminal event, a `result`."""
        return await workflow.execute_activity(
            run_agent,
            order,
            start_to_close_timeout=timedelta(seconds=order.timeout_seconds + 60),
            heartbeat_timeout=timedelta(seconds=60),  # without it no cancel arrives
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            retry_policy=RETRIES,
        )


@activity.defn
async def run_agent(order: AgentRun) -> dict[str, Any]:
    """Perform a run with `ao run` and return its terminal event, a `result`.

    Raises:
        ApplicationError: The run failed, or `ao run` did not say how it ended.
    """
    process = await asyncio.create_subprocess_exec(
        *("ao", "run", order.blueprint, "--prompt", "-", "--events"),
        *("--profile", order.profile, "--timeout", str(order.timeout_seconds)),
        stdin=PIPE, stdout=PIPE, limit=MAX_LINE_BYTES, env=os.environ | {"AO_STORE": "local"},
        start_new_session=True,  # Ctrl-C is for the Temporal worker, which cancels its activities
    )  # fmt: skip
    events = asyncio.ensure_future(relay_events(process, order.prompt))
    try:
        last = await asyncio.shield(events)
    except asyncio.CancelledError:
        process.terminate()  # asks the agent to stop; the run then ends with one more event
        last = await asyncio.shield(events)
    except ValueError as error:
        raise ApplicationError(f"unreadable event: {error}", type="unreadable_event", non_retryable=True) from error
    finally:
        if process.returncode is None:
            process.kill()  # cancelled a second time, say: the processes of the run are killed with it
    if last.get("event_type") == "result":
        return last
    cancel = activity.cancellation_details()
    if last.get("status") == "cancelled" and cancel is not None and cancel.cancel_requested:
        raise asyncio.CancelledError
    raise error_of(last, process)  # also where this worker shuts down: Temporal would repeat a CancelledError


async def relay_events(process: Process, prompt: str) -> dict[str, Any]:
    """Heartbeat at each event and return the last one, when the process has exited."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(prompt.encode())
    process.stdin.close()
    event: dict[str, Any] = {}
    async for line in process.stdout:
        event = json.loads(line)
        activity.heartbeat({name: event[name] for name in ("run_id", "seq", "event_type")})
    await process.wait()
    return event


def error_of(last: dict[str, Any], process: Process) -> ApplicationError:
    """Return the error of a failed run. Temporal tries again only what is retryable and had no side effects."""
    if last.get("event_type") != "failure":
        words = f"ao run exited with {process.returncode} without a terminal event; its stderr says why"
        return ApplicationError(words, type="no_terminal_event", non_retryable=True)
    error = last["error"]
    delay = error.get("retry_after_seconds")
    return ApplicationError(
        error["message"],
        {"run_id": last["run_id"], "session_id": last["session_id"]},
        type=error["type"],
        non_retryable=not (error["retryable"] and error["side_effects"] == "none"),
        next_retry_delay=None if delay is None else timedelta(seconds=delay),
    )
