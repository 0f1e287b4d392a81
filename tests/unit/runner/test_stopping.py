"""Escalations, walked with literal times."""

import itertools

import pytest

from ao_runner.runs.outcome import Cause
from ao_runner.runs.run_request import GracePeriods
from ao_runner.runs.supervision import ESCALATION, Action, Stopping

GRACE_PERIODS = GracePeriods(
    ask_seconds=5, close_stdin_seconds=1, leave_seconds=5, terminate_seconds=10, kill_seconds=5
)


def walk(stopping: Stopping, until: float) -> list[tuple[float, Action]]:
    """Return every action with the time at which it was due."""
    steps: list[tuple[float, Action]] = []
    while stopping.due_at is not None and stopping.due_at <= until:
        now = stopping.due_at
        action = stopping.next_action(now)
        assert action is not None
        steps.append((now, action))
    return steps


@pytest.mark.requirement("AOX-246")
def test_a_cancelled_process_is_asked_and_then_made_to_leave() -> None:
    stopping = Stopping(GRACE_PERIODS)

    stopping.begin(Cause.CANCELLED, 100)

    assert walk(stopping, 1000) == [
        (100, Action.ASK),
        (105, Action.CLOSE_STDIN),
        (106, Action.TERMINATE),
        (116, Action.KILL),
        (121, Action.ABANDON),
    ]


def test_a_process_that_has_ended_its_run_gets_five_seconds_to_leave() -> None:
    stopping = Stopping(GRACE_PERIODS)

    stopping.begin(Cause.ENDED, 100)

    assert walk(stopping, 1000) == [
        (100, Action.CLOSE_STDIN),
        (105, Action.TERMINATE),
        (115, Action.KILL),
        (120, Action.ABANDON),
    ]


def test_nothing_is_due_before_its_time() -> None:
    stopping = Stopping(GRACE_PERIODS)
    stopping.begin(Cause.CANCELLED, 100)
    stopping.next_action(100)

    assert stopping.next_action(104.9) is None
    assert stopping.next_action(105) is Action.CLOSE_STDIN


@pytest.mark.requirement("AOX-246")
def test_an_executor_that_cannot_be_asked_is_not() -> None:
    stopping = Stopping(GRACE_PERIODS, can_ask=False)

    stopping.begin(Cause.CANCELLED, 0)

    assert stopping.next_action(0) is Action.CLOSE_STDIN


def test_the_wish_to_kill_leaves_out_the_steps_between() -> None:
    stopping = Stopping(GRACE_PERIODS)
    stopping.begin(Cause.CANCELLED, 0)
    stopping.next_action(0)

    stopping.begin(Cause.KILLED, 1)

    assert walk(stopping, 100) == [(1, Action.KILL), (6, Action.ABANDON)]


def test_a_terminal_event_during_an_escalation_gives_the_process_time_to_leave() -> None:
    stopping = Stopping(GRACE_PERIODS)
    stopping.begin(Cause.CANCELLED, 0)
    stopping.next_action(0)
    stopping.next_action(5)

    stopping.begin(Cause.ENDED, 5.5)

    assert walk(stopping, 12) == [(10.5, Action.TERMINATE)]


@pytest.mark.parametrize(("present", "later"), list(itertools.product(Cause, Cause)))
def test_only_a_higher_cause_replaces_the_present_one(present: Cause, later: Cause) -> None:
    stopping = Stopping(GRACE_PERIODS)
    stopping.begin(present, 0)
    stopping.next_action(0)

    stopping.begin(later, 1)

    assert stopping.cause is max(present, later)


@pytest.mark.parametrize("cause", list(Cause))
def test_every_escalation_ends_in_kill_and_then_gives_up_waiting(cause: Cause) -> None:
    assert ESCALATION[cause][-2:] == (Action.KILL, Action.ABANDON)
