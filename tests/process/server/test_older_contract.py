"""The older contract: `ao serve` is asked what a real server of it was asked (tests/foreign_coordinator/recorded.json).

The status of each answer is the same, and each recorded field is there. What differs on purpose is listed below.
"""

import threading
from collections.abc import Iterator
from typing import Any, Final

import httpx

from tests.foreign_coordinator.recording import Names, load
from tests.process.server.conftest import BOUND_SECONDS, Serve, Served

Exchange = dict[str, Any]
EXCHANGES: Final[list[Exchange]] = load()["exchanges"]
SCHEMA: Final = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}
SHELF: Final = {"type": "http", "url": "http://127.0.0.1:9501/mcp", "headers": {"X-Partition": "${runtime.session_id}"}}
TOOLS: Final = {"type": "http", "url": "${runner.orchestrator_mcp_url}", "headers": {"X-Tags": "a"}}
COMMON: Final = {"description": "d", "tags": ["recorded"]}
AGENTS: Final[tuple[dict[str, Any], ...]] = (
    {
        **COMMON,
        "name": "recorded-tools",
        "system_prompt": "You are in ${runtime.session_id}.",
        "mcp_servers": {"shelf": SHELF, "tools": TOOLS},
    },
    {**COMMON, "name": "recorded-typed", "parameters_schema": SCHEMA, "output_schema": SCHEMA},
)
CONFIGURED: Final = ("/mcp-servers", "/scripts", "/agents")
"""What the administrator of a server changes. It is no part of the contract, and differs."""
INSTEAD: Final = {"start an unknown agent": {"agent_name": None}}
"""What is asked otherwise, so that the calls behind it can be made: the run of an unknown agent is refused."""
DIFFERS: Final = {
    **dict.fromkeys(
        ["agents", "agent", "poll of a procedural runner after it registered", "resume a script"],
        "there are no scripts of the server, which agents could name and runners fetch",
    ),
    **dict.fromkeys(
        [f"{what} of 1 after a late started" for what in ("session", "result")] + ["run 1 after a late started"],
        "a late `started` leaves a completed run as it is",
    ),
    **dict.fromkeys(
        [f"{what} of 1 in a state that nobody knows" for what in ("session", "result")],
        "unknown states of a session are ignored",
    ),
    **dict.fromkeys(
        ["stop of a second turn", "run 2 after its stop", "session of 2 after its stop",
         "session of 3 while a finished session is resumed", "result of 3 while a finished session is resumed",
         "stop of a turn in a finished session"],
        "a further run of a session is seen and stopped like its first",
    ),
    **dict.fromkeys(
        ["poll of a runner that has left", "run 11 after a runner that has left claimed it",
         "session of 11 after a runner that has left claimed it", "stop of a run whose runner has left"],
        "a runner that has left is given no run",
    ),
    "run 9 after its runner has left": "its run has failed, not only its session",
    "result of a session without one": "the result of an executor that posts none is an empty text",
    "poll with a runner's own agent": "its host is enough of a demand",
}  # fmt: skip
KNOWN_BY_RUNNERS: Final = {"name", "description", "type", "system_prompt", "mcp_servers", "parameters_schema"}
"""The fields of a resolved blueprint that runners read."""


def flat(exchanges: list[Exchange]) -> Iterator[Exchange]:
    for exchange in exchanges:
        yield from flat(exchange.get("meanwhile", []))
        yield exchange


def is_asked(exchange: Exchange) -> bool:
    request = exchange["request"]
    is_about_scripts = "script" in exchange["name"] or "recorded-procedural" in str(request["body"])
    return not is_about_scripts and (request["method"] == "GET" or not request["path"].startswith(CONFIGURED))


class Replay:
    """Makes the recorded calls to `ao serve`."""

    def __init__(self, server: Served) -> None:
        self._server, self._names = server, Names()
        self._asked = ""
        self.answers: dict[int, httpx.Response] = {}

    def play(self, exchanges: list[Exchange]) -> None:
        for exchange in filter(is_asked, exchanges):
            if "meanwhile" in exchange:
                asking = threading.Thread(target=self._ask, args=[exchange])
                asking.start()
                self._server.client.get("/health")  # a round trip, behind which the poll is open
                self.play(exchange["meanwhile"])
                asking.join(BOUND_SECONDS)
            else:
                self._ask(exchange)

    def _ask(self, exchange: Exchange) -> None:
        request = self._names.fill(exchange["request"])
        body = None if request["body"] is None else request["body"] | INSTEAD.get(exchange["name"], {})
        answer = self._server.client.request(request["method"], request["path"], json=body)
        self.answers[id(exchange)] = answer
        if answer.is_success and answer.content and "keeps" in exchange:
            self._names.keep(exchange["keeps"], answer.json())


def missing_fields(recorded: Any, found: Any, path: str = "$") -> list[str]:
    """Return the places of the fields of a recorded answer that another one does not have."""
    if path.endswith(".resolved_agent_blueprint") and recorded is not None:
        recorded = {name: value for name, value in recorded.items() if name in KNOWN_BY_RUNNERS}
    if isinstance(recorded, dict):
        if not isinstance(found, dict):
            return [path]
        missing = [f"{path}.{name}" for name in recorded if name not in found]
        for name in recorded.keys() & found.keys():
            missing += missing_fields(recorded[name], found[name], f"{path}.{name}")
        return missing
    if isinstance(recorded, list) and recorded:
        return missing_fields(recorded[0], found[0], f"{path}[0]") if isinstance(found, list) and found else [path]
    return []


def status_of(body: Any) -> Any:
    """Return the status of the run or session in an answer."""
    for name in ("run", "session"):
        if isinstance(body, dict) and isinstance(body.get(name), dict):
            return body[name].get("status")
    return body.get("status") if isinstance(body, dict) else None


def difference(exchange: Exchange, answer: httpx.Response) -> str | None:
    """Return how an answer differs from the recorded one."""
    recorded = exchange["answer"]
    status, body = (201, None) if exchange["name"] in INSTEAD else (recorded["status"], recorded["body"])
    if answer.status_code != status:
        return f"{answer.status_code} instead of {status}: {answer.text}"
    if body is None:
        return None
    found = answer.json()
    if status >= 400:
        return None if isinstance(found["detail"], type(body["detail"])) else f"detail is {found['detail']!r}"
    if missing := missing_fields(body, found):
        return f"without {', '.join(missing)}"
    return None if status_of(found) == status_of(body) else f"status {status_of(found)} instead of {status_of(body)}"


def test_the_server_answers_as_the_recorded_one(serve: Serve) -> None:
    server = serve("--no-worker")
    for agent in AGENTS:
        server.add_agent(agent)
    replay = Replay(server)
    replay.play(EXCHANGES)
    compared = [one for one in flat(EXCHANGES) if is_asked(one) and one["name"] not in DIFFERS]
    found = {one["name"]: difference(one, replay.answers[id(one)]) for one in compared}
    assert len(compared) > 150
    assert {name: what for name, what in found.items() if what is not None} == {}


def test_each_difference_is_that_of_a_recorded_call() -> None:
    assert DIFFERS.keys() <= {exchange["name"] for exchange in flat(EXCHANGES)}
