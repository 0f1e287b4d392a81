"""`ao response`: show, convert and merge agent responses, also those in an older format."""

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NoReturn, TypeAlias, cast

import click
from pydantic import JsonValue

from ao_protocol.agent_response import (
    AgentResponse,
    AgentResponseError,
    AggregatedResponse,
    Finding,
    Form,
    MergedFinding,
    Reading,
    RemarkKind,
    aggregate,
    examine_response,
    write_response,
)
from ao_protocol.agent_response.model import json_text
from ao_protocol.errors import ExitCode
from ao_protocol.wire import JsonObject
from ao_runner.cli.options import examples, json_option
from ao_runner.cli.printing import counted, echo, escaped_json, plain_text, print_exactly, print_styled, shorten

MAX_FILE_BYTES: Final = 64 * 1024 * 1024
MAX_SHOWN_CHARACTERS: Final = 1000

COLOURS: Final = {"P1": "red", "P2": "yellow", "P3": "cyan"}

_BELOW: Final = " " * 6

ExaminedFile: TypeAlias = tuple[str, Reading | AgentResponseError]

_FILES_ARGUMENT: Final = click.argument("files", nargs=-1, required=True, type=click.Path(allow_dash=True))
_AGENT_OPTION: Final = click.option(
    "--agent", metavar="NAME", help="Agent of a response that does not name one.  [default: the name of its file]"
)


@click.group("response")
def response_command() -> None:
    """Show, convert and merge agent responses.

    A file contains a response as XML, JSON or Markdown, a response in an older format, or the output of
    `ao run --json`, `ao result --json` or `ao events`; `-` is stdin. Exit code 1: a file contains no response.
    """


@response_command.command(epilog=examples("ao response show review.xml", "ao result last | ao response show -"))
@_FILES_ARGUMENT
@json_option("Print JSON, with `ok`, the form and all problems of each file.")
@_AGENT_OPTION
def show(files: tuple[str, ...], as_json: bool, agent: str | None) -> None:
    """Show a summary of each response: agent, summary, findings, results, error."""
    outcomes = _read_files(files, agent)
    if as_json:
        echo(_json([_document(*outcome) for outcome in outcomes]))
    else:
        shown = ["\n".join(response_lines(each.response)) for _, each in outcomes if isinstance(each, Reading)]
        if shown:
            print_styled("\n\n".join(shown))
    _finish(outcomes)


@response_command.command(epilog=examples("ao response convert review.md --to xml", "ao response convert - --to json"))
@click.argument("file", type=click.Path(allow_dash=True))
@click.option("--to", "form", type=click.Choice([form.value for form in Form]), required=True, help="Form to write.")
@_AGENT_OPTION
def convert(file: str, form: str, agent: str | None) -> None:
    """Print the response in FILE in another form, without loss."""
    outcomes = _read_files([file], agent)
    for _, outcome in outcomes:
        if isinstance(outcome, Reading):
            print_exactly(write_response(outcome.response, Form(form)))
    _finish(outcomes)


@response_command.command(
    "aggregate", epilog=examples("ao response aggregate *.xml", "ao response aggregate *.md --json")
)
@_FILES_ARGUMENT
@json_option("Print JSON.")
@_AGENT_OPTION
def merge(files: tuple[str, ...], as_json: bool, agent: str | None) -> None:
    """Merge the responses of several agents: findings by priority, each once, with every agent that reported it."""
    outcomes = _read_files(files, agent)
    merged = aggregate(each.response for _, each in outcomes if isinstance(each, Reading))
    if as_json:
        unread = [_document(name, each) for name, each in outcomes if isinstance(each, AgentResponseError)]
        echo(_json({**merged.model_dump(mode="json", exclude_none=True), "unread": unread}))
    else:
        print_styled("\n".join(aggregate_lines(merged)))
    _finish(outcomes)


def _read_files(files: Iterable[str], agent: str | None) -> list[ExaminedFile]:
    outcomes: list[ExaminedFile] = []
    for name in files:
        try:
            whose = agent or (None if name == "-" else Path(name).stem)
            outcomes.append((name, examine_response(response_text(_text_of(name)), agent=whose)))
        except AgentResponseError as error:
            outcomes.append((name, error))
    return outcomes


def _text_of(name: str) -> str:
    try:
        with click.open_file(name, "rb") as file:
            return bytes(file.read(MAX_FILE_BYTES)).decode("utf-8-sig")
    except OSError as error:
        raise AgentResponseError("the file", str(error.strerror).lower(), "a readable file") from error
    except UnicodeDecodeError as error:
        raise AgentResponseError(f"byte {error.start}", "invalid UTF-8", "UTF-8 text") from error


