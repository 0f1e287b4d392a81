"""Which session a token speaks for, and until when."""

from itertools import count

from ao_runner.orchestrator.serving import Grants


def grants(kept: set[str]) -> Grants:
    numbers = count(1)
    return Grants(lambda session_id: session_id in kept, lambda: f"token-{next(numbers)}")


def test_sessions_have_tokens_of_their_own() -> None:
    given = grants(set())
    first, second = given.grant("run_1", "ses_1"), given.grant("run_2", "ses_2")
    assert (given.session_of(first), given.session_of(second)) == ("ses_1", "ses_2")
    assert given.session_of("token-3") is None


def test_tokens_are_long_and_no_two_are_alike() -> None:
    given = Grants()
    tokens = {given.grant(f"run_{number}", f"ses_{number}") for number in range(50)}
    assert len(tokens) == 50
    assert all(len(token) >= 43 for token in tokens)


def test_a_token_ends_with_the_last_run_of_its_session() -> None:
    given = grants(set())
    assert given.grant("run_1", "ses_1") == given.grant("run_2", "ses_1") == "token-1"
    given.revoke("run_1")
    assert given.session_of("token-1") == "ses_1"
    given.revoke("run_2")
    assert given.session_of("token-1") is None
    assert given.grant("run_3", "ses_1") == "token-2"


def test_a_kept_process_keeps_the_token_for_its_next_turn() -> None:
    kept = {"ses_1"}
    given = grants(kept)
    given.grant("run_1", "ses_1")
    given.revoke("run_1")
    assert given.session_of("token-1") == "ses_1"
    assert given.grant("run_2", "ses_1") == "token-1"


def test_the_token_of_a_kept_process_ends_with_it() -> None:
    kept = {"ses_1"}
    given = grants(kept)
    given.grant("run_1", "ses_1")
    given.revoke("run_1")
    kept.clear()
    assert given.session_of("token-1") is None
    assert given.grant("run_2", "ses_1") == "token-2"


def test_revoking_what_was_not_granted_changes_nothing() -> None:
    given = grants(set())
    given.grant("run_1", "ses_1")
    given.revoke("run_2")
    assert given.session_of("token-1") == "ses_1"
