"""A chart of stacked bars by day, as numbers for an SVG that a template draws."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from math import floor, log10
from typing import Final

from ao_server.pages.rendering import templates

WIDTH: Final = 720
HEIGHT: Final = 220
LEFT: Final = 64
"""The width of the labels of the axis."""
BOTTOM: Final = 24
TOP: Final = 10
MOST_SERIES: Final = 5
"""How many names have a colour of their own; the rest is one more."""
REST: Final = "others"
LABELS: Final = 8
"""About how many days have their name below."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A part of a bar: the amount of one series on a day."""

    x: float
    y: float
    height: float
    series: int
    text: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart, in units of its view box, and the same as a table."""

    title: str
    bars: Sequence[Bar]
    bar_width: float
    lines: Sequence[tuple[float, str]]
    """The height and the label of each line of the grid."""
    labels: Sequence[tuple[float, str]]
    """The place and the text below of some days."""
    series: Sequence[str]
    rows: Sequence[tuple[str, Sequence[float]]]
    """Each day, the newest first, with the amount of each series."""
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT


def chart_of(used: Mapping[tuple[str, str], float], title: str, most_days: int) -> Chart | None:
    """Return a chart of amounts by day, as `2026-01-31`, and name; of the last days. None if there is no amount."""
    days = _days([day for (day, _), amount in used.items() if amount > 0], most_days)
    if not days:
        return None
    sums: dict[str, float] = {}
    for (day, name), amount in used.items():
        if amount > 0 and day >= days[0]:
            sums[name] = sums.get(name, 0) + amount
    names = sorted(sums, key=lambda name: -sums[name])
    shown = names[:MOST_SERIES]
    series = [*shown, REST] if len(names) > MOST_SERIES else shown
    amounts = {day: [0.0] * len(series) for day in days}
    for (day, name), amount in used.items():
        if amount > 0 and day in amounts:
            amounts[day][shown.index(name) if name in shown else MOST_SERIES] += amount
    step = _step(max(map(sum, amounts.values())))
    most = step * -(-max(map(sum, amounts.values())) // step)
    room = HEIGHT - TOP - BOTTOM
    each = (WIDTH - LEFT) / len(days)
    wide = min(each * 0.8, 48)
    bars = []
    for at, day in enumerate(days):
        y = float(HEIGHT - BOTTOM)
        for number, amount in enumerate(amounts[day]):
            if amount > 0:
                y -= amount / most * room
                text = f"{day}, {series[number]}: {amount_text(amount)}"
                x = LEFT + at * each + (each - wide) / 2
                bars.append(Bar(round(x, 1), round(y, 1), round(amount / most * room, 1), number, text))
    lines = [
        (round(HEIGHT - BOTTOM - step * one / most * room, 1), amount_text(step * one))
        for one in range(round(most / step) + 1)
    ]
    every = -(-len(days) // LABELS)
    labels = [(round(LEFT + (at + 0.5) * each, 1), day[5:]) for at, day in enumerate(days) if at % every == 0]
    rows = [(day, amounts[day]) for day in reversed(days)]
    return Chart(title, bars, round(wide, 1), lines, labels, series, rows)


def amount_text(amount: float) -> str:
    """Return an amount for people, with at most four digits behind the point."""
    return f"{amount:,.0f}" if amount >= 1000 or amount == int(amount) else f"{amount:.4f}".rstrip("0").rstrip(".")


templates.filters["amount"] = amount_text


def _days(found: Sequence[str], most: int) -> list[str]:
    """Return all days from the first one to the last one, or the last ones of these."""
    if not found:
        return []
    last = date.fromisoformat(max(found))
    first = max(date.fromisoformat(min(found)), last - timedelta(days=most - 1))
    return [(first + timedelta(days=one)).isoformat() for one in range((last - first).days + 1)]


def _step(most: float) -> float:
    """Return the distance of the lines of a grid: 1, 2 or 5 times a power of ten, so that there are two to five."""
    size = 10.0 ** floor(log10(most))
    return next(size * one for one in (0.2, 0.5, 1, 2) if most / (size * one) <= 5)
