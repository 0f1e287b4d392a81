"""What a run gets of the server, and when there is one."""

import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import httpx
import pytest

from ao_protocol.wire import JsonObject
from ao_runner.coordinators.port import Assignment
from ao_runner.orchestrator import OrchestratorHosting
from ao_runner.run_events import RunKey
from ao_runner.runs.run_request import Served, redactor_of
from ao_runner.store.records import Run, Session
from ao_runner.worker.assignment import Host, served_order
from tests.process.runner.orchestrator.calling import play
from tests.unit.runner.test_environment import DESCRIPTION

SERVER = "orchestrator_mcp_url"
ASKING: JsonObject = {"name": "boss", "mcp_servers": {"orchestrator": {"url": "${runner.orchestrator_mcp_url}"}}}
COORDINATOR = "http://127.0.0.1:9"


def assigned(run_id: str = "run_1", blueprint: JsonObject = ASKING) -> Assignment:
    session = Session("ses_1", "2026-01-01T00:00:00Z", "echo", "echo", "/srv", blueprint)
    run = Run(run_id, "ses_1", "start", {}, "2026-01-01T00:00:00Z")
    return Assignment(RunKey(run_id, 1), session, run)


def hosting(
    story: Callable[[OrchestratorHosting], Coroutine[Any, Any, None]],
    coordinator: str = COORDINATOR,
    kept: frozenset[str] = frozenset(),
) -> list[str]:
    """Return what was told meanwhile."""
    told: list[str] = []

    async def whole() -> None:
        async with OrchestratorHosting(coordinator, {}, kept.__contains__, told.append) as one:
            await story(one)

    play(whole())
    return told


@pytest.mark.parametrize(
    ("coordinator", "blueprint", "known"),
    [
        pytest.param("store", ASKING, {}, id="no http coordinator"),
        pytest.param(COORDINATOR, {"name": "helper"}, {}, id="nobody asks for it"),
        pytest.param(COORDINATOR, ASKING, {SERVER: "http://elsewhere/mcp"}, id="given"),
    ],
)
def test_nothing_is_hosted_that_is_not_needed(coordinator: str, blueprint: JsonObject, known: dict[str, str]) -> None:
    async def story(one: OrchestratorHosting) -> None:
        async with one.serving(assigned(blueprint=blueprint), known) as served:
            assert served == Served()

    assert hosting(story, coordinator) == []


def test_runs_share_a_server_whose_address_for_them_ends_with_them() -> None:
    async def story(one: OrchestratorHosting) -> None:
        async with one.serving(assigned("run_1"), {}) as first, one.serving(assigned("run_2"), {}) as second:
            address = first.values[SERVER]
            assert second.values[SERVER] == address
        async with one.serving(assigned("run_3"), {}) as third, httpx.AsyncClient(verify=False) as http:  # noqa: S501
            assert third.values[SERVER] != address
            assert (await http.post(address)).status_code == 404

    assert len(hosting(story)) == 1


def test_the_next_turn_of_a_kept_process_has_the_same_address() -> None:
    async def story(one: OrchestratorHosting) -> None:
        async with one.serving(assigned("run_1"), {}) as first:
            pass
        async with one.serving(assigned("run_2"), {}) as second:
            assert second.values == first.values

    hosting(story, kept=frozenset({"ses_1"}))


def test_the_token_is_taken_out_of_events_and_never_told(tmp_path: Path) -> None:
    async def story(one: OrchestratorHosting) -> None:
        async with served_order(assigned(), Host(tmp_path, {}, "echo", hosting=one)) as served:
            address = served.runner_values[SERVER]
            token = address.split("/")[3]
            tokens.append(token)
            assert token not in redactor_of(served, DESCRIPTION, {}).text(f"I call {address}")

    tokens: list[str] = []
    told = hosting(story)
    assert not any(tokens[0] in sentence for sentence in told)


def test_a_run_is_refused_where_the_server_cannot_be_had(tmp_path: Path) -> None:
    async def story(one: OrchestratorHosting) -> None:
        async with served_order(assigned(), Host(tmp_path, {}, "echo", hosting=one)) as served:
            assert "the token holds characters that no header may" in str(served.refusal)

    async def whole() -> None:
        async with OrchestratorHosting(COORDINATOR, {"AO_COORDINATOR_TOKEN": "\u00e9"}, lambda _: False, print) as one:
            await story(one)

    play(whole())


def test_a_worker_s_runs_are_served(tmp_path: Path) -> None:
    async def story(one: OrchestratorHosting) -> None:
        host = Host(tmp_path, {}, "echo", {"region": "eu"}, hosting=one)
        async with served_order(assigned(), host) as served:
            assert served.refusal is None
            assert served.runner_values["region"] == "eu"
            assert served.runner_values[SERVER].startswith("http://127.0.0.1:")

    hosting(story)


def test_a_worker_without_such_runs_does_not_import_mcp() -> None:

    code = (
        "import sys, ao_runner.cli.worker_command; sys.exit(any(m in sys.modules for m in ('mcp', 'uvicorn', 'httpx')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
