"""The addresses of lists: what a heading, a page and a day make of a filter."""

from urllib.parse import parse_qs

import pytest
from starlette.requests import Request

from ao_server.pages.filters import ListFilter, filter_of


def filter_at(query: str) -> ListFilter:
    return filter_of(Request({"type": "http", "query_string": query.encode(), "headers": []}))


def test_a_heading_sorts_in_turn_and_keeps_the_filters_but_not_the_page() -> None:
    wanted = filter_at("agent=docs&label=team%3Da&sort=cost&skip=50")
    assert (wanted.sort, wanted.skip, wanted.direction_of("cost")) == ("cost", 50, "ascending")
    again = wanted.sorted_by("cost")
    assert parse_qs(again.query[1:]) == {"agent": ["docs"], "label": ["team=a"], "sort": ["-cost"]}
    assert again.direction_of("cost") == "descending"
    assert again.direction_of("age") == ""
    oldest = again.sorted_by("age")
    assert (oldest.sort, oldest.sorted_by("age").sort) == ("-age", "")
    assert ListFilter().direction_of("age") == "ascending"


def test_a_sorted_list_goes_on_by_rows_and_another_one_by_runs() -> None:
    assert filter_at("sort=took").behind(7) == ListFilter(sort="took", skip=50)
    assert filter_at("before=9&skip=3").behind(7) == ListFilter(before=7)
    assert filter_at("sort=took&before=9").before is None
    assert filter_at("sort=took&skip=50").first_page == ListFilter(sort="took")


@pytest.mark.parametrize(
    "query",
    ["sort=nonsense", "first=2026-13-01", "last=x", "first=0001-01-01", "last=9999-12-31", "since=2y", "skip=-1"],
)
def test_what_an_address_cannot_mean_is_left_out(query: str) -> None:
    assert filter_at(query) == ListFilter()


def test_days_are_kept_in_the_address() -> None:
    assert filter_at("first=2026-03-01&last=2026-03-08").query == "?first=2026-03-01&last=2026-03-08"
