"""`ao response`: show, convert, check and merge responses of agents in the one format, or in an older one."""

import json
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NoReturn, TypeAlias

import click
from pydantic import JsonValue

from ao_protocol.agent_response import (
    AgentResponseError,
    Form,
    Reading,
    RemarkKind,
    aggregate,
    examine_response,
    write_response,
)
from ao_protocol.errors import ExitCode
from ao_protocol.wire import JsonObject
from ao_runner.cli.narration import shorten
from ao_runner.cli.options import examples
from ao_runner.cli.response_view import aggregate_lines, harmless, harmless_json, response_lines

MAX_FILE_BYTES: Final = 64 * 1024 * 1024
MAX_SHOWN_CHARACTERS: Final = 1000

Outcome: TypeAlias = tuple[str, Reading | AgentResponseError]

_FORMS: Final = click.Choice([form.value for form in Form])
_FILES_ARGUMENT: Final = click.argument("files", nargs=-1, required=True, type=click.Path(allow_dash=True))
_AGENT_OPTION: Final = click.option(
    "--agent", metavar="NAME", help="Agent of a response that does not name one.  [default: the name of its file]"
)
_JSON_OPTION: Final = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group("response")
def command() -> None:
    """Show, convert, check and merge agent responses.

    A file contains a response as XML, JSON or Markdown, a response in an older format, or the output of
    `ao run --json`, `ao result --json` or `ao events`; `-` is stdin. Exit code 1: a file contains no response.
    """


@command.command(epilog=examples("ao response show review.xml", "ao result last | ao response show -"))
@_FILES_ARGUMENT
@_JSON_OPTION
@_AGENT_OPTION
def show(files: tuple[str, ...], as_json: bool, agent: str | None) -> None:
    """Show a summary of each response: agent, summary, findings, results, error."""
    outcomes = _read_files(files, agent)
    if as_json:
        click.echo(harmless_json([_document(*outcome) for outcome in outcomes]))
    else:
        shown = ["\n".join(response_lines(each.response)) for _, each in outcomes if isinstance(each, Reading)]
        click.echo("\n\n".join(shown), nl=bool(shown))
    _finish(outcomes)


@command.command(epilog=examples("ao response convert review.md --to xml", "ao response convert - --to json"))
@click.argument("file", type=click.Path(allow_dash=True))
@click.option("--to", "form", type=_FORMS, required=True, help="Form to write.")
@_AGENT_OPTION
def convert(file: str, form: str, agent: str | None) -> None:
    """Print the response in FILE in another form, without loss."""
    outcomes = _read_files([file], agent)
    for _, outcome in outcomes:
        if isinstance(outcome, Reading):
            text = write_response(outcome.response, Form(form))
            click.echo(harmless(text) if sys.stdout.isatty() else text, nl=not text.endswith("\n"))
    _finish(outcomes)


@command.command(epilog=examples("ao response check review.xml", "ao response check answers/* --form xml"))
@_FILES_ARGUMENT
@click.option("--form", type=_FORMS, help="Accept this form only.")
@_JSON_OPTION
@_AGENT_OPTION
def check(files: tuple[str, ...], form: str | None, as_json: bool, agent: str | None) -> None:
    """Report for each file whether it contains a response, in which form, and all its problems."""
    outcomes = _read_files(files, agent, Form(form) if form else None)
    if as_json:
        click.echo(harmless_json([_document(*outcome) for outcome in outcomes]))
        _finish(outcomes)
    for name, outcome in outcomes:
        if isinstance(outcome, Reading):
            found = f"as {outcome.form}" if outcome.form else "in an older format"
            agent, version = outcome.response.agent, outcome.response.version
            _print(f"✓ {name}: a response of {agent}, version {version}, {found}", "green", err=False)
    _finish(outcomes, *RemarkKind)


