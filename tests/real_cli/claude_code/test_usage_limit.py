"""The limit of a subscription: a refusal is a failure that says when to come back, and never an answer."""

import time
from datetime import UTC, datetime
from math import ceil

import pytest

from ao_executors.claude_code.claude_process import CLAUDE
from ao_executors.claude_code.sdk import RateLimitInfo
from ao_executors.claude_code.usage_limit import UsageLimit
from ao_executors.core import RunFailed
from ao_protocol.errors import ErrorType
from tests.process.executors.driver import Run
from tests.real_cli.claude_code.conftest import StartClaude

SUBSCRIPTION = {"ANTHROPIC_API_KEY": "", "CLAUDE_CODE_OAUTH_TOKEN": "sk-ant-oat01-fake"}
"""The CLI reads the headers about the limit only with the login of a subscription."""
HOURS = 7200


def headers(status: str, resets_at: int, limit: str | None = "five_hour", **more: str) -> dict[str, str]:
    """Return the API's headers about the limit."""
    claim = {} if limit is None else {"representative-claim": limit}
    said = {"status": status, "reset": str(resets_at), **claim, **more}
    return {f"anthropic-ratelimit-unified-{name}": value for name, value in said.items()}


def refusal(resets_at: int, limit: str | None = "five_hour") -> dict[str, object]:
    """Return the API's refusal of every request until a time."""
    rejected = {**headers("rejected", resets_at, limit), "retry-after": str(HOURS)}
    return {"status": 429, "headers": rejected, "error": {"message": "Not now."}, "repeat": "forever"}


def close_to(resets_at: int) -> dict[str, str]:
    """Return the API's headers of an answer close to the limit."""
    window = {"5h-utilization": "0.93", "5h-reset": str(resets_at), "5h-surpassed-threshold": "0.9"}
    return headers("allowed_warning", resets_at, **window)


def written(seconds: float) -> str:
    """Return a time as it is in a failure."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def in_hours() -> int:
    """Return the time in two hours, in seconds since the epoch."""
    return int(time.time()) + HOURS


def require_reset_of(run: Run, resets_at: int) -> None:
    """Require that a run's failure says when to retry it, up to the time that the test took since."""
    assert run.error["details"]["resets_at"] == written(resets_at)
    seconds = run.error["retry_after_seconds"]
    assert ceil(resets_at - time.time()) <= seconds <= HOURS
    assert (run.error["retryable"], run.error["origin"], run.exit_code) == (True, "provider", 75)


@pytest.mark.parametrize("limit", ["five_hour", pytest.param("seven_day_opus")])
def test_a_reached_limit_is_an_exceeded_quota_until_its_reset(start_claude: StartClaude, limit: str) -> None:
    resets_at = in_hours()
    claude = start_claude(refusal(resets_at, limit), env=SUBSCRIPTION)
    run = claude.run()
    assert (run.error["type"], run.error["details"]["limit"]) == ("quota_exceeded", limit)
    require_reset_of(run, resets_at)
    assert "message" not in run.types
    assert len(claude.model.requests) == 1


def test_a_refusal_that_is_not_the_limit_of_the_subscription_is_a_rate_limit_until_its_reset(
    start_claude: StartClaude,
) -> None:
    resets_at = in_hours()
    run = start_claude(refusal(resets_at, limit=None), env=SUBSCRIPTION).run()
    assert run.error["type"] == "rate_limited"
    assert "limit" not in run.error["details"]
    require_reset_of(run, resets_at)


