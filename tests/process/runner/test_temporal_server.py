"""`ao_runner.temporal` against a real Temporal server: what its page promises, with real runs and killed workers."""

import asyncio
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.process.executors.driver import wait_until
from tests.process.lifeline.leftovers import processes_in
from tests.process.runner.cli.calling import SECONDS, Ao, miniature

pytest.importorskip("temporalio", reason="temporalio is not installed; the extra `dev` has it")

from temporalio import workflow
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import ActivityError, ApplicationError, CancelledError, TimeoutType
from temporalio.exceptions import TimeoutError as OutOfTime
from temporalio.worker import Worker

from ao_runner.temporal import AgentRun, AgentWorkflow, agent_workers, perform_agent_run
from tests.temporal_server import TemporalServer, require_program

pytestmark = pytest.mark.thorough

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "temporal" / "agents.py"
QUEUE = "agents"  # that of the example
LIMIT_BYTES = (2 << 20) - (64 << 10)
Returned = TypeVar("Returned")


@workflow.defn(sandboxed=False)
class HastyWorkflow:
    """A workflow of somebody else, who is less patient."""

    @workflow.run
    async def run(self, order: AgentRun, seconds: dict[str, float], queue: str | None = None) -> dict[str, Any]:
        times = {name: timedelta(seconds=value) for name, value in seconds.items()}
        return await perform_agent_run(order, task_queue=queue, **times)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TemporalServer]:
    require_program()
    with TemporalServer(tmp_path_factory.mktemp("temporal")) as server:
        yield server


@dataclass
class Host:
    """A host of Temporal workers, with a home and a folder of its own."""

    ao: Ao
    server: TemporalServer

    @property
    def folder(self) -> Path:
        return self.ao.folder

    def order(self, executor: str, prompt: str = "hi", **fields: Any) -> AgentRun:
        path = executor if executor == "echo" else miniature(executor)
        order = {"blueprint": str(self.folder / "agent.yaml"), "prompt": prompt, "profile": path}
        return AgentRun(**(order | {"project_dir": str(self.folder)} | fields))  # type: ignore[typeddict-item]

    def runs(self) -> list[dict[str, Any]]:
        return [run for session in self.ao("sessions", "--json").document for run in session["runs"]]

    def last_run(self) -> dict[str, Any]:
        (run,) = self.runs()
        return run

    def has_begun(self) -> bool:
        """Return whether a run has an event of its executor."""
        said = self.ao("events", "last")
        return said.exit_code == 0 and "run_started" in said.stdout

    @contextmanager
    def worker(self, **variables: str) -> Iterator["subprocess.Popen[bytes]"]:
        """Run the example's Temporal workers in a process of their own."""
        environment = {**os.environ, **self.ao.environment(), "TEMPORAL_ADDRESS": self.server.address, **variables}
        argv = [sys.executable, str(EXAMPLE), "serve"]
        with subprocess.Popen(argv, cwd=self.folder, env=environment) as process:
            try:
                yield process
            finally:
                process.kill()


@pytest.fixture
def host(tmp_path: Path, server: TemporalServer, monkeypatch: pytest.MonkeyPatch) -> Host:
    ao = Ao(tmp_path)
    ao.write("agent.yaml", "name: agent\n")
    monkeypatch.setenv("AO_HOME", ao.environment()["AO_HOME"])
    monkeypatch.setenv("AO_STORE", "postgresql://elsewhere/db")  # for other commands; the runs are stored here
    return Host(ao, server)


def play(host: Host, story: Callable[[Client], Awaitable[Returned]]) -> Returned:
    """Perform a story with a client, with an end."""

    async def told() -> Returned:
        return await story(await host.server.client())

    return asyncio.run(asyncio.wait_for(told(), SECONDS))


@asynccontextmanager
async def working_here(client: Client) -> AsyncIterator[str]:
    """Run Temporal workers in this process, and give their task queue: one that no other test has."""
    queue = f"q-{uuid.uuid4()}"
    async with agent_workers(client, queue, workflows=[HastyWorkflow]):
        yield queue


async def start(client: Client, queue: str, order: Any, **seconds: float) -> WorkflowHandle[Any, dict[str, Any]]:
    name = str(uuid.uuid4())
    if seconds:
        return await client.start_workflow(HastyWorkflow.run, args=[order, seconds], id=name, task_queue=queue)
    return await client.start_workflow(AgentWorkflow.run, order, id=name, task_queue=queue)


