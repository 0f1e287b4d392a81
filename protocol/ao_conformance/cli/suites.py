"""The commands that run a suite: `ao conformance run`, `smoke`, `codec` and `runner`."""

import shlex
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from ao_conformance.cli.options import (
    AskedReport,
    Progress,
    base_option,
    finish,
    jobs_option,
    known_failing_option,
    list_option,
    not_started,
    number_option,
    only_option,
    quiet_option,
    read_base,
    read_known_failing,
    read_shell_tool,
    read_variables,
    repeated,
    report_option,
    shell_tool_option,
    variables_option,
)
from ao_conformance.codec_suite import FORMS, CodecPlan, load_questions, run_codec_suite
from ao_conformance.reports import NAME, TABLE
from ao_conformance.runner_suite.running import RunnerPlan, run_runner_suite
from ao_conformance.runner_suite.stage import (
    OUR_ATTACH_OPTIONS,
    load_runner_vectors,
    our_command,
    our_resume_command,
    uses,
)
from ao_conformance.suite import LEVELS, Plan, run_suite
from ao_conformance.vectors import ProcessVector, Vector, load_process_vectors, requirements_by_id
from ao_conformance.verdict import Lateness, SuiteResult, VectorResult

EXIT_CODES: Final = """\b
Exit codes: 0 conforms, 1 does not conform, 2 usage error, or it conforms and a report was not written,
3 nothing could be tested, 130 interrupted."""
RUN_EXAMPLES: Final = f"""\b
Examples:
  ao conformance run -- ./ao-mine-exec
  ao conformance run --level standard --report junit=report.xml -- node mine.js
  ao conformance run --only AOX-191 -- ./ao-mine-exec
  ao conformance run --base base.json --env MY_SETTING=1 -- ./ao-mine-exec

{EXIT_CODES}"""
LOOKED_AT: Final = frozenset(
    {
        *("describe", "start", "noise", "flush", "unknown-fields", "unspoken-major-is-refused"),
        *("line-that-is-cut-short", "prompt-to-the-last-blank", "prompt-with-a-block", "prompt-with-a-demand"),
        *("bare-environment", "sigterm-ends-it"),
    }
)
"""The vectors of `smoke`, which fail most often."""
PATIENCE_SECONDS: Final = 4.0
"""How long `smoke` waits for a vector beyond its work: an executor without a model needs a second at most."""
SMOKE_EXAMPLES: Final = """\b
Examples:
  ao conformance smoke -- ./ao-mine-exec
  ao conformance smoke -- node mine.js
  ao conformance smoke --base base.json --env MY_SETTING=1 -- ./ao-mine-exec

\b
For the whole suite: ao conformance run
Exit codes: 0 no rule is broken, 1 one is, 2 usage error, 3 nothing could be tested, 130 interrupted."""
CODEC_EXAMPLES: Final = """\b
Examples:
  ao conformance codec -- node codec.js
  ao conformance codec --only framing --only AOX-030 -- ./codec
  ao conformance codec --write questions.jsonl
  ao conformance codec --write - --only line | ./codec

\b
Exit codes: 0 all answers are correct, 1 some are not, 2 usage error, or they are and a report was not written,
3 no kind of question is supported, 130 interrupted."""
RUNNER_EXAMPLES: Final = f"""\b
Examples:
  ao conformance runner
  ao conformance runner -- ./my-runner --executor {{executor}} --blueprint {{blueprint}} --prompt {{prompt}}
  ao conformance runner --only AOX-246 -- ./my-runner {{profile}} {{blueprint}} {{prompt}} {{project_dir}}

{EXIT_CODES}"""


SHOULD: Final = "should"
UNKNOWN: Final = "{!r} is neither a requirement nor a vector; --list shows them"
UNKNOWN_QUESTION: Final = f"{{!r}} is not a vector, requirement or kind ({', '.join(FORMS)}); --list shows the vectors"
NO_PROCESS_VECTOR: Final = "no vector tests only {}; every vector tests it: omit --only"
NO_RUNNER_VECTOR: Final = "no runner vector tests {}; --list shows the vectors"
NO_QUESTION: Final = "no question tests {}; --list shows the vectors"
AnyVector = TypeVar("AnyVector", bound=Vector)
command_argument: Final = click.argument("cmd", nargs=-1, required=False)


