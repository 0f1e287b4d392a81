"""`ao conformance runner -- CMD…`: the suite for runners."""

import shlex
from collections.abc import Sequence
from typing import Any, Final

import click

from ao_conformance.cli.options import (
    jobs_option,
    known_failing_option,
    list_option,
    quiet_option,
    read_known_failing,
    report_option,
)
from ao_conformance.cli.progress import Progress
from ao_conformance.cli.reporting import finish
from ao_conformance.cli.run import absolute
from ao_conformance.rules import requirements_by_id
from ao_conformance.runner_suite.command import our_command, our_resume_command, uses
from ao_conformance.runner_suite.suite import Plan, run_suite
from ao_conformance.runner_suite.vectors import RunnerVector, load_runner_vectors

JOBS: Final = 8

EXAMPLES: Final = """\b
Examples:
  ao conformance runner
  ao conformance runner -- ./my-runner --executor {executor} --blueprint {blueprint} --prompt {prompt}
  ao conformance runner --only AOX-246 -- ./my-runner {profile} {blueprint} {prompt} {project_dir}

\b
Exit codes: 0 conforms, 1 does not conform, 2 usage error, or it conforms and a report was not written,
3 nothing could be tested, 130 interrupted."""


@click.command("runner", epilog=EXAMPLES, context_settings={"ignore_unknown_options": False})
@click.argument("cmd", nargs=-1, required=False)
@click.option(
    "--only", multiple=True, metavar="ID", help="Run only this vector, or the vectors of this requirement. Repeatable."
)
@click.option(
    "--resume", metavar="LINE", help="Command that resumes the session of the run before, with the same placeholders."
)
@known_failing_option
@report_option
@jobs_option(JOBS)
@click.option("--long", "takes_long", is_flag=True, help="Run also the vectors that take longer than a minute.")
@list_option
@quiet_option
@click.pass_context
def runner_command(context: click.Context, /, cmd: Sequence[str], **options: Any) -> None:  # noqa: ANN401  # click's
    """Test the runner that CMD starts with executors that break the protocol. Without CMD, test `ao run`.

    CMD performs one run in the foreground and prints its events. The placeholders {executor}, {blueprint}, {prompt},
    {project_dir}, {timeout_seconds} and {idle_seconds} in CMD are replaced for each run; {config} is a JSON file with
    the executor's configuration, {profile} one with executor, configuration and limits.
    """
    vectors = chosen(options["only"], takes_long=options["takes_long"])
    if options["lists"]:
        for vector in vectors:
            click.echo(f"{vector.id:38} {' '.join(vector.requirements):32} {vector.title}")
        return
    if cmd and not uses(cmd, "executor", "profile"):
        raise click.UsageError("CMD has no placeholder for the executor: add {executor}")
    plan = Plan(
        command=absolute(cmd) if cmd else our_command(),
        resume=resume_command(options["resume"]) if cmd else our_resume_command(),
        vectors=vectors,
        is_ours=not cmd,
        known_failing=read_known_failing(options["known_failing"], (vector.id for vector in load_runner_vectors())),
        jobs=options["jobs"],
    )
    with Progress(len(vectors), quiet=options["quiet"]) as progress:
        result = run_suite(plan, progress.tell)
    finish(context, result, options["reports"])


def resume_command(line: str | None) -> tuple[str, ...]:
    """Return the argv of a line for a shell; an empty one where there is no line."""
    try:
        return absolute(shlex.split(line)) if line else ()
    except ValueError as error:
        raise click.BadParameter(f"{line!r} cannot be split into words: {error}", param_hint="--resume") from error


def chosen(only: Sequence[str], *, takes_long: bool) -> list[RunnerVector]:
    """Return the vectors that `--only` means: by their own id or by a requirement's; all where nothing is said."""
    vectors = load_runner_vectors()
    if unknown := sorted(set(only) - {vector.id for vector in vectors} - requirements_by_id().keys()):
        sentence = f"{unknown[0]!r} is neither a requirement nor a vector; --list shows them"
        raise click.BadParameter(sentence, param_hint="--only")
    wanted = [vector for vector in vectors if not only or set(only) & {vector.id, *vector.requirements}]
    if not wanted:
        sentence = f"no runner vector tests {', '.join(only)}; --list shows the vectors"
        raise click.BadParameter(sentence, param_hint="--only")
    named = {vector.id for vector in wanted} & set(only)
    return [vector for vector in wanted if takes_long or not vector.takes_long or vector.id in named]
