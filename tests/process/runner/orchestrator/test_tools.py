"""What agents can do with the tools."""

from typing import Any

import pytest

from ao_runner.orchestrator.coordinator_client import MOST_HELD, Timeouts
from tests.process.runner.orchestrator.calling import Agent, with_agent
from tests.process.runner.orchestrator.small_coordinator import SmallCoordinator


def test_a_started_session_is_a_child_of_the_caller_and_its_result_comes_back() -> None:
    coordinator = SmallCoordinator(asks_until_end=3)

    async def story(agent: Agent) -> None:
        agent.demands = {"tags": ["gpu"], "project_dir": "/srv"}
        answer = await agent.call("start_agent_session", agent_name="helper", parameters={"prompt": "Hi"})
        assert answer == {"session_id": "ses_new", "result_text": "Done.", "result_data": {"of": "ses_new"}}

    with_agent(story, coordinator)
    assert coordinator.runs == [
        {
            "type": "start_session",
            "agent_name": "helper",
            "project_dir": "/srv",
            "parameters": {"prompt": "Hi"},
            "parent_session_id": "ses_me",
            "execution_mode": "sync",
            "additional_demands": {"tags": ["gpu"], "project_dir": "/srv"},
        }
    ]


@pytest.mark.parametrize("tool", ["start_agent_session", "resume_agent_session"])
def test_a_contract_is_sent_with_the_run_and_its_verdict_is_in_the_result(tool: str) -> None:
    validation = {"validated_output": {"n": 1}, "schema_validation": {"valid": True, "retry_count": 0}}
    coordinator = SmallCoordinator(validation=validation)
    coordinator.add("ses_x", "ses_me")
    contract = {"output_schema": {"type": "object"}, "output_schema_options": {"max_retries": 1}}
    asked = {**contract, "output_schema": '{"type": "object"}'}  # as some models write it

    async def story(agent: Agent) -> None:
        session = {"session_id": "ses_x"} if tool == "resume_agent_session" else {}
        answer = await agent.call(tool, parameters={"prompt": "Hi"}, **session, **asked)
        assert answer.items() >= validation.items()

    with_agent(story, coordinator)
    assert coordinator.runs[0].items() >= contract.items()
    assert "output_schema_name" not in coordinator.runs[0]


@pytest.mark.parametrize("mode", ["async_poll", "async_callback"])
def test_an_asynchronous_start_returns_without_asking_for_the_run(mode: str) -> None:
    coordinator = SmallCoordinator()

    async def story(agent: Agent) -> None:
        answer = await agent.call("start_agent_session", parameters='{"prompt": "Hi"}', mode=mode)
        assert answer == {"session_id": "ses_new", "status": "pending"}

    with_agent(story, coordinator)
    assert coordinator.asked == ["POST /runs"]
    assert coordinator.runs[0]["parameters"] == {"prompt": "Hi"}


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        pytest.param(
            {"mode": "later"}, "Invalid mode: later. Must be one of: sync, async_poll, async_callback", id="mode"
        ),
        pytest.param(
            {"parameters": {"prompt": "x" * 100_000}},
            "Parameters too large: 100014 characters (max 100000)",
            id="parameters",
        ),
    ],
)  # fmt: skip
def test_what_the_tools_refuse_themselves_never_reaches_the_coordinator(arguments: dict[str, Any], error: str) -> None:
    coordinator = SmallCoordinator()

    async def story(agent: Agent) -> None:
        answer = await agent.call("start_agent_session", **{"parameters": {"prompt": "Hi"}, **arguments})
        assert answer == {"error": error}

    with_agent(story, coordinator)
    assert coordinator.asked == []


def test_a_refusal_of_parameters_shows_the_schema_to_the_agent() -> None:
    detail = {"error": "parameter_validation_failed", "parameters_schema": {"required": ["question"]}}

    async def story(agent: Agent) -> None:
        answer = await agent.call("start_agent_session", parameters={"prompt": "Hi"})
        assert answer["error"].startswith("Failed to start session: 400: ")
        assert '"required": ["question"]' in answer["error"]

    with_agent(story, SmallCoordinator(refusal=(400, {"detail": detail})))


