"""`ao conformance run -- CMD…`: the suite for executors."""

import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from ao_conformance.cli.not_started import not_started
from ao_conformance.cli.progress import Progress
from ao_conformance.driver.transcript import INTERRUPTED
from ao_conformance.known_failing import KnownFailing, KnownFailingError, load_known_failing
from ao_conformance.reports import REPORT_KINDS, ReportError, terminal_text, wants_colours, write_report
from ao_conformance.rules import requirements_by_id
from ao_conformance.suite import LEVELS, Plan, run_suite
from ao_conformance.vectors import ProcessVector, load_process_vectors
from ao_conformance.verdict import SuiteResult

EXIT_USAGE: Final = 2
EXIT_INTERRUPTED: Final = 130

EXAMPLES: Final = """\b
Examples:
  ao conformance run -- ./ao-mine-exec
  ao conformance run --level standard --report junit=report.xml -- node mine.js
  ao conformance run --only AOX-191 -- ./ao-mine-exec
  ao conformance run --base base.json --env MY_SETTING=1 -- ./ao-mine-exec

\b
Exit codes: 0 conforms, 1 does not conform, 2 usage error, 3 nothing could be tested, 130 interrupted."""


@click.command("run", epilog=EXAMPLES, context_settings={"ignore_unknown_options": False})
@click.argument("cmd", nargs=-1, required=False)
@click.option("--level", type=click.Choice(LEVELS), default="core", show_default=True, help="Level to test.")
@click.option(
    "--only", multiple=True, metavar="ID", help="Run only this vector, or the vectors of this requirement. Repeatable."
)
@click.option(
    "--known-failing",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="File with ids that are known to fail, one per line; an id that passes is reported as stale.",
)
@click.option(
    "--report", "reports", multiple=True, metavar="KIND=FILE", help="Write a report: " + ", ".join(REPORT_KINDS) + "."
)
@click.option(
    "--base",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="JSON object with defaults for each invocation, such as an executor_config.",
)
@click.option(
    "--env", "variables", multiple=True, metavar="NAME=VALUE", help="Environment variable for the executor. Repeatable."
)
@click.option(
    "--repeat",
    type=click.IntRange(1, 1000),
    default=1,
    help="Run each vector this many times; the verdicts must agree.",
)
@click.option("--seed", type=int, default=1, help="Seed of the random delays.")
@click.option(
    "--jobs", type=click.IntRange(1, 64), default=4, show_default=True, help="Number of vectors to run concurrently."
)
@click.option("--list", "lists", is_flag=True, help="List the vectors and exit.")
@click.option("--quiet", "-q", is_flag=True, help="Print only the result, no progress.")
@click.pass_context
def command(
    context: click.Context,
    /,
    cmd: Sequence[str],
    reports: Sequence[str],
    lists: bool,
    quiet: bool,
    **options: Any,  # noqa: ANN401  # click's
) -> None:
    """Test the executor that CMD starts.

    Write CMD after `--`. It is started many times, each time in a new empty directory, with an empty HOME, and with
    no other variable of this environment but PATH.
    """
    vectors = chosen(options["only"])
    if lists:
        for vector in vectors:
            click.echo(f"{vector.id:44} {vector.level:10} {' '.join(vector.requirements):32} {vector.title}")
        return
    if not cmd:
        raise click.UsageError("Missing CMD: write it after --, as in: ao conformance run -- ./ao-mine-exec")
    asked = [parsed_report(text) for text in reports]
    plan = Plan(
        command=absolute(cmd),
        level=options["level"],
        vectors=vectors,
        base=_read_base(options["base"]),
        environment=_variables(options["variables"]),
        known_failing=_known_failing(options["known_failing"]),
        seed=options["seed"],
        repeats=options["repeat"],
        jobs=options["jobs"],
        options=_repeated(options),
    )
    with Progress(len(vectors) * plan.repeats, quiet=quiet) as progress:
        try:
            result = run_suite(plan, progress.tell)
        except OSError as error:
            raise not_started(cmd[0], error) from error
    finish(context, result, asked)


def finish(context: click.Context, result: SuiteResult, asked: Sequence[tuple[str, Path]]) -> None:
    """Write the reports, print the result, and exit as it says."""
    for kind, path in asked:
        try:
            write_report(kind, path, result)
        except ReportError as error:
            raise click.ClickException(str(error)) from error
    if not any(str(path) == "-" for _, path in asked):
        columns = shutil.get_terminal_size().columns
        click.echo(terminal_text(result, colours=wants_colours(sys.stdout), columns=columns), nl=False, color=True)
    interrupted = any(vector.reason == INTERRUPTED for vector in result.vectors)
    context.exit(EXIT_INTERRUPTED if interrupted else result.exit_code)


def chosen(only: Sequence[str]) -> list[ProcessVector]:
    """Return the vectors that `--only` means: by their own id or by a requirement's; all where nothing is said."""
    vectors = load_process_vectors()
    unknown = sorted(set(only) - {vector.id for vector in vectors} - requirements_by_id().keys())
    if unknown:
        raise click.BadParameter(
            f"{unknown[0]!r} is neither a requirement nor a vector; --list shows them", param_hint="--only"
        )
    wanted = [vector for vector in vectors if not only or vector.id in only or set(only) & set(vector.requirements)]
    if not wanted:
        raise click.BadParameter(
            f"no vector tests only {', '.join(only)}; every vector tests it: omit --only", param_hint="--only"
        )
    return wanted


def parsed_report(text: str) -> tuple[str, Path]:
    """Return kind and file of a `--report`."""
    kind, equals, path = text.partition("=")
    if not equals or not path or kind not in REPORT_KINDS:
        raise click.BadParameter(
            f"{text!r} is not KIND=FILE with one of {', '.join(REPORT_KINDS)}", param_hint="--report"
        )
    return kind, Path(path)


def absolute(command: Sequence[str]) -> tuple[str, ...]:
    """Return the command so that it can be started from any directory: what names a file here gets its whole path."""
    return tuple(
        str(Path(part).absolute()) if ("/" in part or index > 0) and Path(part).is_file() else part
        for index, part in enumerate(command)
    )


def _read_base(path: Path | None) -> Mapping[str, Any]:
    if path is None:
        return {}
    try:
        base = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise click.BadParameter(f"{path} is not JSON: {error}", param_hint="--base") from error
    if not isinstance(base, dict):
        raise click.BadParameter(f"{path} does not contain a JSON object", param_hint="--base")
    return base


def _variables(given: Sequence[str]) -> dict[str, str]:
    wrong = [text for text in given if "=" not in text]
    if wrong:
        raise click.BadParameter(f"{wrong[0]!r} is not NAME=VALUE", param_hint="--env")
    return dict(text.split("=", 1) for text in given)


def _known_failing(path: Path | None) -> KnownFailing:
    if path is None:
        return KnownFailing()
    known = frozenset({*requirements_by_id(), *(vector.id for vector in load_process_vectors())})
    try:
        return load_known_failing(path, known)
    except KnownFailingError as error:
        raise click.BadParameter(str(error), param_hint="--known-failing") from error


def _repeated(options: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the options that change what is tested, for the line that reproduces a failure."""
    base, level = options["base"], options["level"]
    return (
        *(("--level", level) if level != "core" else ()),
        *(("--base", str(base)) if base else ()),
        *(part for text in options["variables"] for part in ("--env", text)),
    )
