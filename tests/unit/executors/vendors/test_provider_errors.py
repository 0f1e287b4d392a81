"""The errors of providers, in their own words: the same type for every agent that passes them on."""

import pytest

from ao_executors.vendors.provider_errors import delay_told, type_of_error, type_of_status
from ao_model_simulator import error_words
from ao_protocol.errors import RETRYABLE

CREDIT = "Your credit balance is too low to access the Anthropic API."
QUOTA = "You exceeded your current quota, please check your plan and billing details."


@pytest.mark.parametrize(
    ("text", "status", "error_type"),
    [
        ("prompt is too long: 208310 tokens > 200000 maximum", 400, "context_window_exceeded"),
        ("input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000", 400, "context_window_exceeded"),
        ("Your input exceeds the context window of this model.", 400, "context_window_exceeded"),
        ("This model's maximum context length is 128000 tokens.", 400, "context_window_exceeded"),
        ('{"code": "context_length_exceeded"}', None, "context_window_exceeded"),
        (
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
            400,
            "context_window_exceeded",
        ),
        ("Session too large to compact - context exceeds model limit", None, "context_window_exceeded"),
        ("invalid x-api-key", 401, "authentication_failed"),
        ("Incorrect API key provided: sk-1.", None, "authentication_failed"),
        ("API key not valid. Please pass a valid API key.", 400, "authentication_failed"),
        ("model: claude-none", 404, "model_not_found"),
        ("models/gemini-none is not found for API version v1beta", 500, "model_not_found"),
        ('{"code": "model_not_found"}', None, "model_not_found"),
        ("This request would exceed your organization's rate limit", None, "rate_limited"),
        ("Resource has been exhausted (e.g. check quota).", 429, "rate_limited"),
        ("429 Too Many Requests", None, "rate_limited"),
        (f"{QUOTA} (insufficient_quota)", 429, "quota_exceeded"),
        (f"{QUOTA} (GenerateRequestsPerDayPerProjectPerModel-FreeTier)", 429, "quota_exceeded"),
        (CREDIT, 400, "quota_exceeded"),
        ("Overloaded", None, "provider_unavailable"),
        ("Overloaded", 529, "provider_unavailable"),
        ("The model is overloaded. Please try again later.", 503, "provider_unavailable"),
        ("Cannot connect to API: The socket connection was closed unexpectedly.", None, "provider_unavailable"),
        ("Connection error.", None, "provider_unavailable"),
        ('Internal error {"details": "terminated"}', None, "provider_unavailable"),
        ("Unterminated string in JSON at position 46", None, "provider_unavailable"),
        ("Incomplete response returned, reason: max_output_tokens", None, "output_truncated"),
        ("Incomplete response returned, reason: content_filter", None, "content_refused"),
        ("line 4293 of 5290", None, None),
        ("It went wrong.", 400, "internal_error"),
    ],
)
def test_an_error_has_one_type(text: str, status: int | None, error_type: str | None) -> None:
    assert type_of_error(text, status) == error_type


def test_only_what_may_pass_is_worth_another_try() -> None:
    told = ("invalid x-api-key", "model_not_found", CREDIT, "prompt is too long", "rate limit", "overloaded")
    assert [type_of_error(text) in RETRYABLE for text in told] == [False, False, False, False, True, True]


@pytest.mark.parametrize(
    "told",
    [error_words.ANTHROPIC, error_words.GEMINI, error_words.OPENAI],
    ids=["anthropic", "gemini", "openai"],
)
def test_a_status_that_an_agent_hides_is_known_by_the_words_of_the_service(told: dict[int, str]) -> None:
    words = {status: text for status, text in told.items() if status not in {400, 404, 413}}
    found = {status: type_of_error(text) for status, text in words.items()}
    assert found == {status: type_of_status(status) for status in words}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("Resource has been exhausted (e.g. check quota).\nSuggested retry after 4s.", 4),
        ("Please retry in 34.074824224s.", 34.074824224),
        ("Rate limit reached for gpt-5.1. Please try again in 1.5 seconds.", 1.5),
        ("Please try again later.", None),
        ("Please try again in 6m0s.", None),
        ("Please try again in 20 sheets.", None),
    ],
)
def test_a_delay_is_read_from_the_words_of_a_provider(text: str, seconds: float | None) -> None:
    assert delay_told(text) == seconds