async def cause_of(handle: WorkflowHandle[Any, Any]) -> BaseException | None:
    """Wait for the failure of a workflow's activity, and return its cause."""
    with pytest.raises(WorkflowFailureError) as raised:
        await handle.result()
    error = raised.value.cause
    return error.cause if isinstance(error, ActivityError) else error


async def attempts_of(handle: WorkflowHandle[Any, Any]) -> int:
    """Return at which attempt the activity of a workflow ended."""
    history = await handle.fetch_history()
    (started,) = [event for event in history.events if event.HasField("activity_task_started_event_attributes")]
    return started.activity_task_started_event_attributes.attempt


async def until(is_so: Callable[[], bool]) -> None:
    await asyncio.to_thread(wait_until, is_so)


def outcome(host: Host, order: Any, **seconds: float) -> tuple[dict[str, Any] | BaseException | None, int]:
    """Perform one order, and return the result or the cause of the failure, and the number of attempts."""

    async def story(client: Client) -> tuple[dict[str, Any] | BaseException | None, int]:
        async with working_here(client) as queue:
            handle = await start(client, queue, order, **seconds)
            try:
                ended: dict[str, Any] | BaseException | None = await handle.result()
            except WorkflowFailureError as error:
                ended = error.cause.__cause__
            return ended, await attempts_of(handle)

    return play(host, story)


