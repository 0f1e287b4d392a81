"""Errors of the API are typed, and the CLI's retries are events."""

import pytest

from tests.real_cli.codex.conftest import StartCodex

FOREVER = {"repeat": "forever"}


@pytest.mark.parametrize(
    ("answer", "error_type", "requests"),
    [
        ({"status": 401}, "authentication_failed", 1),
        ({"status": 402}, "quota_exceeded", 1),
        ({"status": 403}, "permission_denied", 1),
        ({"status": 404}, "model_not_found", 1),
        ({"status": 400, "error": {"type": "context_length_exceeded"}}, "context_window_exceeded", 1),
        ({"text": "I may not.", "stop_reason": "refusal"}, "content_refused", 1),
        ({"text": "It is", "stop_reason": "max_tokens"}, "output_truncated", 1),
        ({"status": 500}, "provider_unavailable", 2),
        ({"text": "Hello there", "cut_after_chars": 4}, "provider_unavailable", 2),
    ],
    ids=["401", "402", "403", "404", "context", "refusal", "truncated", "500", "cut"],
)
def test_an_error_of_the_api_has_its_type(
    start_codex: StartCodex, answer: dict[str, object], error_type: str, requests: int
) -> None:
    codex = start_codex({**answer, **FOREVER})
    run = codex.run(executor_config={"max_api_retries": requests - 1})

    assert run.error["type"] == error_type
    assert run.error["retryable"] is (error_type == "provider_unavailable")
    assert len(run.of_type("retry_scheduled")) == requests - 1


@pytest.mark.requirement("AOX-077", "AOX-106")
def test_a_retry_is_an_event_with_its_delay_and_a_longer_one_ends_the_run(start_codex: StartCodex) -> None:
    limited = {"status": 429, "error": {"message": "slow down"}}
    codex = start_codex(
        {**limited, "headers": {"retry-after": "1"}},
        {"text": "Done."},
        {**limited, "headers": {"retry-after": "300"}, "repeat": "forever"},
    )
    run = codex.run()
    [retry] = run.of_type("retry_scheduled")
    assert (retry["error"]["type"], retry["attempt"]) == ("rate_limited", 1)
    assert retry["delay_seconds"] == pytest.approx(1, rel=0.1)
    assert run.terminal["result_text"] == "Done."

    ended = codex.run()
    assert (ended.error["type"], ended.exit_code) == ("rate_limited", 75)
    assert ended.error["retry_after_seconds"] == pytest.approx(300, rel=0.1)
    assert len(codex.model.requests) == 3


@pytest.mark.requirement("AOX-044")
def test_a_model_that_needs_more_answers_than_it_may_is_stopped(start_codex: StartCodex) -> None:
    call = {"content": [{"type": "tool_use", "name": "exec_command", "input": {"cmd": "true"}}]}
    codex = start_codex(call, call, {"text": "Done."}, satisfied=False)
    assert codex.run(limits={"max_turns": 2}).error["type"] == "limit_exceeded"
