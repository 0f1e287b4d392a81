"""The options that several commands below `ao conformance` take, and what is read from them."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from ao_conformance.cli.reporting import parsed_reports
from ao_conformance.known_failing import KnownFailing, KnownFailingError, load_known_failing
from ao_conformance.reports import REPORT_KINDS
from ao_conformance.rules import requirements_by_id

Command = TypeVar("Command", bound=Callable[..., Any])

EXISTING_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)

known_failing_option: Final = click.option(
    "--known-failing",
    type=EXISTING_FILE,
    metavar="FILE",
    help="File with ids that are known to fail, one per line; an id that passes is reported as stale.",
)
report_option: Final = click.option(
    "--report",
    "reports",
    multiple=True,
    callback=parsed_reports,
    metavar="KIND=FILE",
    help=f"Write a report: {', '.join(REPORT_KINDS)}. Missing folders are created; - is stdout. Repeatable.",
)
base_option: Final = click.option(
    "--base",
    type=EXISTING_FILE,
    metavar="FILE",
    help="JSON object with defaults for each invocation, such as an executor_config.",
)
variables_option: Final = click.option(
    "--env", "variables", multiple=True, metavar="NAME=VALUE", help="Environment variable for the executor. Repeatable."
)
list_option: Final = click.option("--list", "lists", is_flag=True, help="List the vectors and exit.")
quiet_option: Final = click.option("--quiet", "-q", is_flag=True, help="Print only the result, no progress.")


def jobs_option(default: int) -> Callable[[Command], Command]:
    """Return the option for how many vectors are played at once."""
    return click.option(
        "--jobs",
        type=click.IntRange(1, 64),
        default=default,
        show_default=True,
        help="Number of vectors to run concurrently.",
    )


def read_known_failing(path: Path | None, vectors: Iterable[str]) -> KnownFailing:
    """Return what a file lists as known to fail: requirements, or vectors of these ids."""
    if path is None:
        return KnownFailing()
    try:
        return load_known_failing(path, frozenset({*requirements_by_id(), *vectors}))
    except KnownFailingError as error:
        raise click.BadParameter(str(error), param_hint="--known-failing") from error


def read_base(path: Path | None) -> Mapping[str, Any]:
    """Return the defaults for invocations that a file holds."""
    if path is None:
        return {}
    try:
        base = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise click.BadParameter(f"{path} is not JSON: {error}", param_hint="--base") from error
    if not isinstance(base, dict):
        raise click.BadParameter(f"{path} does not contain a JSON object", param_hint="--base")
    return base


def read_variables(given: Sequence[str]) -> dict[str, str]:
    """Return the variables of `--env`."""
    wrong = [text for text in given if "=" not in text]
    if wrong:
        raise click.BadParameter(f"{wrong[0]!r} is not NAME=VALUE", param_hint="--env")
    return dict(text.split("=", 1) for text in given)


def repeated(*, base: Path | None, variables: Sequence[str]) -> tuple[str, ...]:
    """Return the options of `run` that change what is tested, for the line that reproduces a failure."""
    return (
        *(("--base", str(base)) if base else ()),
        *(part for text in variables for part in ("--env", text)),
    )
