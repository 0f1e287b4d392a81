"""Lists for people: aligned columns, plain text, so that they can also be cut and searched."""

import shutil
import sys
from collections.abc import Sequence
from typing import Final

import click

LEAST_WIDTH: Final = 8
"""However narrow a terminal is, so much of the last column is shown."""


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows below a header, each column as wide as it needs to be; the last one is not padded.

    At a terminal the last column gets the room that is left. Anywhere else nothing is cut.
    """
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    room = None
    if sys.stdout.isatty():
        room = max(LEAST_WIDTH, shutil.get_terminal_size().columns - sum(widths[:-1]) - 2 * (len(widths) - 1))
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(_fitted(row, room), widths, strict=True)).rstrip()
        for row in (header, *rows)
    ]
    click.secho(lines[0], bold=sys.stdout.isatty())
    for line in lines[1:]:
        click.echo(line)


def _fitted(row: Sequence[str], room: int | None) -> list[str]:
    *others, last = row
    return [*others, last if room is None or len(last) <= room else f"{last[: room - 1]}…"]