@click.command("run", epilog=RUN_EXAMPLES)
@command_argument
@click.option(
    "--level",
    "levels",
    multiple=True,
    type=click.Choice([*LEVELS, "must", SHOULD]),
    help="Level to test; without it: core, then how far it reaches. With should, a SHOULD that is broken fails, too.",
)
@click.option(
    "--executor", "executors", multiple=True, metavar="LINE", help="Command line of an executor, as CMD. Repeatable."
)
@only_option
@known_failing_option
@report_option
@base_option
@shell_tool_option
@variables_option
@number_option("--repeat", 1, "Run each vector this many times; the verdicts must agree.", most=1000)
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of the random delays.")
@jobs_option(4)
@list_option
@quiet_option
@click.pass_context
def run_command(
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

    With several --executor each is tested, and a table shows them side by side.
    """
    vectors = _wanted(load_process_vectors(), options["only"], NO_PROCESS_VECTOR)
    if lists:
        for vector in vectors:
            click.echo(f"{vector.id:44} {vector.level:10} {' '.join(vector.requirements):32} {vector.title}")
        return
    commands = [read_words(line, "--executor") for line in options["executors"]] + ([tuple(cmd)] if cmd else [])
    if not commands:
        raise click.UsageError("Missing CMD: write it after --, as in: ao conformance run -- ./ao-mine-exec")
    if len(commands) > 1 and (one := next((path for kind, path in reports if not _holds_several(kind, path)), None)):
        raise click.BadParameter(f"{one} would be that of several executors; write {NAME} in it", param_hint="--report")
    base, variables, shell_tool = options["base"], options["variables"], read_shell_tool(options["shell_tool"])
    levels = set(options["levels"])
    plan = Plan(
        command=(),
        level=next((level for level in LEVELS[::-1] if level in levels), "standard" if options["only"] else None),
        vectors=vectors,
        base=read_base(base),
        shell_tool=shell_tool,
        environment=read_variables(variables),
        known_failing=read_known_failing(options["known_failing"], (vector.id for vector in load_process_vectors())),
        counts_should=SHOULD in levels,
        seed=options["seed"],
        repeats=options["repeat"],
        jobs=options["jobs"],
        options=repeated(base=base, variables=variables, shell_tool=shell_tool),
    )
    total = len(vectors) * plan.repeats
    results = [
        _shown(total, partial(run_suite, replace(plan, command=absolute(words))), words[0], quiet=quiet)
        for words in commands
    ]
    finish(context, results, reports)


def _holds_several(kind: str, path: Path) -> bool:
    return kind == TABLE or NAME in str(path)


def _wanted(
    vectors: Sequence[AnyVector], only: Sequence[str], none_left: str, unknown: str = UNKNOWN
) -> list[AnyVector]:
    """Return the vectors with one of the names in `--only`; all if it is not given.

    Raises:
        click.BadParameter: A name is unknown, or no vector has it.
    """
    known = {*requirements_by_id(), *(name for vector in vectors for name in vector.names)}
    if wrong := sorted(set(only) - known):
        raise click.BadParameter(unknown.format(wrong[0]), param_hint="--only")
    wanted = [vector for vector in vectors if not only or not vector.names.isdisjoint(only)]
    if not wanted:
        raise click.BadParameter(none_left.format(", ".join(only)), param_hint="--only")
    return wanted


def _shown(
    total: int, run: Callable[[Callable[[VectorResult], None]], SuiteResult], program: str, *, quiet: bool = False
) -> SuiteResult:
    """Run a suite and show its progress.

    Raises:
        click.UsageError: The program cannot be started.
    """
    with closing(Progress(total, quiet=quiet)) as progress:
        try:
            return run(progress.tell)
        except OSError as error:
            raise not_started(program, error) from error


def absolute(command: Sequence[str]) -> tuple[str, ...]:
    """Return the command in a form that starts from any directory: names of existing files become absolute paths.

    The first word and names of folders become absolute only if they contain a slash.
    """
    return tuple(
        str(Path(part).absolute())
        if ("/" in part and Path(part).exists()) or (index > 0 and Path(part).is_file())
        else part
        for index, part in enumerate(command)
    )


@click.command("smoke", epilog=SMOKE_EXAMPLES)
@command_argument
@base_option
@variables_option
@jobs_option(6)
@click.pass_context
def smoke_command(
    context: click.Context, cmd: Sequence[str], base: Path | None, variables: Sequence[str], jobs: int
) -> None:
    """Test the most frequently broken rules, in about five seconds.

    No vector is waited for longer than a few seconds; `run` is more patient.
    """
    if not cmd:
        raise click.UsageError("Missing CMD: write it after --, as in: ao conformance smoke -- ./ao-mine-exec")
    patient = {vector.id: vector for vector in load_process_vectors() if vector.id in LOOKED_AT}
    plan = Plan(
        command=absolute(cmd),
        level="core",
        vectors=[vector.hurried(_patience(vector)) for vector in patient.values()],
        base=read_base(base),
        environment=read_variables(variables),
        jobs=jobs,
        patience_seconds=PATIENCE_SECONDS,
        options=repeated(base=base, variables=variables),
    )
    result = _shown(len(patient), lambda tell: run_suite(plan, tell), cmd[0])
    told = tuple(with_patience_told(vector, patient[vector.id]) for vector in result.vectors)
    finish(context, [replace(result, vectors=told)], [])


def with_patience_told(result: VectorResult, patient: ProcessVector) -> VectorResult:
    """Return a result whose hint names the longer wait of `run`, if a wait of `smoke` was too short."""
    patience = _patience(patient)
    # A longer wait could show something else, except where SPEC 10 limits how soon an executor exits.
    was_cut_short = any(one.lateness in {Lateness.END, Lateness.KILLED} for one in result.findings)
    if not was_cut_short or result.seconds < patience or patience >= patient.within_seconds:
        return result
    said = f"smoke waits {patience:g} s here, ao conformance run {patient.within_seconds:g} s"
    return replace(result, hint="; ".join(text for text in (result.hint, said) if text))


def _patience(vector: ProcessVector) -> float:
    return PATIENCE_SECONDS + vector.works_for_seconds


@click.command("codec", epilog=CODEC_EXAMPLES)
@command_argument
@click.option(
    "--only", multiple=True, metavar="NAME", help="Ask only about this vector, requirement or kind. Repeatable."
)
@known_failing_option
@report_option
@click.option(
    "--write",
    type=click.File("wb", lazy=False),
    metavar="FILE",
    help="Write the questions to FILE and exit; - is stdout.",
)
@list_option
@quiet_option
@click.pass_context
def codec_command(
    context: click.Context,
    /,
    cmd: Sequence[str],
    reports: Sequence[AskedReport],
    **options: Any,  # noqa: ANN401  # click's
) -> None:
    """Test a parser of protocol lines, in any language, without processes and signals.

    CMD reads one JSON question per line and writes one answer per line, in any order, until its stdin ends. It is
    started once, in this directory and with this environment. docs/conformance-codec.md defines questions and
    answers.
    """
    questions = _wanted(load_questions(), options["only"], NO_QUESTION, UNKNOWN_QUESTION)
    if options["lists"]:
        for question in questions:
            click.echo(f"{question.id:44} {question.kind:12} {' '.join(question.requirements):20} {question.title}")
        return
    if options["write"]:
        options["write"].write(b"".join(question.line for question in questions))
        return
    if not cmd:
        raise click.UsageError("Missing CMD: write it after --, as in: ao conformance codec -- node codec.js")
    plan = CodecPlan(
        tuple(cmd),
        questions,
        read_known_failing(options["known_failing"], (question.id for question in load_questions())),
    )
    result = _shown(len(questions), lambda tell: run_codec_suite(plan, tell), cmd[0], quiet=options["quiet"])
    finish(context, [result], reports)


@click.command("runner", epilog=RUNNER_EXAMPLES)
@command_argument
@only_option
@click.option(
    "--resume", metavar="LINE", help="Command that resumes the session of the run before, with the same placeholders."
)
@click.option(
    "--attach", metavar="WORDS", help="Words behind CMD that attach a file: '--attach {file}', also with {media_type}."
)
@known_failing_option
@report_option
@jobs_option(8)
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
    only, takes_long = options["only"], options["takes_long"]
    wanted = _wanted(load_runner_vectors(), only, NO_RUNNER_VECTOR)
    vectors = [vector for vector in wanted if takes_long or not vector.takes_long or vector.id in only]
    if options["lists"]:
        for vector in vectors:
            click.echo(f"{vector.id:38} {' '.join(vector.requirements):32} {vector.title}")
        return
    if cmd and not uses(cmd, "executor", "profile"):
        raise click.UsageError("CMD has no placeholder for the executor: add {executor}")
    plan = RunnerPlan(
        command=absolute(cmd) if cmd else our_command(),
        resume=absolute(_optional_words(options["resume"], "--resume")) if cmd else our_resume_command(),
        attach=_optional_words(options["attach"], "--attach") if cmd else OUR_ATTACH_OPTIONS,
        vectors=vectors,
        is_ours=not cmd,
        known_failing=read_known_failing(options["known_failing"], (vector.id for vector in load_runner_vectors())),
        jobs=options["jobs"],
    )
    result = _shown(len(vectors), lambda tell: run_runner_suite(plan, tell), plan.command[0], quiet=options["quiet"])
    finish(context, [result], options["reports"])


def _optional_words(line: str | None, option: str) -> tuple[str, ...]:
    return read_words(line, option) if line else ()


def read_words(line: str, option: str) -> tuple[str, ...]:
    """Return the argv of a shell command line.

    Raises:
        click.BadParameter: The line cannot be split into words, or has none.
    """
    try:
        if words := shlex.split(line):
            return tuple(words)
    except ValueError as error:
        raise click.BadParameter(f"{line!r} cannot be split into words: {error}", param_hint=option) from error
    raise click.BadParameter("the command line is empty", param_hint=option)