@command.command("aggregate", epilog=examples("ao response aggregate *.xml", "ao response aggregate *.md --json"))
@_FILES_ARGUMENT
@_JSON_OPTION
@_AGENT_OPTION
def merge(files: tuple[str, ...], as_json: bool, agent: str | None) -> None:
    """Merge the responses of several agents: findings by priority, each once, with every agent that reported it."""
    outcomes = _read_files(files, agent)
    merged = aggregate(each.response for _, each in outcomes if isinstance(each, Reading))
    if as_json:
        unread = [_document(name, each) for name, each in outcomes if isinstance(each, AgentResponseError)]
        click.echo(harmless_json({**merged.model_dump(mode="json", exclude_none=True), "unread": unread}))
    else:
        click.echo("\n".join(aggregate_lines(merged)))
    _finish(outcomes)


def _read_files(files: Iterable[str], agent: str | None, form: Form | None = None) -> list[Outcome]:
    outcomes: list[Outcome] = []
    for name in files:
        whose = agent or (None if name == "-" else Path(name).stem)
        try:
            outcomes.append((name, examine_response(response_text(_text_of(name)), form=form, agent=whose)))
        except AgentResponseError as error:
            outcomes.append((name, error))
    return outcomes


def _text_of(name: str) -> str:
    try:
        with click.open_file(name, "rb") as file:
            content = bytes(file.read(MAX_FILE_BYTES))
    except OSError as error:
        raise AgentResponseError("the file", str(error.strerror).lower(), "a readable file") from error
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise AgentResponseError(f"byte {error.start}", "invalid UTF-8", "UTF-8 text") from error


def response_text(text: str) -> str:
    """Return the result of the run that a text describes, as JSON document or as lines of events; else the text.

    Raises:
        AgentResponseError: the run failed, or its result is empty.
    """
    result = _result_in(text)
    if result is None:
        return text
    if result.get("result_data") is not None:
        return json.dumps(result["result_data"], ensure_ascii=False)
    if isinstance(result.get("result_text"), str):
        return str(result["result_text"])
    error = result.get("error")
    found = f"a run that ended with {error['type']}: {error['message']}" if error else "an empty result"
    raise AgentResponseError("the result", found, "a run with a result")


def _result_in(text: str) -> dict[str, Any] | None:
    last_line = text.rstrip().rpartition("\n")[2]
    is_json = text.lstrip().startswith("{") and ('"result_' in text or '"event_type"' in last_line)
    for candidate in (text, last_line) if is_json else ():
        with suppress(ValueError, RecursionError):
            document = json.loads(candidate)
            is_result = document.keys() & {"result_data", "result_text"} or document.get("event_type") == "failure"
            return document if is_result and "summary" not in document else None
    return None


def _document(name: str, outcome: Reading | AgentResponseError) -> JsonObject:
    if isinstance(outcome, AgentResponseError):
        problems: list[JsonValue] = [
            {"place": each.place, "found": each.found, "expected": each.expected} for each in outcome.problems
        ]
        return {"file": name, "ok": False, "problems": problems}
    return {
        "file": name,
        "ok": True,
        "form": outcome.form,
        "older": outcome.is_older,
        "repaired": outcome.is_repaired,
        "remarks": [{"kind": each.kind, "place": each.place, "message": each.message} for each in outcome.remarks],
        "response": outcome.response.model_dump(mode="json", exclude_none=True),
    }


def _finish(outcomes: list[Outcome], *kinds: RemarkKind) -> NoReturn:
    """Report problems and remarks on stderr; exit with 1 if a file contains no response."""
    for name, outcome in outcomes:
        if isinstance(outcome, AgentResponseError):
            for problem in outcome.problems:
                _print(f"✗ {name}: {problem.sentence}", "red")
            continue
        for remark in outcome.remarks:
            if remark.kind in (kinds or {RemarkKind.REPAIRED, RemarkKind.PASSED_OVER}):
                _print(f"! {name}: {remark}", "yellow")
    is_refused = any(isinstance(outcome, AgentResponseError) for _, outcome in outcomes)
    sys.exit(int(ExitCode.FAILURE if is_refused else ExitCode.RESULT))


def _print(text: str, colour: str, *, err: bool = True) -> None:
    click.secho(shorten(harmless(text), MAX_SHOWN_CHARACTERS), fg=colour, err=err)
