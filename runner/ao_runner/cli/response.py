"""`ao response`: answers that agents gave in the one response format, or in an older one, for people and scripts."""

import sys
from collections.abc import Iterable
from typing import Any, Final, Literal, TypeAlias, assert_never

import click

from ao_protocol.errors import ExitCode
from ao_protocol.output.agent_response import AgentResponse, Form, RemarkKind, aggregate, write_response
from ao_protocol.wire import JsonObject
from ao_runner.cli.options import Command, examples
from ao_runner.cli.response_files import STDIN, LookedAt, ReadFile, RefusedFile, look_at_files, strictly
from ao_runner.cli.response_view import (
    FINDING_COLUMNS,
    aggregate_lines,
    finding_rows,
    harmless,
    harmless_json,
    merged_rows,
    response_lines,
)
from ao_runner.cli.tables import print_table

View: TypeAlias = Literal["table", "json"] | None

FORMS: Final = click.Choice([form.value for form in Form])
MAX_TOLD_PROBLEMS: Final = 10
MAX_TOLD_CHARACTERS: Final = 1000


@click.group("response")
def command() -> None:
    """Show, convert, check and merge agent responses.

    A file contains a response as XML, JSON or Markdown, a response in an older format, or the output of
    `ao run --json`, `ao result --json` or `ao events`; `-` is stdin. Exit code 1: a file contains no response.
    """


def _check_files(_ctx: click.Context, _parameter: click.Parameter, files: tuple[str, ...]) -> tuple[str, ...]:
    if files.count(STDIN) > 1:
        raise click.BadParameter("`-` is given more than once; stdin can be read only once.")
    return files


def _files_argument(command: Command) -> Command:
    file = click.Path(allow_dash=True)
    return click.argument("files", nargs=-1, required=True, type=file, metavar="FILES...", callback=_check_files)(
        command
    )


def _agent_option(command: Command) -> Command:
    help_text = "Agent of a response that does not name one.  [default: the name of its file]"
    return click.option("--agent", metavar="NAME", help=help_text)(command)


def _view_options(command: Command) -> Command:
    for decorate in (
        click.option("--json", "view", flag_value="json", help="Print JSON."),
        click.option("--table", "view", flag_value="table", help="Print the findings as a table."),
    ):
        command = decorate(command)
    return command


@command.command(
    "show",
    short_help="Show a summary of each response.",
    epilog=examples(
        "ao response show review.xml", "ao result last | ao response show -", "ao response show *.md --table"
    ),
)
@_files_argument
@_view_options
@_agent_option
def show(files: tuple[str, ...], view: View, agent: str | None) -> None:
    """Show a summary of each response: agent, summary, findings, results, error."""
    looked_at = list(look_at_files(files, agent=agent))
    responses = [each.reading.response for each in looked_at if isinstance(each, ReadFile)]
    match view:
        case "json":
            click.echo(harmless_json([_shown(each) for each in looked_at]))
        case "table":
            _print_findings(finding_rows(responses))
        case None:
            for number, response in enumerate(responses):
                _print_lines(["", *response_lines(response)] if number else response_lines(response))
        case _:
            assert_never(view)
    _leave(looked_at)


@command.command(
    "convert",
    short_help="Print a response in another form.",
    epilog=examples("ao response convert review.md --to xml", "ao result last | ao response convert - --to json"),
)
@click.argument("file", type=click.Path(allow_dash=True))
@click.option("--to", "form", type=click.Choice([form.value for form in Form]), required=True, help="Form to write.")
@_agent_option
def convert(file: str, form: str, agent: str | None) -> None:
    """Print the response in FILE in another form, without loss."""
    looked_at = list(look_at_files([file], agent=agent))
    for each in looked_at:
        if isinstance(each, ReadFile):
            text = write_response(each.reading.response, Form(form))
            click.echo(harmless(text) if sys.stdout.isatty() else text, nl=not text.endswith("\n"))
    _leave(looked_at)


@command.command(
    "check",
    short_help="Validate responses.",
    epilog=examples(
        "ao response check review.xml", "ao response check answers/* --form xml --strict", "ao response check - --json"
    ),
)
@_files_argument
@click.option("--form", type=FORMS, help="Accept this form only.")
@click.option("--strict", is_flag=True, help="Reject responses that need a repair or are in an older format.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list with a verdict for each file.")
@_agent_option
def check(files: tuple[str, ...], form: str | None, strict: bool, as_json: bool, agent: str | None) -> None:
    """Report for each file whether it contains a response, in which form, and all its errors.

    Exit codes: 0 all files contain a response, 1 at least one does not. Errors with a single possible reading are
    repaired and reported.
    """
    looked_at = list(look_at_files(files, agent=agent, form=Form(form) if form else None))
    judged = [strictly(each) for each in looked_at] if strict else looked_at
    if as_json:
        click.echo(harmless_json([_verdict(each) for each in judged]))
        sys.exit(_exit_code(judged))
    for each in judged:
        if isinstance(each, RefusedFile):
            _tell_problems(each, len(each.problems))
            continue
        for remark in each.reading.remarks:
            _tell("!", f"{each.name}: {remark}", "yellow")
        click.secho(f"✓ {_cut(f'{each.name}: {_description(each)}')}", fg="green")
    sys.exit(_exit_code(judged))


