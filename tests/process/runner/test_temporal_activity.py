"""The activity and workflow of `ao_runner.temporal` without a server: in Temporal's own environment and replayer."""

import asyncio
import base64
import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar, get_type_hints

import pytest

from ao_runner.cli.asked_run import Order
from ao_runner.runs.asked_in_json import AskedInJson
from tests.process.runner.cli.calling import SECONDS, Ao, miniature

pytest.importorskip("temporalio", reason="temporalio is not installed; the extra `dev` has it")

from temporalio.activity import ActivityCancellationDetails
from temporalio.client import WorkflowHistory
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment
from temporalio.worker import (
    Interceptor,
    Replayer,
    StartActivityInput,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
    WorkflowOutboundInterceptor,
)
from temporalio.workflow import ActivityCancellationType

from ao_runner.temporal import AgentRun, AgentWorkflow, run_agent

pytestmark = pytest.mark.thorough  # most of these perform runs


@pytest.fixture
def ao(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ao:
    """An installation of `ao` on the host of the Temporal worker."""
    ao = Ao(tmp_path)
    ao.write("agent.yaml", "name: agent\n")
    monkeypatch.setenv("AO_HOME", ao.environment()["AO_HOME"])
    monkeypatch.setenv("AO_STORE", "postgresql://elsewhere/db")
    return ao


def perform(environment: ActivityEnvironment, ao: Ao, profile: str, prompt: str = "hi") -> dict[str, Any]:
    order = AgentRun(blueprint=str(ao.folder / "agent.yaml"), prompt=prompt, profile=profile)
    return asyncio.run(asyncio.wait_for(environment.run(run_agent, order), SECONDS))


def cancelled_once_begun(**details: bool) -> ActivityEnvironment:
    """Return an environment that cancels at the first heartbeat that names the run."""
    environment = ActivityEnvironment()

    def cancel(beat: dict[str, Any]) -> None:
        if "seq" in beat:
            environment.cancel(ActivityCancellationDetails(**details))

    environment.on_heartbeat = cancel
    return environment


def failing_with(**error: Any) -> str:
    """Return a prompt with which a miniature ends with this failure."""
    whole = {"type": "provider_unavailable", "message": "try later", "origin": "provider", **error}
    return json.dumps([{"event_type": "failure", "status": "failed", "error": whole}])


def test_an_order_has_the_fields_of_every_door_for_json_by_the_same_names() -> None:
    assert get_type_hints(AgentRun).keys() == Order.model_fields.keys()
    assert AskedInJson.model_fields.keys() < Order.model_fields.keys()


@pytest.mark.slow  # repeats what another test does
def test_the_activity_returns_the_result_which_is_stored_on_this_host(ao: Ao) -> None:
    result = perform(ActivityEnvironment(), ao, "echo", "hé" * 100_000)

    assert (result["event_type"], result["result_text"]) == ("result", "hé" * 100_000)
    stored = ao("result", "last", "--json", AO_STORE="local", AO_HOST="h").document
    assert stored == {name: value for name, value in result.items() if name != "host"}


@pytest.mark.slow  # repeats what another test does
def test_a_retryable_failure_with_nothing_done_is_tried_again_when_the_provider_says_so(ao: Ao) -> None:
    prompt = failing_with(retryable=True, side_effects="none", retry_after_seconds=20)

    with pytest.raises(ApplicationError) as raised:
        perform(ActivityEnvironment(), ao, miniature("says_what_its_prompt_says"), prompt)

    assert not raised.value.non_retryable
    assert (raised.value.type, raised.value.message) == ("provider_unavailable", "try later")
    assert raised.value.details[0]["run_id"] == ao("sessions", "--json", AO_STORE="").document[0]["runs"][0]["run_id"]
    assert raised.value.next_retry_delay is not None
    assert raised.value.next_retry_delay.total_seconds() == 20


def test_a_run_without_a_limit_ends_by_itself_before_its_activity_is_given_up(ao: Ao) -> None:
    environment = ActivityEnvironment()
    environment.info = replace(environment.info, start_to_close_timeout=timedelta(seconds=61))

    with pytest.raises(ApplicationError) as raised:
        perform(environment, ao, miniature("leaves_when_asked"))

    assert (raised.value.type, raised.value.non_retryable) == ("deadline_exceeded", True)


def test_a_process_that_dies_without_a_word_is_not_tried_again(ao: Ao, monkeypatch: pytest.MonkeyPatch) -> None:
    ao.write("sitecustomize.py", "import os\nos._exit(9)\n")
    monkeypatch.setenv("PYTHONPATH", str(ao.folder))

    with pytest.raises(ApplicationError, match="exited with 9 and did not say how it ended") as raised:
        perform(ActivityEnvironment(), ao, "echo")

    assert (raised.value.type, raised.value.non_retryable) == ("no_terminal_event", True)


def test_a_result_that_comes_in_spite_of_a_cancel_is_returned(ao: Ao) -> None:
    environment = cancelled_once_begun(cancel_requested=True)

    assert perform(environment, ao, miniature("answers_although_cancelled"))["event_type"] == "result"


def test_a_run_with_nothing_done_is_tried_again_after_the_shutdown_of_its_worker(ao: Ao) -> None:
    with pytest.raises(ApplicationError) as raised:
        perform(cancelled_once_begun(worker_shutdown=True), ao, miniature("leaves_when_asked"))

    assert (raised.value.type, raised.value.non_retryable) == ("cancelled", False)


class Recording(Interceptor):
    """Records the activities that a workflow starts."""

    started: ClassVar[list[StartActivityInput]] = []

    def workflow_interceptor_class(self, _: WorkflowInterceptorClassInput) -> type[WorkflowInboundInterceptor]:
        return RecordingInbound


class RecordingInbound(WorkflowInboundInterceptor):
    def init(self, outbound: WorkflowOutboundInterceptor) -> None:
        super().init(RecordingOutbound(outbound))


class RecordingOutbound(WorkflowOutboundInterceptor):
    def start_activity(self, input: StartActivityInput) -> Any:  # noqa: A002  # the name of the SDK
        Recording.started.append(input)
        return super().start_activity(input)


def history_of(order: dict[str, Any]) -> WorkflowHistory:
    """Return the history of a workflow that was started with an order and has started its activity."""
    payload = {"encoding": "json/plain", "data": json.dumps(order)}
    encoding, data = (base64.b64encode(text.encode()).decode() for text in payload.values())
    started = {
        "workflowType": {"name": "AgentWorkflow"},
        "taskQueue": {"name": "agents"},
        "input": {"payloads": [{"metadata": {"encoding": encoding}, "data": data}]},
        "originalExecutionRunId": "r",
    }
    scheduled = {"activityId": "1", "activityType": {"name": "run_agent"}, "workflowTaskCompletedEventId": "4"}
    events: list[tuple[str, dict[str, Any]]] = [
        ("WorkflowExecutionStarted", started),
        ("WorkflowTaskScheduled", {}),
        ("WorkflowTaskStarted", {"scheduledEventId": "2"}),
        ("WorkflowTaskCompleted", {"scheduledEventId": "2", "startedEventId": "3"}),
        ("ActivityTaskScheduled", scheduled),
    ]
    written = [
        {
            "eventId": str(number),
            "eventTime": "2026-11-25T00:00:00Z",
            "eventType": name,
            f"{name[0].lower()}{name[1:]}EventAttributes": attributes,
        }
        for number, (name, attributes) in enumerate(events, 1)
    ]
    return WorkflowHistory.from_json("workflow", {"events": written})


def test_the_workflow_can_be_cancelled_and_does_not_repeat_a_run_that_was_lost() -> None:
    replayer = Replayer(workflows=[AgentWorkflow], interceptors=[Recording()])

    asyncio.run(replayer.replay_workflow(history_of({"blueprint": "a.yaml", "prompt": "hi", "timeout_seconds": 100})))

    (started,) = Recording.started
    assert started.heartbeat_timeout == timedelta(seconds=60)
    assert started.start_to_close_timeout == timedelta(seconds=160)
    assert started.cancellation_type == ActivityCancellationType.WAIT_CANCELLATION_COMPLETED
    assert started.retry_policy is not None
    assert started.retry_policy.non_retryable_error_types == [
        "TemporalTimeout:Heartbeat",
        "TemporalTimeout:StartToClose",
    ]
