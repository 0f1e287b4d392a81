"""The error types of what the CLI reports, and its retries."""

from typing import Any

import pytest

from ao_executors.codex.codex_api_errors import CodexRetries, delay_in, failure_of
from ao_executors.core import RunFailed


@pytest.mark.parametrize(
    ("info", "error_type", "retryable"),
    [
        ("usageLimitExceeded", "quota_exceeded", False),
        ("contextWindowExceeded", "context_window_exceeded", False),
        ("serverOverloaded", "provider_unavailable", True),
        ("cyberPolicy", "content_refused", False),
        ("unheardOf", "internal_error", False),
        (None, "internal_error", False),
        ({"httpConnectionFailed": {"httpStatusCode": 403}}, "permission_denied", False),
        ({"httpConnectionFailed": {"httpStatusCode": 418}}, "internal_error", False),
        ({"responseStreamDisconnected": {"httpStatusCode": None}}, "provider_unavailable", True),
        ({"responseTooManyFailedAttempts": {"httpStatusCode": 529}}, "provider_unavailable", True),
    ],
)
def test_an_error_has_a_type(info: Any, error_type: str, retryable: bool) -> None:
    failed = failure_of({"message": "It went wrong.", "codexErrorInfo": info})
    assert (failed.error_type, failed.retryable, failed.message) == (error_type, retryable, "It went wrong.")


def test_a_message_that_is_a_body_shows_the_words_of_the_api() -> None:
    body = '{"error": {"message": "too long", "code": "context_length_exceeded"}}'
    failed = failure_of({"message": body, "codexErrorInfo": "other"})
    assert (failed.error_type, failed.message) == ("context_window_exceeded", "too long")


@pytest.mark.parametrize(
    ("log", "seconds"),
    [
        ("stream disconnected - retrying sampling request (1/2 in 1.5s)...", 1.5),
        ("stream disconnected - retrying sampling request (2/5 in 412.25ms)...", 0.41225),
        ("stream disconnected", None),
        ("retrying sampling request (1/2 in 1.2.3s)", None),
        ("retrying sampling request (1/2 in .s)", None),
        (f"retrying sampling request (1/2 in {'9' * 400}s)", None),
    ],
)
def test_the_log_tells_the_delay_before_a_retry(log: str, seconds: float | None) -> None:
    assert delay_in(log) == (None if seconds is None else pytest.approx(seconds))


def test_only_a_delay_that_the_api_named_is_told() -> None:
    error = {
        "message": "Reconnecting... 1/1",
        "codexErrorInfo": {"responseStreamDisconnected": {"httpStatusCode": 429}},
    }
    for delay, after in ((0.21, None), (7.0, 7.0)):
        with pytest.raises(RunFailed) as failed:
            CodexRetries(max_retries=0, max_delay_seconds=60).scheduled(error, 1, delay)
        assert failed.value.extra.get("retry_after_seconds") == after
