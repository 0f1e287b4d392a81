"""The recipe for Temporal: the activity runs in Temporal's own environment, its workflow in Temporal's replayer."""

import asyncio
import base64
import json
import os
import re
import sys
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import pytest

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

pytestmark = pytest.mark.thorough  # each test performs runs

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docs" / "examples" / "temporal" / "agent_activity.py"


sys.path.append(str(FILE.parent))  # Temporal's sandbox imports it once more, by its name
example: Any = import_module(FILE.stem)


@pytest.fixture
def ao(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ao:
    """An installation of `ao` on the host of the Temporal worker."""
    ao = Ao(tmp_path)
    ao.write("agent.yaml", "name: agent\n")
    monkeypatch.setenv("AO_HOME", ao.environment()["AO_HOME"])
    monkeypatch.setenv("AO_STORE", "postgresql://elsewhere/db")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    return ao


def perform(environment: ActivityEnvironment, ao: Ao, profile: str, prompt: str = "hi") -> dict[str, Any]:
    order = example.AgentRun(str(ao.folder / "agent.yaml"), prompt, profile)
    return asyncio.run(asyncio.wait_for(environment.run(example.run_agent, order), SECONDS))


def failing_with(**error: Any) -> str:
    """Return a prompt with which a miniature ends with this failure."""
    whole = {"type": "provider_unavailable", "message": "try later", "origin": "provider", **error}
    return json.dumps([{"event_type": "failure", "status": "failed", "error": whole}])


def test_what_the_page_shows_is_in_the_file() -> None:
    page = (ROOT / "docs" / "recipe-temporal.md").read_text()
    shown = re.findall(r"```python\n(.*?)```", page, re.DOTALL)

    assert len(shown) == 3
    assert [block for block in shown if block not in FILE.read_text()] == []


def test_the_activity_returns_the_result_and_heartbeats_at_each_event(ao: Ao) -> None:
    environment = ActivityEnvironment()
    beats: list[dict[str, Any]] = []
    environment.on_heartbeat = beats.append

    result = perform(environment, ao, "echo", "hi" * 100_000)

    assert (result["event_type"], result["result_text"]) == ("result", "hi" * 100_000)
    assert [beat["seq"] for beat in beats] == list(range(1, result["seq"] + 1))
    assert [beat["event_type"] for beat in beats][-1] == "result"
    assert ao("result", "last", "--json", AO_STORE="local").document["run_id"] == result["run_id"]


@pytest.mark.parametrize(
    ("retryable", "side_effects", "is_tried_again"),
    [(True, "none", True), (True, "possible", False), (False, "none", False)],
)
def test_only_a_retryable_failure_without_side_effects_is_tried_again(
    retryable: bool, side_effects: str, is_tried_again: bool, ao: Ao
) -> None:
    prompt = failing_with(retryable=retryable, side_effects=side_effects, retry_after_seconds=20)

    with pytest.raises(ApplicationError) as raised:
        perform(ActivityEnvironment(), ao, miniature("says_what_its_prompt_says"), prompt)

    assert raised.value.non_retryable is not is_tried_again
    assert (raised.value.type, raised.value.message) == ("provider_unavailable", "try later")
    assert raised.value.next_retry_delay is not None
    assert raised.value.next_retry_delay.total_seconds() == 20


def test_a_run_that_never_began_is_not_tried_again(ao: Ao) -> None:
    with pytest.raises(ApplicationError, match="exited with 2 without a terminal event") as raised:
        perform(ActivityEnvironment(), ao, "no-such-profile")

    assert raised.value.non_retryable


def test_a_cancel_stops_the_run_and_waits_for_its_terminal_event(ao: Ao) -> None:
    environment = ActivityEnvironment()
    environment.on_heartbeat = lambda _: environment.cancel()

    with pytest.raises(asyncio.CancelledError):
        perform(environment, ao, miniature("leaves_when_asked"))

    assert ao("result", "last", "--json", AO_STORE="local").document["status"] == "cancelled"


def test_a_result_that_comes_in_spite_of_a_cancel_is_returned(ao: Ao) -> None:
    environment = ActivityEnvironment()
    environment.on_heartbeat = lambda _: environment.cancel()

    assert perform(environment, ao, miniature("answers_although_cancelled"))["event_type"] == "result"


def test_a_run_that_ends_because_the_temporal_worker_shuts_down_is_not_tried_again(ao: Ao) -> None:
    environment = ActivityEnvironment()
    environment.on_heartbeat = lambda _: environment.cancel(ActivityCancellationDetails(worker_shutdown=True))

    with pytest.raises(ApplicationError) as raised:
        perform(environment, ao, miniature("leaves_when_asked"))

    assert (raised.value.type, raised.value.non_retryable) == ("cancelled", True)


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
    replayer = Replayer(workflows=[example.AgentWorkflow], interceptors=[Recording()])

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