@command.command(
    "aggregate",
    short_help="Merge the responses of several agents.",
    epilog=examples("ao response aggregate *.xml", "ao response aggregate a.json b.md --json | jq '.findings[]'"),
)
@_files_argument
@_view_options
@_agent_option
def merge(files: tuple[str, ...], view: View, agent: str | None) -> None:
    """Merge the responses of several agents: findings by priority, each once, with every agent that reported it.

    A file without a response is reported on stderr and sets the exit code to 1; the others are merged anyway.
    """
    looked_at = list(look_at_files(files, agent=agent))
    merged = aggregate(each.reading.response for each in looked_at if isinstance(each, ReadFile))
    match view:
        case "json":
            unread = [_shown(each) for each in looked_at if isinstance(each, RefusedFile)]
            click.echo(harmless_json({**merged.model_dump(mode="json", exclude_none=True), "unread": unread}))
        case "table":
            _print_findings(merged_rows(merged))
        case None:
            _print_lines(aggregate_lines(merged))
        case _:
            assert_never(view)
    _leave(looked_at)


def _shown(looked_at: LookedAt) -> JsonObject:
    if isinstance(looked_at, RefusedFile):
        return {"file": looked_at.name, "problems": _problems(looked_at)}
    form = looked_at.reading.form
    return {"file": looked_at.name, "form": form, "response": _document(looked_at.reading.response)}


def _document(response: AgentResponse) -> JsonObject:
    return response.model_dump(mode="json", exclude_none=True)


def _verdict(looked_at: LookedAt) -> JsonObject:
    if isinstance(looked_at, RefusedFile):
        return {"file": looked_at.name, "ok": False, "problems": _problems(looked_at)}
    reading = looked_at.reading
    return {
        "file": looked_at.name,
        "ok": True,
        "problems": [],
        "form": reading.form,
        "older": reading.is_older,
        "repaired": reading.is_repaired,
        "agent": reading.response.agent,
        "version": reading.response.version,
        "remarks": [
            {"kind": remark.kind, "place": remark.place, "message": remark.message} for remark in reading.remarks
        ],
    }


def _problems(refused: RefusedFile) -> list[Any]:
    return [{"place": each.place, "found": each.found, "expected": each.expected} for each in refused.problems]


def _description(read: ReadFile) -> str:
    response = read.reading.response
    form = f"as {read.reading.form}" if read.reading.form else "in an older format"
    partly = ", partly in an older format" if read.reading.form and read.reading.is_older else ""
    repaired = ", repaired" if read.reading.is_repaired else ""
    return f"a response of {response.agent}, version {response.version}, {form}{partly}{repaired}"


def _print_findings(rows: list[list[str]]) -> None:
    if rows:
        print_table(FINDING_COLUMNS, rows)
    else:
        click.echo("no findings", err=True)


def _print_lines(lines: Iterable[str]) -> None:
    click.echo("\n".join(lines))


def _leave(looked_at: list[LookedAt]) -> None:
    """Say of each file what was odd, and leave with 1 where one holds no response."""
    for each in looked_at:
        if isinstance(each, RefusedFile):
            _tell_problems(each, MAX_TOLD_PROBLEMS)
            continue
        odd = [remark for remark in each.reading.remarks if remark.kind is not RemarkKind.OLDER]
        if odd:
            kinds = ", ".join(dict.fromkeys(remark.kind.replace("_", " ") for remark in odd))
            _tell("!", f"{each.name}: some parts were {kinds}; `ao response check` shows them", "yellow")
    sys.exit(_exit_code(looked_at))


def _tell_problems(refused: RefusedFile, most: int) -> None:
    for problem in refused.problems[:most]:
        _tell("✗", f"{refused.name}: {problem.sentence}", "red")
    if len(refused.problems) > most:
        more = len(refused.problems) - most
        _tell("✗", f"{refused.name}: {more} more problems; `ao response check` lists all", "red")


def _tell(mark: str, text: str, colour: str) -> None:
    click.secho(f"{mark} {_cut(text)}", fg=colour, err=True)


def _cut(text: str) -> str:
    line = " ".join(harmless(text).split())
    return line if len(line) <= MAX_TOLD_CHARACTERS else f"{line[:MAX_TOLD_CHARACTERS]}…"


def _exit_code(looked_at: Iterable[LookedAt]) -> int:
    is_refused = any(isinstance(each, RefusedFile) for each in looked_at)
    return int(ExitCode.FAILURE if is_refused else ExitCode.RESULT)