@pytest.mark.parametrize(
    ("ends", "error"),
    [
        pytest.param({"status": "failed", "error": "no"}, "Session failed: Run failed: no", id="failed"),
        pytest.param(
            {"status": "stopped"}, "Session stopped: run run_new was stopped before it completed", id="stopped"
        ),
    ],
)
def test_a_child_that_does_not_complete_is_an_error_that_names_its_session(ends: dict[str, Any], error: str) -> None:
    async def story(agent: Agent) -> None:
        answer = await agent.call("start_agent_session", parameters={"prompt": "Hi"})
        assert answer == {"error": error, "session_id": "ses_new"}

    with_agent(story, SmallCoordinator(ends=ends, asks_until_end=3))


def test_a_child_that_takes_too_long_goes_on_and_can_be_asked_for() -> None:
    async def story(agent: Agent) -> None:
        answer = await agent.call("start_agent_session", parameters={"prompt": "Hi"})
        assert answer["error"] == "Session timed out: run run_new did not complete within 0.05 s; it goes on"
        assert answer["session_id"] == "ses_new"

    coordinator = SmallCoordinator(asks_until_end=1_000_000)
    with_agent(story, coordinator, timeouts=Timeouts(0.01, 0.01, sync_seconds=0.05))


def test_a_server_may_hold_back_a_status_but_not_take_every_connection() -> None:
    async def story(agent: Agent) -> None:
        await agent.call("start_agent_session", parameters={"prompt": "Hi"})
        for _ in range(MOST_HELD):
            await agent.client.held.acquire()
        await agent.call("start_agent_session", parameters={"prompt": "Hi"})

    coordinator = SmallCoordinator()
    with_agent(story, coordinator)
    asked = [one for one in coordinator.asked if one.startswith("GET /runs/")]
    assert asked == ["GET /runs/run_new?wait=25", "GET /runs/run_new?wait=0"]


@pytest.mark.parametrize(
    ("parent", "answer"),
    [
        pytest.param("ses_me", {"session_id": "ses_x", "status": "pending"}, id="child"),
        pytest.param("ses_child", {"session_id": "ses_x", "status": "pending"}, id="grandchild"),
        pytest.param(None, None, id="a person's"),
        pytest.param("ses_other", None, id="another agent's"),
    ],
)
def test_an_agent_resumes_the_sessions_below_its_own_only(parent: str | None, answer: dict[str, str] | None) -> None:
    coordinator = SmallCoordinator()
    for session_id, above in (("ses_child", "ses_me"), ("ses_other", None), ("ses_x", parent)):
        coordinator.add(session_id, above)

    async def story(agent: Agent) -> None:
        given = await agent.call(
            "resume_agent_session", session_id="ses_x", parameters={"prompt": "Go on"}, mode="async_poll"
        )
        if answer is None:
            assert "was not started by this session" in given["error"]
        else:
            assert given == answer

    with_agent(story, coordinator)
    assert [run["parent_session_id"] for run in coordinator.runs] == ([] if answer is None else ["ses_me"])


def test_an_agent_stops_the_sessions_below_its_own_only() -> None:
    coordinator = SmallCoordinator()
    coordinator.add("ses_child", "ses_me", "running")
    coordinator.add("ses_person", None, "running")

    async def story(agent: Agent) -> None:
        stopped = await agent.call("stop_agent_session", session_id="ses_child")
        assert stopped == {"session_id": "ses_child", "status": "stopping"}
        refused = await agent.call("stop_agent_session", session_id="ses_person")
        assert "was not started by this session" in refused["error"]

    with_agent(story, coordinator)
    assert coordinator.sessions["ses_child"]["status"] == "stopped"
    assert coordinator.sessions["ses_person"]["status"] == "running"


