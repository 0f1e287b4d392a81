"""The registry of errors, and the exit code that agrees with a failure."""

import pytest

from ao_protocol.errors import REFUSALS, RETRYABLE, RUNNER_ONLY, ErrorType, ExitCode, exit_code_of_failure


@pytest.mark.parametrize(
    ("status", "error_type", "retryable", "exit_code"),
    [
        ("failed", "internal_error", False, ExitCode.FAILURE),
        ("failed", "rate_limited", True, ExitCode.RETRYABLE_FAILURE),
        ("failed", "rate_limited", False, ExitCode.FAILURE),
        ("failed", "moon_phase_wrong", True, ExitCode.RETRYABLE_FAILURE),
        ("failed", "invalid_json", False, ExitCode.REFUSED),
        ("failed", "parameters_validation_failed", True, ExitCode.REFUSED),
        ("cancelled", "cancelled", False, ExitCode.CANCELLED),
        ("cancelled", "cancelled", True, ExitCode.CANCELLED),
    ],
)
@pytest.mark.requirement("AOX-108")
def test_cancelled_comes_before_refused_and_refused_before_retryable(
    status: str, error_type: str, retryable: bool, exit_code: ExitCode
) -> None:
    assert exit_code_of_failure(status, error_type, retryable=retryable) is exit_code


@pytest.mark.requirement("AOX-104")
def test_a_refusal_is_not_retryable() -> None:
    assert REFUSALS.isdisjoint(RETRYABLE)


@pytest.mark.requirement("AOX-105")
def test_no_refusal_is_the_runners_to_say() -> None:
    assert REFUSALS.isdisjoint(RUNNER_ONLY)


def test_a_type_is_a_word_in_small_letters() -> None:
    assert all(kind.replace("_", "").isalpha() and kind.islower() for kind in ErrorType)
