"""The page of actions tells in a word what a request did."""

import pytest

from ao_server.pages.oversight import deed_of


@pytest.mark.parametrize(
    ("request_line", "deed"),
    [
        ("POST /ui/runs/run_1/again", "ran again"),
        ("POST /ui/runs/run_1/inputs/call_1", "answered"),
        ("POST /runs/run_1/stop", "stopped"),
        ("POST /runs", "started"),
        ("POST /ui/agents/triage/run", "started"),
        ("POST /ui/agents/_new", "created"),
        ("POST /ui/agents/triage", "changed"),
        ("POST /ui/agents/triage/status", "changed"),
        ("PUT /agents/triage", "changed"),
        ("POST /ui/agents/triage/delete", "deleted"),
        ("DELETE /sessions/ses_1", "deleted"),
        ("POST /ui/workers/pause", "limited"),
        ("DELETE /limits/agent/triage", "ended a limit of"),
        ("POST /something", ""),
    ],
)
def test_a_request_is_told_in_a_word(request_line: str, deed: str) -> None:
    assert deed_of(request_line) == deed