def test_a_client_without_a_session_steers_every_session_and_is_nobody_s_parent() -> None:
    coordinator = SmallCoordinator()
    coordinator.add("ses_person", None, "running")

    async def story(client: Agent) -> None:
        client.session_id = None
        for tool in ("start_agent_session", "resume_agent_session"):
            session = {"session_id": "ses_person"} if tool == "resume_agent_session" else {}
            assert "result_text" in await client.call(tool, parameters={"prompt": "Hi"}, **session)
            refused = await client.call(tool, parameters={"prompt": "Hi"}, mode="async_callback", **session)
            assert refused["error"].startswith("Mode async_callback resumes the calling session")
        assert (await client.call("stop_agent_session", session_id="ses_person"))["status"] == "stopping"
        assert "this client has no session" in (await client.call("delete_all_agent_sessions"))["error"]

    with_agent(story, coordinator)
    assert [run.get("parent_session_id") for run in coordinator.runs] == [None, None]


@pytest.mark.parametrize("session_id", ["ses_none", "..", "ses_x/result", "", "ses_x?y"])
def test_a_session_that_cannot_be_is_not_found(session_id: str) -> None:
    async def story(agent: Agent) -> None:
        for tool, more in (
            ("get_agent_session_result", {}),
            ("resume_agent_session", {"parameters": {"prompt": "x"}}),
            ("stop_agent_session", {}),
        ):
            answer = await agent.call(tool, session_id=session_id, **more)
            assert answer == {"error": f"Session not found: {session_id}"}
        answer = await agent.call("get_agent_session_status", session_id=session_id)
        assert answer == {"session_id": session_id, "status": "not_existent"}

    coordinator = SmallCoordinator()
    coordinator.add("ses_x")
    with_agent(story, coordinator)


def test_a_session_resumes_neither_itself_nor_within_a_ring_of_parents() -> None:
    coordinator = SmallCoordinator()
    coordinator.add("ses_a", "ses_b")
    coordinator.add("ses_b", "ses_a")

    async def story(agent: Agent) -> None:
        for session_id in ("ses_me", "ses_a"):
            answer = await agent.call("resume_agent_session", session_id=session_id, parameters={"prompt": "x"})
            assert "was not started by this session" in answer["error"]

    with_agent(story, coordinator)


@pytest.mark.parametrize(("status", "is_there"), [("finished", True), ("idle", True), ("running", False)])
def test_a_result_is_there_once_the_session_rests(status: str, is_there: bool) -> None:
    coordinator = SmallCoordinator(result_text="y" * 50_001)
    coordinator.add("ses_x", status=status)

    async def story(agent: Agent) -> None:
        answer = await agent.call("get_agent_session_result", session_id="ses_x")
        if is_there:
            assert answer["result_text"] == "y" * 50_000 + "\n\n[Result truncated at 50000 characters]"
        else:
            assert answer == {"error": "Session not finished: ses_x (status: running)"}

    with_agent(story, coordinator)


def test_only_what_an_agent_has_started_is_deleted_and_what_runs_is_named() -> None:
    coordinator = SmallCoordinator()
    for session_id, parent, status in (
        ("ses_child", "ses_me", "finished"),
        ("ses_grandchild", "ses_child", "stopped"),
        ("ses_busy", "ses_me", "running"),
        ("ses_person", None, "finished"),
        ("ses_other", "ses_person", "finished"),
    ):
        coordinator.add(session_id, parent, status)

    async def story(agent: Agent) -> None:
        assert await agent.call("delete_all_agent_sessions") == {
            "deleted_count": 2,
            "not_deleted": [{"session_id": "ses_busy", "error": "409: Stop session first"}],
        }

    with_agent(story, coordinator)
    assert set(coordinator.sessions) == {"ses_me", "ses_busy", "ses_person", "ses_other"}


def test_a_wait_ends_when_nobody_waits_for_the_answer() -> None:
    async def story(agent: Agent) -> None:
        agent.gone.set()
        answer = await agent.call("start_agent_session", parameters={"prompt": "Hi"})
        assert answer == {"error": "nobody waits for the answer any more", "session_id": "ses_new"}

    with_agent(story, SmallCoordinator(asks_until_end=1_000_000))
