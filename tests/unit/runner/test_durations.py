"""Durations: one form and one message for options, profiles, requests and URLs."""

from typing import Any

import click
import pytest
from click.testing import CliRunner
from pydantic import ValidationError

from ao_protocol.wire import problems_of
from ao_runner.cli.options import DurationOption
from ao_runner.cli.program import program
from ao_runner.durations import seconds_from
from ao_runner.profiles import Profile
from ao_runner.runs.asked_in_json import AskedInJson

FORMS = "seconds as a number, or 500ms, 8s, 30m, 2h, 1d or 1h30m"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *[("500ms", 0.5), ("8s", 8), ("30m", 1800), ("2h", 7200), ("1d", 86400), ("30d", 2592000)],
        *[("1h30m", 5400), ("1d2h3m4s5ms", 93784.005), ("0m", 0), ("99999s", 99999), ("90m", 5400)],
        *[("30", 30), ("0.5", 0.5), ("1e3", 1000), (".5", 0.5)],
    ],
)
def test_seconds_and_numbers_with_units_are_durations(text: str, seconds: float) -> None:
    assert seconds_from(text) == seconds
    assert DurationOption().convert(text, None, None) == seconds


@pytest.mark.parametrize(
    "text",
    [
        *["", "x", "1.5h", "1 d", " 8s", "8S", "30m1h", "1h1h", "-1", "-1s", "inf", "nan", "1e999", "1_000", "٣d"],
        *["1.2.3", "100000d", "9" * 13 + "s"],
    ],
)
def test_any_other_text_is_refused_with_what_was_found_and_what_is_expected(text: str) -> None:
    with pytest.raises(ValueError, match="expected a duration") as refused:
        seconds_from(text)
    assert str(refused.value) == f"expected a duration: {FORMS}, found {text!r}"


def test_less_than_the_minimum_of_an_option_is_refused() -> None:
    with pytest.raises(click.BadParameter, match=r"at least 0\.5 s, found '400ms'"):
        DurationOption(0.5).convert("400ms", None, None)


@pytest.mark.parametrize("text", ["30", "0.5"])
def test_a_number_alone_is_refused_where_its_unit_could_be_mistaken(text: str) -> None:
    with pytest.raises(click.BadParameter, match="expected a duration with its unit: 500ms, 8s, 30m"):
        DurationOption(needs_unit=True).convert(text, None, None)


def test_profiles_and_requests_take_the_same_forms() -> None:
    limits = {"timeout_seconds": "30m", "start_seconds": "500ms", "idle_seconds": 8, "drain_seconds": "8s"}
    document: dict[str, Any] = {
        "executor": "echo", "limits": {**limits, "cpu_seconds": "1h"}, "warm": {"size": 1, "max_age_seconds": "2h"},
        "input": {"wait_seconds": "1d"}, "lifecycle": "persistent", "idle_exit_seconds": "90s",
    }  # fmt: skip
    profile = Profile.model_validate({"name": "p", **document})

    found = profile.limits
    assert (found.timeout_seconds, found.start_seconds, found.idle_seconds) == (1800, 0.5, 8)
    assert (found.drain_seconds, found.cpu_seconds, profile.idle_exit_seconds) == (8, 3600, 90)
    assert AskedInJson.model_validate({"timeout_seconds": "1h30m"}).timeout_seconds == 5400


def test_an_invalid_duration_of_a_profile_names_its_field() -> None:
    document = {"name": "p", "executor": "echo", "limits": {"idle_seconds": "30 minutes"}}
    with pytest.raises(ValidationError) as refused:
        Profile.model_validate(document)

    assert problems_of(refused.value, document) == [
        f"$.limits.idle_seconds: expected a duration: {FORMS}, found '30 minutes'"
    ]


OPTIONS = [
    *[(("run", "--timeout"), FORMS), (("submit", "--timeout"), FORMS), (("resume", "--timeout"), FORMS)],
    *[(("worker", "--lease"), FORMS), (("worker", "--host-gone-after"), FORMS)],
    *[(("serve", "--head-seconds"), FORMS), (("serve", "--body-seconds"), FORMS)],
    *[(("sessions", "prune", "--older-than"), "500ms, 8s, 30m"), (("store", "prune", "--older-than"), "500ms, 8s")],
]


@pytest.mark.parametrize(
    ("option", "expected"), OPTIONS, ids=lambda one: " ".join(one) if isinstance(one, tuple) else ""
)
def test_every_option_names_itself_what_it_expects_and_what_it_found(option: tuple[str, ...], expected: str) -> None:
    *command, name = option
    called = CliRunner().invoke(program, [*command, name, "30 minutes"])

    assert called.exit_code == 2
    words = " ".join(called.output.replace("│", " ").split())
    assert f"'{name}'" in words
    assert expected in words
    assert "found '30 minutes'" in words


@pytest.mark.parametrize("command", sorted({option[:-1] for option, _ in OPTIONS}), ids=" ".join)
def test_help_says_the_forms_once(command: tuple[str, ...]) -> None:
    shown = " ".join(CliRunner().invoke(program, [*command, "--help"]).output.split())

    assert shown.count("500ms, 8s, 30m, 2h, 1d or 1h30m") == 1
    assert "DURATION" in shown
