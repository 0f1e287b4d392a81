"""Lists for people: aligned columns, plain text, so that they can also be cut and searched."""

import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Final

import click
from rich.cells import cell_len, set_cell_size

LEAST_WIDTH: Final = 12
"""However narrow a terminal is, so much is shown of a column that is shown at all."""
GAP: Final = "  "


def print_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, whole: Sequence[str] = (), expendable: Sequence[str] = ()
) -> None:
    """Print rows below a header, each column as wide as it needs to be; the last one is not padded.

    At a terminal every line fits: the last column is cut, then the widest ones, and then columns are left out. Anywhere
    else nothing is cut.

    Args:
        header: the names of the columns.
        rows: a cell for each column.
        whole: the columns that are never cut; the first one is not either, since it holds names to be typed.
        expendable: the columns that may be left out, the least important first.
    """
    needed = {name: max(map(cell_len, cells)) for name, *cells in zip(header, header, *rows, strict=True)}
    widths = dict(needed)
    if sys.stdout.isatty():
        room = shutil.get_terminal_size().columns
        least = {
            name: width if name in (header[0], *whole) else min(width, LEAST_WIDTH) for name, width in needed.items()
        }
        for name in expendable:
            if _taken(least) > room:
                del least[name], widths[name]
        _narrow(widths, least, room)
    for row in (header, *rows):
        cells = [_cell(cell, widths[name]) for name, cell in zip(header, row, strict=True) if name in widths]
        click.secho(GAP.join(cells).rstrip(), bold=row is header and sys.stdout.isatty())


def _narrow(widths: dict[str, int], least: Mapping[str, int], room: int) -> None:
    last = list(widths)[-1]
    widths[last] = max(least[last], widths[last] - max(0, _taken(widths) - room))
    while _taken(widths) > room and (wider := [name for name in widths if widths[name] > least[name]]):
        widths[max(wider, key=widths.__getitem__)] -= 1


def _taken(widths: Mapping[str, int]) -> int:
    return sum(widths.values()) + len(GAP) * (len(widths) - 1)


def _cell(text: str, width: int) -> str:
    return set_cell_size(text, width) if cell_len(text) <= width else f"{set_cell_size(text, width - 1)}…"
