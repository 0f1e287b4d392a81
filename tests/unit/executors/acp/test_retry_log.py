"""The retries of OpenCode, which it writes to its log only."""

import json

from ao_executors.acp.agent_log import RetryLog
from ao_executors.acp.agent_rows import OPENCODE
from ao_executors.core import Emitter, RunFailed
from ao_executors.vendors.provider_errors import RetryPolicy

BEGIN = 'timestamp=2026-11-27T15:35:06.151Z level=ERROR run=374786fa message="stream error" providerID=anthropic '
LINE = BEGIN + "modelID=m session.id=ses_1 small={small} agent=build mode=primary {error}\n"
OVERLOADED = 'error.error="AI_APICallError: Overloaded"'


class Ends:
    """What ends for the failure of a run."""

    def __init__(self) -> None:
        self.failures: list[RunFailed] = []

    def fail(self, failure: RunFailed) -> None:
        self.failures.append(failure)


def read(*errors: str, max_retries: int = 9, small: str = "false") -> tuple[list[dict[str, object]], list[str]]:
    """Return the retries that are told for errors in a log, and the types of failures."""
    lines: list[bytes] = []
    ends = Ends()
    events = Emitter(lines.append, run_id="run_1", session_id="ses_1")
    log = RetryLog(OPENCODE.told_error, RetryPolicy(max_retries, 60.0), events)
    log.peer = ends  # type: ignore[assignment]
    text = "".join(LINE.format(small=small, error=error) for error in errors).encode()
    for start in range(0, len(text), 7):
        log.feed(text[start : start + 7])
    told = [
        {"type": event["error"]["type"], "attempt": event["attempt"], "delay": event["delay_seconds"]}
        for event in map(json.loads, lines)
    ]
    return told, [str(failure.error_type) for failure in ends.failures]


def test_each_error_that_may_pass_is_a_retry_and_the_delay_doubles() -> None:
    in_stream = "error.error.type=overloaded_error error.error.message=Overloaded"
    retries = [
        {"type": "provider_unavailable", "attempt": number, "delay": delay} for number, delay in ((1, 2.0), (2, 4.0))
    ]
    assert read(OVERLOADED, in_stream) == (retries, [])


def test_too_many_retries_and_errors_that_never_pass_end_the_run() -> None:
    assert read(OVERLOADED, OVERLOADED, max_retries=1)[1] == ["provider_unavailable"]
    assert read('error.error="AI_APICallError: invalid x-api-key"') == ([], ["authentication_failed"])


def test_what_is_no_error_of_a_retry_is_passed_over() -> None:
    assert read('error.error="AI_APICallError: nobody knows these words"') == ([], [])
    assert read(OVERLOADED, small="true") == ([], [])
    assert read("error=none") == ([], [])


def test_a_stream_that_breaks_off_is_the_fault_of_the_provider() -> None:
    (retry,), failures = read('error.error="AI_JSONParseError: JSON parsing failed: Text: x"')
    assert (retry["type"], failures) == ("provider_unavailable", [])
