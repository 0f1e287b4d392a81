"""`ao schema from-model`: schemas from pydantic models."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ao_runner.cli.narration import shorten
from ao_runner.cli.options import examples
from ao_runner.cli.schema_text import print_json

if TYPE_CHECKING:
    from ao_runner.named_schemas.from_models import Mode


@click.command(
    "from-model",
    epilog=examples(
        "ao schema from-model models:Review > review.schema.json",
        "ao schema from-model reviews.models:Review --path src | ao schema add code-review -",
    ),
)
@click.argument("model", metavar="MODULE:MODEL")
@click.option(
    "--mode",
    type=click.Choice(["validation", "serialization"]),
    default="validation",
    show_default=True,
    help="Schema of the input that the model validates, or of the output that it serializes.",
)
@click.option(
    "--path",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=".",
    show_default="here",
    help="Folder in which MODULE is searched first.",
)
def from_model(model: str, mode: "Mode", path: Path) -> None:
    """Print the JSON Schema (Draft-7) of a pydantic model.

    The module is imported, so its code runs; its output goes to stderr.
    """
    from ao_runner.named_schemas.from_models import schema_of_model

    schema, remarks = schema_of_model(model, path, mode)
    _show_remarks(model, remarks)
    print_json(schema)


def _show_remarks(what: str, remarks: list[str]) -> None:
    for remark in remarks:
        click.secho(f"! {shorten(what)}: {shorten(remark, 400)}", fg="yellow", err=True)