@pytest.mark.parametrize("field", ["error", "errors"], ids=["named as an error", "without a name"])
def test_the_clis_sentence_about_the_limit_is_no_answer_where_it_reports_success(
    start_claude: StartClaude, field: str
) -> None:
    resets_at = in_hours()
    claude = start_claude(refusal(resets_at), env=SUBSCRIPTION)
    cheerful = claude.home / "claude-cheerful"
    rewrites = {
        '"is_error":true': '"is_error":false',
        '"api_error_status":429,': "",
        '"terminal_reason":"api_error"': '"terminal_reason":"completed"',
        '"error":"rate_limit"': f'"{field}":"rate_limit"',
    }
    edits = "".join(f" -e 's/{found}/{instead}/g'" for found, instead in rewrites.items())
    cheerful.write_text(f'#!/bin/sh\n{CLAUDE.find()} "$@" | sed -u{edits}\n')
    cheerful.chmod(0o755)

    run = claude.run(executor_config={"cli_path": str(cheerful)})

    assert (run.error["type"], run.error["details"]["limit"]) == ("quota_exceeded", "five_hour")
    assert "You've hit your 5-hour limit" in run.error["message"]
    assert "message" not in run.types
    require_reset_of(run, resets_at)


def test_the_next_run_with_the_same_cli_fails_with_the_same_reset(start_claude: StartClaude) -> None:
    resets_at = in_hours()
    claude = start_claude(refusal(resets_at), env=SUBSCRIPTION)
    with claude.start(control={"stdin": "open", "turns": True}) as executor:
        first = executor.read_run()
        executor.write_turn("run_2", "And now?")
        second = executor.read_run()
    for events in (first, second):
        error = events[-1]["error"]
        assert (error["type"], error["details"]["resets_at"]) == ("quota_exceeded", written(resets_at))


def test_a_limit_that_is_close_is_told_once(start_claude: StartClaude) -> None:
    first, then = in_hours(), in_hours() + 60
    call = {"content": [{"type": "tool_use", "name": "Bash", "input": {"command": "true"}}]}
    answers = {**call, "headers": close_to(first)}, {"text": "Done.", "headers": close_to(then)}
    run = start_claude(*answers, env=SUBSCRIPTION).run()
    assert run.terminal["result_text"] == "Done."
    (warning,) = run.of_type("log")
    assert warning["level"] == "warning"
    assert warning["message"] == f"93% of the five_hour limit is used; it resets at {written(first)}"


def test_an_answer_that_is_paid_beyond_the_limit_is_an_answer(start_claude: StartClaude) -> None:
    paid = headers("rejected", in_hours(), **{"overage-status": "allowed"})
    run = start_claude({"text": "Hello.", "headers": paid}, env=SUBSCRIPTION).run()
    assert (run.terminal["result_text"], run.exit_code) == ("Hello.", 0)


def explained(**info: object) -> RunFailed:
    """Return a rate limit, explained by a report of the CLI at 1,000 seconds after the epoch."""
    limit = UsageLimit(now=lambda: 1000.5)
    limit.info = RateLimitInfo(**{"status": "rejected", **info})  # type: ignore[arg-type]  # as the CLI writes it
    return limit.explain(RunFailed(ErrorType.RATE_LIMITED, "Not now.", origin="provider"))


@pytest.mark.parametrize(
    ("resets_at", "seconds"), [(1010, 10), (1001, 1), (990, 0)], ids=["rounded up", "soon", "in the past"]
)
def test_the_seconds_until_the_reset_are_rounded_up_and_not_negative(resets_at: int, seconds: int) -> None:
    failure = explained(resets_at=resets_at)
    assert failure.extra == {"details": {"resets_at": written(resets_at)}, "retry_after_seconds": seconds}


@pytest.mark.parametrize("resets_at", [None, 1_795_611_715_000_000, 10**30], ids=["none", "microseconds", "huge"])
def test_a_reset_that_is_no_time_is_left_out(resets_at: int | None) -> None:
    failure = explained(resets_at=resets_at, rate_limit_type="seven_day")
    assert (failure.error_type, failure.retryable) == (ErrorType.QUOTA_EXCEEDED, False)
    assert failure.extra == {"details": {"limit": "seven_day"}}


def test_a_failure_that_is_not_of_the_limit_stays_as_it_is() -> None:
    limit = UsageLimit()
    limit.info = RateLimitInfo(status="rejected", resets_at=1010, rate_limit_type="five_hour")
    failure = RunFailed(ErrorType.PROVIDER_UNAVAILABLE, "Down.", origin="provider")
    assert limit.explain(failure) is failure
