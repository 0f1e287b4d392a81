"""Durations on the command line: one spelling for all options, and seconds alone where an option takes them."""

import click
import pytest

from ao_runner.cli.options import Duration


@pytest.mark.parametrize(
    ("text", "seconds"), [("30d", 2592000), ("12h", 43200), ("45m", 2700), ("90s", 90), ("0m", 0), ("99999s", 99999)]
)
def test_a_number_with_a_unit_is_a_duration_of_every_option(text: str, seconds: float) -> None:
    assert Duration().convert(text, None, None) == seconds


@pytest.mark.parametrize(("text", "seconds"), [("30", 30), ("0.5", 0.5), ("1e3", 1000), ("2m", 120)])
def test_seconds_need_no_unit_where_an_option_takes_them(text: str, seconds: float) -> None:
    assert Duration(least_seconds=0.5).convert(text, None, None) == seconds


@pytest.mark.parametrize("text", ["0.4", "-1", "0s", "inf", "nan", "1e999", "x", "", "1.5h", "100000d", "1 d"])
def test_too_few_seconds_and_what_is_no_duration_are_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"expected seconds, 0\.5 or more, or a number below 100000 with d, h"):
        Duration(least_seconds=0.5).convert(text, None, None)


@pytest.mark.parametrize("text", ["30", "1.5h", "", "٣d"])
def test_a_number_alone_is_no_duration_where_its_unit_could_be_mistaken(text: str) -> None:
    with pytest.raises(click.BadParameter, match="30d, 12h, 45m"):
        Duration().convert(text, None, None)
