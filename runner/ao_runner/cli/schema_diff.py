"""`ao schema diff`: how two schemas differ, and what becomes of answers."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from ao_protocol.errors import ExitCode
from ao_runner.cli.narration import shorten
from ao_runner.cli.options import examples, home_option, json_option
from ao_runner.cli.schema_arguments import STDIN, GivenSchema, complete_schema, find_schema
from ao_runner.named_schemas.registry import vet

if TYPE_CHECKING:
    from ao_runner.named_schemas.diff import Comparison

MAX_SHOWN_CHARACTERS: Final = 400

_MARKS: Final = {"added": "+", "removed": "-", "changed": "~"}
_COLOURS: Final = {"wider": "green", "narrower": "red", "unclear": "yellow"}
_TOLD: Final = {
    "annotation": "documentation only",
    "same": "accepts the same",
    "wider": "wider",
    "narrower": "narrower",
    "unclear": "undecided",
}
_VERDICTS: Final = {
    "same": "same: both accept the same answers",
    "wider": "wider: every answer valid against {old} is valid against {new}; {new} may accept more",
    "narrower": "narrower: {new} may reject answers that are valid against {old}",
    "unclear": "undecided: whether every answer valid against {old} is valid against {new}",
}


@click.command(
    "diff",
    short_help="Compare two schemas.",
    epilog=examples(
        "ao schema diff code-review review.schema.json",
        'ao schema diff v1.json v2.json --json | jq -e \'.verdict == "same" or .verdict == "wider"\'',
    ),
)
@click.argument("old", metavar="A", shell_complete=complete_schema)
@click.argument("new", metavar="B", shell_complete=complete_schema)
@json_option("Print verdict and differences as a JSON object.")
@home_option
def diff(old: str, new: str, as_json: bool, home: Path) -> None:
    """Show how schema B differs from schema A, and whether answers valid against A stay valid against B.

    Each is a file (JSON or YAML; - reads one from stdin) or a named schema. Exit codes: 0 identical JSON,
    1 different.
    """
    if old == new == STDIN:
        raise click.UsageError("Only one of the two can be read from stdin.")
    first, second = _vetted(old, home), _vetted(new, home)

    from ao_runner.named_schemas.diff import compare_schemas

    comparison = compare_schemas(first.schema, second.schema)
    if as_json:
        found = [asdict(difference) for difference in comparison.differences]
        document = {"identical": not found, "verdict": comparison.verdict, "differences": found}
        click.echo(json.dumps(document, ensure_ascii=False))
    else:
        _show(comparison, first.label, second.label)
    sys.exit(int(ExitCode.FAILURE if comparison.differences else ExitCode.RESULT))


def _vetted(argument: str, home: Path) -> GivenSchema:
    given = find_schema(argument, home)
    vet(given.label, given.schema)
    return given


def _show(comparison: "Comparison", old: str, new: str) -> None:
    width = max((len(_TOLD[difference.effect]) for difference in comparison.differences), default=0)
    for difference in comparison.differences:
        told = shorten(f"{difference.place}: {difference.what}", MAX_SHOWN_CHARACTERS)
        effect = click.style(_TOLD[difference.effect].ljust(width), fg=_COLOURS.get(difference.effect))
        click.echo(f"{_MARKS[difference.change]} {effect}  {told}")
    verdict = _VERDICTS[comparison.verdict].format(old=shorten(old), new=shorten(new))
    if not comparison.differences:
        verdict = "same: identical schemas"
    click.secho(verdict, bold=True, fg=_COLOURS.get(comparison.verdict))
