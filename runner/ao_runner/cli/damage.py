"""What a command says of the rows of the store that it could not read."""

import sys
from typing import Final

import click

from ao_runner.cli.narration import plain_text
from ao_runner.store.rows import Damage

MOST_TOLD: Final = 5


def leave_if_damaged(damage: Damage) -> None:
    """Name the rows that were left out on stderr and exit with 1; return where there are none."""
    if not damage:
        return
    sentences = [plain_text(sentence) for sentence in damage]
    for sentence in sentences[:MOST_TOLD]:
        click.echo(f"Error: {sentence}", err=True)
    if len(sentences) > MOST_TOLD:
        click.echo(f"… and {len(sentences) - MOST_TOLD} more damaged rows", err=True)
    sys.exit(1)
