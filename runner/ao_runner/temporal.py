"""One run of any executor as one activity of Temporal, and a workflow for it; needs the extra `temporal`.

The activity starts a process for each run, which performs it as `ao run` does, with the sessions and runs in the store
of the host. So a run cannot disturb the event loop of the Temporal worker, and it ends when that worker dies. This
module imports nothing of the runner, because Temporal imports it again in the sandbox of each workflow.

The times: the Temporal SDK sends a heartbeat after at most the smaller one of `max_heartbeat_throttle_interval` and 0.8
times `heartbeat_timeout`, and a cancel arrives with the answer to a heartbeat. The activity offers one each
`BEAT_SECONDS`. With the 2 s of `agent_workers` a cancel reaches the agent after at most 3 s, however long
`heartbeat_timeout` is; with the 60 s of a bare `Worker` after 49 s.
"""

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Any, Final, TypedDict

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.common import RetryPolicy
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker

BEAT_SECONDS: Final = 1.0
THROTTLE: Final = timedelta(seconds=2)
"""The `max_heartbeat_throttle_interval` of `agent_workers`."""
HEARTBEAT_TIMEOUT: Final = timedelta(seconds=60)
"""So long a Temporal worker, or its network, may be silent before its runs count as lost."""
TIMEOUT_SECONDS: Final = 3600
"""The default time limit of a run."""
END_SECONDS: Final = 60
"""How much longer the activity may take than its run, which ends by itself, as `deadline_exceeded`."""
MAX_LINE_BYTES: Final = 4 << 20
RETRIES: Final = RetryPolicy(
    maximum_attempts=5,
    # Such a run may have had side effects.
    non_retryable_error_types=["TemporalTimeout:Heartbeat", "TemporalTimeout:StartToClose"],
)
"""The errors of the activity say themselves whether they may be tried again."""

# `Final` is no part of these annotations: Temporal reads them.


class AgentRun(TypedDict, total=False):
    """What to run: the fields of `ao submit` and of POST /runs that are not Temporal's own.

    Paths are those of the hosts of the Temporal workers. An unknown field is refused. For `requires` use task queues,
    and for `priority` and `not_before` Temporal's `priority` and `start_delay`.
    """

    blueprint: str | dict[str, Any]
    """A blueprint or the path of one; it begins a session."""
    session_id: str
    """The session to continue, in place of `blueprint`."""
    host: str
    """The host that has the session: the `host` of an earlier result."""
    prompt: str
    """Short for `parameters.prompt`."""
    parameters: dict[str, Any]
    profile: str
    """A profile or executor."""
    project_dir: str
    executor_config: dict[str, Any]
    model_script: str
    """The path of a script that answers instead of a model."""
    timeout_seconds: float
    metadata: dict[str, Any]
    labels: dict[str, str]
    attachments: list[dict[str, Any]]
    output_schema: dict[str, Any]
    output_schema_name: str
    output_schema_options: dict[str, Any]
    no_schema: bool
    keep_rejected: bool
    requeue_at_reset: bool
    """Whether a run that ends at a usage limit, with nothing done, is tried again at its reset."""
    verify_results: bool
    parent_session_id: str


@workflow.defn
class AgentWorkflow:
    """One run, tried again only if nothing was done."""

    @workflow.run
    async def run(self, order: AgentRun) -> dict[str, Any]:
        """Return the `result` event of the run, see `perform_agent_run`."""
        return await perform_agent_run(order)


async def perform_agent_run(order: AgentRun, **options: Any) -> dict[str, Any]:  # noqa: ANN401  # those of Temporal
    """Perform a run from within a workflow, and return its `result` event with the `host` that has the session.

    Args:
        order: What to run.
        options: Those of `workflow.execute_activity`, in place of the defaults here.

    Raises:
        ActivityError: The run failed, was cancelled or was lost; its `cause` says how.
    """
    seconds = order.get("timeout_seconds", TIMEOUT_SECONDS) + END_SECONDS
    defaults = {
        "task_queue": queue_of_host(workflow.info().task_queue, order["host"]) if "host" in order else None,
        "start_to_close_timeout": timedelta(seconds=seconds),
        "heartbeat_timeout": HEARTBEAT_TIMEOUT,  # without it no cancel arrives
        "cancellation_type": workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        "retry_policy": RETRIES,
    }
    result: dict[str, Any] = await workflow.execute_activity(run_agent, order, **defaults | options)
    return result


def queue_of_host(task_queue: str, host: str) -> str:
    """Return the name of the task queue for the sessions of a host."""
    return f"{task_queue}@{host}"


