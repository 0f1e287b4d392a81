"""What a worker reads in the refusals of coordinators: of the older contract, and problem documents (RFC 9457)."""

from typing import Any

import pytest

from ao_runner.coordinators.http.transport import ServerReply

FACTS = {"error": "duplicate_runner", "message": "is online", "runner_id": "lnch_1"}
PROBLEM = {"type": "about:blank", "title": "Conflict", "status": 409, "code": "duplicate_runner"}


@pytest.mark.parametrize(
    ("body", "error", "reason"),
    [
        ({"detail": FACTS}, "duplicate_runner", "409: duplicate_runner: is online"),
        ({**PROBLEM, "detail": FACTS}, "duplicate_runner", "409: duplicate_runner: is online"),
        ({**PROBLEM, "detail": "is online"}, "duplicate_runner", "409: is online"),
        ({"detail": "Runner not registered"}, "Runner not registered", "409: Runner not registered"),
        ({}, "", "409: no reason given"),
    ],
)
def test_the_error_and_the_reason_are_read_in_both_forms(body: dict[str, Any], error: str, reason: str) -> None:
    reply = ServerReply(409, body)
    assert (reply.error, reply.reason) == (error, reason)