def test_an_order_with_all_fields_becomes_a_run_of_this_host(host: Host) -> None:
    schema = {"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}}
    fields = {"labels": {"team": "red"}, "metadata": {"k": 1}, "timeout_seconds": 50, "output_schema": schema}
    more = {"output_schema_options": {"max_retries": 0}, "keep_rejected": False, "verify_results": True}
    blueprint = {"name": "inline", "description": "A blueprint in the order."}

    result, attempts = outcome(host, host.order("echo", '{"a": 1}', blueprint=blueprint, **fields, **more))

    assert isinstance(result, dict), result
    assert (result["event_type"], result["result_data"], attempts) == ("result", {"a": 1}, 1)
    run = host.last_run()
    assert result["run_id"] == run["run_id"]
    assert (run["labels"], run["metadata"], run["timeout_seconds"]) == ({"team": "red"}, {"k": 1}, 50)


def test_a_result_of_nearly_two_mebibytes_arrives_and_a_longer_one_is_an_error_that_says_where_it_is(
    host: Host,
) -> None:
    fits, attempts = outcome(host, host.order("answers_at_length", str(LIMIT_BYTES - 1000)))
    assert isinstance(fits, dict), fits
    assert (len(fits["result_text"]), attempts) == (LIMIT_BYTES - 1000, 1)

    error, attempts = outcome(host, host.order("answers_at_length", "3000000"))

    assert isinstance(error, ApplicationError)
    assert (error.type, error.non_retryable, attempts) == ("result_too_large", True, 1)
    run = error.details[0]["run_id"]
    assert f"`ao result {run}`" in error.message
    assert len(host.ao("result", run).stdout.strip()) == 3_000_000


def test_what_was_not_done_is_tried_again_when_the_provider_says_so(host: Host) -> None:
    result, attempts = outcome(host, host.order("is_limited_once", "0.2", requeue_at_reset=True))

    assert isinstance(result, dict), result
    assert (result["result_text"], attempts) == ("done", 2)


def test_what_may_have_been_done_is_not_tried_again(host: Host) -> None:
    error, attempts = outcome(host, host.order("counts_its_starts"))

    assert isinstance(error, ApplicationError)
    assert (error.type, error.non_retryable, attempts) == ("provider_unavailable", True, 1)


def test_an_order_that_no_run_can_have_is_refused_with_the_field(host: Host) -> None:
    error, attempts = outcome(host, {**host.order("echo"), "promt": "hi"})

    assert isinstance(error, ApplicationError)
    assert (error.type, error.message, attempts) == (
        "invalid_invocation", "$.promt: unknown field; did you mean 'prompt'?", 1,
    )  # fmt: skip


def test_a_cancel_reaches_the_agent_of_a_silent_executor(host: Host) -> None:
    """With a heartbeat timeout of 60 s, of which the SDK alone would let 48 s pass."""

    async def story(client: Client) -> None:
        async with working_here(client) as queue:
            handle = await start(client, queue, host.order("leaves_when_asked"))
            await until(host.has_begun)
            await handle.cancel()

            error = await asyncio.wait_for(cause_of(handle), 40)

            assert isinstance(error, CancelledError)

    play(host, story)
    assert host.last_run()["status"] == "cancelled"
    assert processes_in(host.folder) == []


def test_a_run_whose_activity_has_no_time_left_is_stopped_and_not_repeated(host: Host) -> None:
    async def story(client: Client) -> None:
        async with working_here(client) as queue:
            handle = await start(client, queue, host.order("leaves_when_asked"), start_to_close_timeout=5)

            error = await cause_of(handle)

            assert isinstance(error, OutOfTime)
            assert error.type == TimeoutType.START_TO_CLOSE
            assert await attempts_of(handle) == 1
            # On a slow machine it may not have begun; then nothing of it is stored.
            await until(lambda: all(run["status"] == "cancelled" for run in host.runs()))

    play(host, story)
    assert processes_in(host.folder) == []


@asynccontextmanager
async def begun_elsewhere(
    client: Client, host: Host, executor: str, **seconds: float
) -> AsyncIterator[WorkflowHandle[Any, Any]]:
    """Start a run by a worker that is another process, wait until it has begun, and give its workflow.

    Here are workers for the workflow alone.
    """
    queue = f"q-{uuid.uuid4()}"
    async with Worker(client, task_queue=queue, workflows=[HastyWorkflow]):
        order = host.order(executor)
        handle = await client.start_workflow(
            HastyWorkflow.run, args=[order, seconds, QUEUE], id=queue, task_queue=queue
        )
        await until(host.has_begun)
        yield handle


def test_a_killed_temporal_worker_leaves_no_process_and_no_second_run(host: Host) -> None:
    async def story(client: Client) -> None:
        with host.worker() as worker:
            async with begun_elsewhere(client, host, "ignores_cancel", heartbeat_timeout=3) as handle:
                worker.kill()
                assert await asyncio.to_thread(processes_in, host.folder) == []

                error = await cause_of(handle)

                assert isinstance(error, OutOfTime)
                assert error.type == TimeoutType.HEARTBEAT
                assert await attempts_of(handle) == 1

    play(host, story)
    assert host.last_run()["status"] == "cancelled"


def test_a_worker_that_was_away_for_too_long_stops_its_lost_run(host: Host) -> None:
    async def story(client: Client) -> None:
        with host.worker() as worker:
            async with begun_elsewhere(client, host, "leaves_when_asked", heartbeat_timeout=3) as handle:
                worker.send_signal(signal.SIGSTOP)
                error = await cause_of(handle)
                worker.send_signal(signal.SIGCONT)

                assert isinstance(error, OutOfTime)
                assert error.type == TimeoutType.HEARTBEAT
                await until(lambda: host.last_run()["status"] == "cancelled")

    play(host, story)


def test_a_worker_that_shuts_down_stops_its_run_which_is_not_repeated(host: Host) -> None:
    async def story(client: Client) -> None:
        with host.worker(GRACE_SECONDS="0") as worker:
            async with begun_elsewhere(client, host, "ignores_cancel") as handle:
                worker.terminate()
                error = await cause_of(handle)

                assert isinstance(error, ApplicationError)
                assert (error.type, error.non_retryable) == ("cancelled", True)
                assert await attempts_of(handle) == 1
                await asyncio.to_thread(worker.wait, SECONDS)

    play(host, story)
    assert processes_in(host.folder) == []


def test_a_session_continues_on_the_host_that_has_it_and_nowhere_else(host: Host, tmp_path: Path) -> None:
    homes = {name: str(tmp_path / f"home-{name}") for name in ("one", "two")}

    async def story(client: Client) -> None:
        first = host.order("says_what_its_prompt_says", "[]")
        result = await (await start(client, QUEUE, first)).result()
        further = AgentRun(session_id=result["session_id"], host=result["host"], prompt="[]")

        again = await (await start(client, QUEUE, further)).result()

        assert (again["host"], again["session_id"]) == (result["host"], result["session_id"])
        assert again["run_id"] != result["run_id"]
        (other,) = homes.keys() - {result["host"]}
        error = await cause_of(await start(client, QUEUE, {**further, "host": other}))
        assert isinstance(error, ApplicationError)
        assert error.type == "session_not_found"
        assert f"is not in the store of this host, {other}; give the `host` of its result" in error.message

    with host.worker(AO_HOST="one", AO_HOME=homes["one"]), host.worker(AO_HOST="two", AO_HOME=homes["two"]):
        play(host, story)