@asynccontextmanager
async def agent_workers(client: Client, task_queue: str, **options: Any) -> AsyncIterator[None]:  # noqa: ANN401
    """Run two Temporal workers inside the `async with` block: for a task queue, and for the sessions of this host.

    Args:
        client: A client that is connected.
        task_queue: The task queue for runs that may begin on any host.
        options: Those of `temporalio.worker.Worker`, for both; `workflows` and `activities` are added to those here.
    """
    from ao_runner.store.ownership import host_name

    activities = [run_agent, *options.pop("activities", ())]
    workflows = [AgentWorkflow, *options.pop("workflows", ())]
    options = {"max_heartbeat_throttle_interval": THROTTLE, **options, "activities": activities, "workflows": workflows}
    own_queue = queue_of_host(task_queue, host_name())
    async with Worker(client, task_queue=task_queue, **options), Worker(client, task_queue=own_queue, **options):
        yield


@activity.defn
async def run_agent(order: AgentRun) -> dict[str, Any]:
    """Perform a run in a process of its own, and return its `result` event with the `host` that has the session.

    Raises:
        ApplicationError: The run failed or was refused; it is retryable only if nothing was done.
        CancelledError: The run was cancelled by its workflow.
    """
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ao_runner.cli.asked_run", str(os.getpid())),
        stdin=PIPE, stdout=PIPE, limit=MAX_LINE_BYTES, env=os.environ | {"AO_STORE": "local"},
        start_new_session=True,  # Ctrl-C is for the Temporal worker, which cancels its activities
    )  # fmt: skip
    said: dict[str, Any] = {}
    reading = asyncio.ensure_future(_read(process, _with_limit(order), said))
    beating = asyncio.ensure_future(_beat(said))
    try:
        try:
            await asyncio.shield(reading)
        except asyncio.CancelledError:
            with suppress(ProcessLookupError):
                process.terminate()  # asks the agent to stop; the run then ends with one more event
            await asyncio.shield(reading)
    finally:
        beating.cancel()
        if process.returncode is None:
            process.kill()  # cancelled a second time, say: the processes of the run are killed with it
    if "result" in said:
        result: dict[str, Any] = said["result"]
        return result
    cancel = activity.cancellation_details()
    if cancel is not None and cancel.cancel_requested and said.get("error", {}).get("type", "cancelled") == "cancelled":
        raise asyncio.CancelledError
    raise _error_of(said, process, is_cancelled=cancel is not None)


def _with_limit(order: AgentRun) -> AgentRun:
    """Return the order with a time limit, so that its run ends by itself, before Temporal gives it up."""
    seconds = (activity.info().start_to_close_timeout or timedelta()).total_seconds() - END_SECONDS
    return order if "timeout_seconds" in order or seconds <= 0 else {**order, "timeout_seconds": seconds}


async def _read(process: Process, order: AgentRun, said: dict[str, Any]) -> None:
    """Write the order, and update `said` with each line of the process until it has exited."""
    assert process.stdin is not None  # noqa: S101
    assert process.stdout is not None  # noqa: S101
    process.stdin.write(json.dumps(order).encode())
    process.stdin.close()
    async for line in process.stdout:
        said |= json.loads(line)
    await process.wait()


async def _beat(said: dict[str, Any]) -> None:
    """Offer a heartbeat with the ids of the run and its latest event, also while the executor says nothing."""
    while True:
        activity.heartbeat({name: said[name] for name in ("run_id", "session_id", "host", "seq") if name in said})
        await asyncio.sleep(BEAT_SECONDS)


def _error_of(said: dict[str, Any], process: Process, *, is_cancelled: bool) -> ApplicationError:
    """Return the error of a run without a result. Temporal may try it again only if nothing was done.

    A CancelledError would be tried again, too, where the Temporal worker shuts down.
    """
    ids = {name: said[name] for name in ("run_id", "session_id", "host") if name in said}
    if "error" not in said and not is_cancelled:
        message = f"the run's process exited with {process.returncode} and did not say how it ended; see its stderr"
        return ApplicationError(message, ids, type="no_terminal_event", non_retryable=True)
    error = said.get("error", {"type": "cancelled", "message": "cancelled before the run began", "is_undone": True})
    may_repeat = error.get("retryable") or (is_cancelled and error["type"] == "cancelled")
    delay = error.get("retry_after_seconds")
    return ApplicationError(
        error["message"],
        ids | {"validation_errors": error.get("validation_errors", [])},
        type=error["type"],
        non_retryable=not (may_repeat and error.get("is_undone")),
        next_retry_delay=None if delay is None else timedelta(seconds=delay),
    )
