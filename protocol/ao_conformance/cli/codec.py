"""`ao conformance codec -- CMD…`: the suite for parsers."""

from collections.abc import Sequence
from typing import Any, Final

import click

from ao_conformance.cli.not_started import not_started
from ao_conformance.cli.options import (
    known_failing_option,
    list_option,
    quiet_option,
    read_known_failing,
    report_option,
)
from ao_conformance.cli.progress import Progress
from ao_conformance.cli.reporting import AskedReport, finish
from ao_conformance.codec.forms import FORMS
from ao_conformance.codec.questions import Question, load_questions
from ao_conformance.codec.suite import Plan, run_suite
from ao_conformance.rules import requirements_by_id

EXAMPLES: Final = """\b
Examples:
  ao conformance codec -- node codec.js
  ao conformance codec --only framing --only AOX-030 -- ./codec
  ao conformance codec --write questions.jsonl
  ao conformance codec --write - --only line | ./codec

\b
Exit codes: 0 all answers are correct, 1 some are not, 2 usage error, or they are and a report was not written,
3 no kind of question is supported, 130 interrupted."""


@click.command("codec", epilog=EXAMPLES, context_settings={"ignore_unknown_options": False})
@click.argument("cmd", nargs=-1, required=False)
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
def command(context: click.Context, /, cmd: Sequence[str], reports: Sequence[AskedReport], **options: Any) -> None:  # noqa: ANN401  # click's
    """Test a parser of protocol lines, in any language, without processes and signals.

    CMD reads one JSON question per line and writes one answer per line, in any order, until its stdin ends. It is
    started once, in this directory and with this environment. docs/conformance-codec.md defines questions and
    answers.
    """
    questions = chosen(options["only"])
    if options["lists"]:
        for question in questions:
            click.echo(f"{question.id:44} {question.kind:12} {' '.join(question.requirements):20} {question.title}")
        return
    if options["write"]:
        options["write"].write(b"".join(question.line for question in questions))
        return
    if not cmd:
        raise click.UsageError("Missing CMD: write it after --, as in: ao conformance codec -- node codec.js")
    plan = Plan(
        tuple(cmd),
        questions,
        read_known_failing(options["known_failing"], (question.id for question in load_questions())),
    )
    with Progress(len(questions), quiet=options["quiet"]) as progress:
        try:
            result = run_suite(plan, progress.tell)
        except OSError as error:
            raise not_started(cmd[0], error) from error
    finish(context, result, reports)


def chosen(only: Sequence[str]) -> list[Question]:
    """Return the questions that `--only` means: by vector, requirement or kind; all where nothing is said."""
    questions = load_questions()
    for name in only:
        if name not in FORMS and name not in requirements_by_id() and all(name != one.id for one in questions):
            sentence = f"{name!r} is not a vector, requirement or kind ({', '.join(FORMS)}); --list shows the vectors"
            raise click.BadParameter(sentence, param_hint="--only")
    wanted = [question for question in questions if not only or question.is_meant_by(only)]
    if not wanted:
        sentence = f"no question tests {', '.join(only)}; --list shows the vectors"
        raise click.BadParameter(sentence, param_hint="--only")
    return wanted
