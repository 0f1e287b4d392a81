"""The chart of costs: what its bars, its grid and its table say."""

import pytest

from ao_server.pages.chart import BOTTOM, HEIGHT, REST, TOP, amount_text, chart_of


def test_parts_of_a_day_stand_on_one_another_and_days_without_runs_are_empty() -> None:
    used = {("2026-03-01", "a"): 1.0, ("2026-03-01", "b"): 3.0, ("2026-03-03", "a"): 2.0}
    chart = chart_of(used, "Cost", 31)
    assert chart is not None
    assert chart.series in (["a", "b"], ["b", "a"])
    assert [day for day, _ in chart.rows] == ["2026-03-03", "2026-03-02", "2026-03-01"]
    assert [sum(amounts) for _, amounts in chart.rows] == [2.0, 0.0, 4.0]
    first, second, alone = chart.bars
    assert first.y + first.height == pytest.approx(HEIGHT - BOTTOM)
    assert second.y + second.height == pytest.approx(first.y)
    assert second.y == pytest.approx(TOP)
    assert alone.height == pytest.approx((HEIGHT - TOP - BOTTOM) / 2, abs=0.1)
    assert alone.text == "2026-03-03, a: 2"
    assert [text for _, text in chart.lines] == ["0", "1", "2", "3", "4"]


def test_agents_beyond_the_largest_are_one_series_and_nothing_is_lost() -> None:
    used = {("2026-03-01", f"agent {one}"): float(one) for one in range(1, 10)}
    chart = chart_of(used, "Cost", 31)
    assert chart is not None
    assert chart.series == ["agent 9", "agent 8", "agent 7", "agent 6", "agent 5", REST]
    assert chart.rows == [("2026-03-01", [9, 8, 7, 6, 5, 10])]


def test_only_the_last_days_are_shown() -> None:
    chart = chart_of({("2020-01-01", "old"): 9.0, ("2026-03-01", "new"): 0.0004}, "Cost", 7)
    assert chart is not None
    assert chart.series == ["new"]
    assert len(chart.rows) == 7


def test_nothing_that_was_used_is_no_chart() -> None:
    assert chart_of({}, "Cost", 7) is None
    assert chart_of({("2026-03-01", "a"): 0.0}, "Cost", 7) is None


@pytest.mark.parametrize(
    ("amount", "text"), [(0, "0"), (12_345.6, "12,346"), (0.0004, "0.0004"), (0.5, "0.5"), (20, "20")]
)
def test_amounts_are_short(amount: float, text: str) -> None:
    assert amount_text(amount) == text
