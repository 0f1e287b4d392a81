"""Which sessions may have a further run."""

from ao_protocol.wire import JsonObject
from ao_runner.runs.submission import blueprint_of
from ao_runner.store.records import Session


def test_a_session_whose_servers_are_known_to_a_worker_only_has_a_valid_blueprint() -> None:
    blueprint: JsonObject = {
        "name": "boss",
        "mcp_servers": {"tools": {"type": "http", "url": "${runner.orchestrator_mcp_url}"}},
    }
    session = Session("ses_1", "2026-01-01T00:00:00Z", "echo", "echo", "/srv", blueprint)
    assert blueprint_of(session).name == "boss"
