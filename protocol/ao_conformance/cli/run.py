"""`ao conformance run -- CMD…`: the suite for executors."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

from ao_conformance.cli.not_started import not_started
from ao_conformance.cli.options import (
    base_option,
    jobs_option,
    known_failing_option,
    list_option,
    quiet_option,
    read_base,
    read_known_failing,
    read_variables,
    repeated,
    report_option,
    variables_option,
)
from ao_conformance.cli.progress import Progress
from ao_conformance.cli.reporting import AskedReport, finish
from ao_conformance.rules import requirements_by_id
from ao_conformance.suite import LEVELS, Plan, run_suite
from ao_conformance.vectors import ProcessVector, load_process_vectors

EXAMPLES: Final = """\b
Examples:
  ao conformance run -- ./ao-mine-exec
  ao conformance run --level standard --report junit=report.xml -- node mine.js
  ao conformance run --only AOX-191 -- ./ao-mine-exec
  ao conformance run --base base.json --env MY_SETTING=1 -- ./ao-mine-exec

\b
Exit codes: 0 conforms, 1 does not conform, 2 usage error, or it conforms and a report was not written,
3 nothing could be tested, 130 interrupted."""


@click.command("run", epilog=EXAMPLES, context_settings={"ignore_unknown_options": False})
@click.argument("cmd", nargs=-1, required=False)
@click.option("--level", type=click.Choice(LEVELS), help="Level to test; without it: core, then how far it reaches.")
@click.option(
    "--only", multiple=True, metavar="ID", help="Run only this vector, or the vectors of this requirement. Repeatable."
)
@known_failing_option
@report_option
@base_option
@variables_option
@click.option(
    "--repeat",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    help="Run each vector this many times; the verdicts must agree.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of the random delays.")
@jobs_option(4)
@list_option
@quiet_option
@click.pass_context
def command(
    context: click.Context,
    /,
    cmd: Sequence[str],
    reports: Sequence[AskedReport],
    lists: bool,
    quiet: bool,
    **options: Any,  # noqa: ANN401  # click's
) -> None:
    """Test the executor that CMD starts.

    Write CMD after `--`. It is started many times, each time in a new empty directory, with an empty HOME, and with
    no other variable of this environment but PATH.

    Without --level it is tested at core, and then, where core is kept, at standard: the last lines say which level it
    reaches and what is missing to the next. Exit code 0 says that it reaches core, or the level of --level.
    """
    vectors = chosen(options["only"])
    if lists:
        for vector in vectors:
            click.echo(f"{vector.id:44} {vector.level:10} {' '.join(vector.requirements):32} {vector.title}")
        return
    if not cmd:
        raise click.UsageError("Missing CMD: write it after --, as in: ao conformance run -- ./ao-mine-exec")
    base, variables = options["base"], options["variables"]
    plan = Plan(
        command=absolute(cmd),
        level=options["level"] or ("standard" if options["only"] else None),
        vectors=vectors,
        base=read_base(base),
        environment=read_variables(variables),
        known_failing=read_known_failing(options["known_failing"], (vector.id for vector in load_process_vectors())),
        seed=options["seed"],
        repeats=options["repeat"],
        jobs=options["jobs"],
        options=repeated(base=base, variables=variables),
    )
    with Progress(len(vectors) * plan.repeats, quiet=quiet) as progress:
        try:
            result = run_suite(plan, progress.tell)
        except OSError as error:
            raise not_started(cmd[0], error) from error
    finish(context, result, reports)


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


def absolute(command: Sequence[str]) -> tuple[str, ...]:
    """Return the command so that it can be started from any directory: what names a file here gets its whole path.

    A folder here does too, where a slash shows that it is meant.
    """
    return tuple(
        str(Path(part).absolute())
        if ("/" in part and Path(part).exists()) or (index > 0 and Path(part).is_file())
        else part
        for index, part in enumerate(command)
    )
