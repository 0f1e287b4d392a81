"""What a server has acknowledged survives SIGKILL, with either engine."""

import json
import signal
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx

from ao_runner.store.opening import StorePlace
from tests.process.server.conftest import BOUND_SECONDS, EXAMPLES, Serve, wait_for

RUNS = 40


def test_nothing_acknowledged_is_lost_or_doubled_when_the_server_is_killed(serve: Serve, place: StorePlace) -> None:
    home = place.home / "home"
    first = serve(home=home, store=place.url)
    first.add_agent(json.loads((EXAMPLES / "echo/blueprint.json").read_text()))
    acknowledged: dict[str, str] = {}

    def submit(number: int) -> None:
        key = f"key-{number}"
        body = {"type": "start_session", "agent_name": "echo", "parameters": {"message": key}}

        def post() -> dict[str, Any] | None:
            try:
                answer = httpx.post(f"{first.url}/runs", json=body, headers={"Idempotency-Key": key}, trust_env=False)
            except httpx.TransportError:
                return None  # it is killed, or not back yet: the client repeats the request
            return dict(answer.raise_for_status().json())

        acknowledged[key] = wait_for(post)["run_id"]
        if len(acknowledged) == RUNS // 2:
            first.process.send_signal(signal.SIGKILL)

    with ThreadPoolExecutor(4) as clients:
        done = [clients.submit(submit, number) for number in range(RUNS)]
        first.process.wait(BOUND_SECONDS)
        second = serve(home=home, store=place.url, port=first.port)
        for one in done:
            one.result()

    ended = {key: second.ended(run_id) for key, run_id in acknowledged.items()}
    listed = second.client.get("/runs", params={"limit": 1000}).json()["runs"]
    assert sorted(run["run_id"] for run in listed) == sorted(acknowledged.values())
    assert {run["status"] for run in ended.values()} == {"completed"}
    for key, run in ended.items():
        events = second.client.get(f"/sessions/{run['session_id']}/log").json()["events"]
        assert [event["event"]["seq"] for event in events] == list(range(1, len(events) + 1))
        assert events[-1]["event"]["result_data"]["echo"] == [key]
