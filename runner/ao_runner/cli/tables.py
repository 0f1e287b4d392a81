"""Lists for people: aligned columns, plain text, so that they can also be cut and searched."""

import sys
from collections.abc import Sequence

import click


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows below a header, each column as wide as it needs to be; the last one is not padded."""
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (header, *rows)
    ]
    click.secho(lines[0], bold=sys.stdout.isatty())
    for line in lines[1:]:
        click.echo(line)
