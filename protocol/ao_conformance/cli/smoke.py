"""`ao conformance smoke -- CMD…`: the first look, while an executor is being written."""

from collections.abc import Sequence
from typing import Final

import click

from ao_conformance.cli.not_started import not_started
from ao_conformance.cli.progress import Progress
from ao_conformance.cli.run import absolute, finish
from ao_conformance.suite import Plan, run_suite
from ao_conformance.vectors import load_process_vectors

LOOKED_AT: Final = frozenset(
    {
        "describe",
        "start",
        "noise",
        "flush",
        "unknown-fields",
        "version-unspoken-major",
        "bad-line-not-json",
        "bad-line-duplicate-key",
        "parameters-no-prompt",
        "no-project-dir",
        "cut-inside-a-character",
        "sigterm-1",
    }
)
"""What goes wrong most often."""

EXAMPLES: Final = """\b
Examples:
  ao conformance smoke -- ./ao-mine-exec
  ao conformance smoke -- node mine.js

For the whole suite: ao conformance run"""


@click.command("smoke", epilog=EXAMPLES)
@click.argument("cmd", nargs=-1, required=True)
@click.option("--jobs", type=click.IntRange(1, 64), default=6, help="Number of vectors to run concurrently.")
@click.pass_context
def command(context: click.Context, cmd: Sequence[str], jobs: int) -> None:
    """Test the most frequently broken rules, in about five seconds."""
    vectors = [vector for vector in load_process_vectors() if vector.id in LOOKED_AT]
    with Progress(len(vectors), quiet=False) as progress:
        try:
            result = run_suite(Plan(command=absolute(cmd), level="core", vectors=vectors, jobs=jobs), progress.tell)
        except OSError as error:
            raise not_started(cmd[0], error) from error
    finish(context, result, [])
