"""The limits of what one address may send."""

from ao_server.rates import MOST_SENDERS, RateLimit


def test_a_sender_has_to_wait_for_the_end_of_its_window_and_others_have_not() -> None:
    now = 100.0
    limit = RateLimit(3, 10, lambda: now)
    for _ in range(3):
        assert limit.wait_seconds("a") == 0
        limit.count("a")
    now = 104.0
    assert limit.wait_seconds("a") == 6
    assert limit.wait_seconds("b") == 0
    now = 110.0
    assert limit.wait_seconds("a") == 0


def test_many_senders_take_bounded_memory() -> None:
    limit = RateLimit(3, 10, lambda: 0.0)
    for number in range(3 * MOST_SENDERS):
        limit.count(str(number))
    assert len(limit._counts) <= MOST_SENDERS