def response_text(text: str) -> str:
    """Return the result in the output of a run, a JSON document or lines of events; for any other text, the text.

    Raises:
        AgentResponseError: The run failed, or its result is empty.
    """
    last_line = text.rstrip().rpartition("\n")[2]
    is_json = text.lstrip().startswith("{") and ('"result_' in text or '"event_type"' in last_line)
    document: dict[str, Any] = {}
    for candidate in (text, last_line) if is_json else ():
        with suppress(ValueError, RecursionError):
            document = json.loads(candidate)
            break
    is_result = document.keys() & {"result_data", "result_text"} or document.get("event_type") == "failure"
    if not is_result or "summary" in document:
        return text
    if document.get("result_data") is not None:
        return json.dumps(document["result_data"], ensure_ascii=False)
    if isinstance(document.get("result_text"), str):
        return str(document["result_text"])
    error = document.get("error")
    found = f"a run that ended with {error['type']}: {error['message']}" if error else "an empty result"
    raise AgentResponseError("the result", found, "a run with a result")


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


def _finish(outcomes: list[ExaminedFile]) -> NoReturn:
    """Report problems and remarks on stderr; exit with 1 if a file contains no response."""
    exit_code = ExitCode.RESULT
    for name, outcome in outcomes:
        if isinstance(outcome, AgentResponseError):
            exit_code = ExitCode.FAILURE
            lines, colour = [f"✗ {name}: {problem.sentence}" for problem in outcome.problems], "red"
        else:
            told = {RemarkKind.REPAIRED, RemarkKind.PASSED_OVER}
            lines, colour = [f"! {name}: {remark}" for remark in outcome.remarks if remark.kind in told], "yellow"
        for line in lines:
            echo(shorten(line, MAX_SHOWN_CHARACTERS), fg=colour, err=True)
    sys.exit(int(exit_code))


def _json(value: Mapping[str, object] | Sequence[JsonObject]) -> str:
    return escaped_json(json_text(cast("JsonValue", value)))  # needed because lists and dicts are invariant


def response_lines(response: AgentResponse) -> Iterator[str]:
    """Yield a summary of a response: agent and summary, findings, results, error."""
    yield f"{click.style(_line(response.agent), bold=True)}  {_line(response.summary)}"
    for finding in response.findings:
        yield from _finding(finding)
    if response.results is not None:
        yield from _part("files", (_beside(_line(file.path), file.relevance) for file in response.results.files))
        yield from _part("answer", _lines(response.results.answer))
    yield from _part("error", _lines(response.error), "red")
    yield from _part("its own", _lines(", ".join(response.agent_specific or ())))


def aggregate_lines(merged: AggregatedResponse) -> Iterator[str]:
    """Yield a summary of several responses: one line for each, then findings by priority, then the rest."""
    counts = Counter[str](finding.priority for finding in merged.findings)
    styled = [click.style(f"{counts[each]} {each}", fg=colour) for each, colour in COLOURS.items() if counts[each]]
    by_priority = f" ({', '.join(styled)})" if styled else ""
    yield f"{counted(len(merged.summaries), 'response')}, {counted(len(merged.findings), 'finding')}{by_priority}"
    yield from (f"  {_beside(_agent(summary.agent), summary.text)}" for summary in merged.summaries)
    yield ""
    for finding in merged.findings:
        yield from _finding(finding, finding.agents)
    yield from _part("files", (_beside(_line(each.path), each.relevance) + _by(each.agents) for each in merged.files))
    yield from _part("answers", (_beside(_agent(answer.agent), answer.text) for answer in merged.answers))
    yield from _part("errors", (_beside(_agent(error.agent), error.text) for error in merged.errors), "red")
    yield from _part("their own", (_beside(_agent(own.agent), ", ".join(own.value)) for own in merged.agent_specific))


def _finding(finding: Finding | MergedFinding, agents: Sequence[str] = ()) -> Iterator[str]:
    priority = click.style(finding.priority, fg=COLOURS[finding.priority], bold=True)
    location = f"{click.style(_line(finding.location), fg='blue')}  " if finding.location else ""
    yield f"  {priority}  {location}{_line(finding.issue)}{_by(agents)}"
    yield from (f"{_BELOW}{line}" for line in _lines(finding.rationale))
    for number, line in enumerate(_lines(finding.suggestion)):
        yield f"{_BELOW}{'  ' if number else '→ '}{line}"


def _part(heading: str, lines: Iterable[str], colour: str | None = None) -> Iterator[str]:
    for number, line in enumerate(lines):
        if number == 0:
            yield f"  {click.style(heading, fg=colour, dim=colour is None)}"
        yield f"{_BELOW}{line}"


def _agent(name: str) -> str:
    return click.style(_line(name), bold=True)


def _by(agents: Sequence[str]) -> str:
    return click.style(f"  ({', '.join(map(_line, agents))})", dim=True) if agents else ""


def _beside(name: str, text: str) -> str:
    return f"{name}  {_line(text)}" if text else name


def _lines(text: str | None) -> Iterator[str]:
    yield from filter(None, map(_line, (text or "").split("\n")))


def _line(text: str) -> str:
    return " ".join(plain_text(text).split())
