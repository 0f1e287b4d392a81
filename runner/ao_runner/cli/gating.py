"""`--fail-on`, `--fail-if` and `--verdict`: whether a result may count, told by the exit code and in a file for CI."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import click

from ao_protocol.events import Result, Terminal
from ao_runner.cli.options import RunArguments, together
from ao_runner.cli.printing import echo, shorten
from ao_runner.errors import RunnerError
from ao_runner.runs.outcome import exit_code_of
from ao_runner.store.records import Run
from ao_runner.store.store import Store

if TYPE_CHECKING:
    from ao_runner.runs.expressions import Expression
    from ao_runner.runs.gate import Reason

KINDS: Final = ("denied", "unfinished")
EXIT_REFUSED: Final = 3
"""The exit code of a run with a result that its gate refuses. No terminal event means it."""
MAX_REASON_CHARACTERS: Final = 400
_FAIL_ON: Final = "Exit with 3 in place of 0 if a call was denied, or work was left unfinished: one or both."
_FAIL_IF: Final = "Exit with 3 in place of 0 unless this JMESPath expression over the answer is false. Repeatable."
_VERDICT: Final = "Write the end of the run to a JSON file: verdict, exit code, reasons, terminal event."


class VerdictLost(RunnerError):
    """The verdict cannot be made, or not be written."""

    exit_code = 1


def _kinds(_context: click.Context, _option: click.Parameter, given: tuple[str, ...]) -> frozenset[str]:
    found = frozenset(name.strip() for text in given for name in text.split(","))
    if unknown := sorted(found - set(KINDS)):
        raise click.BadParameter(f"{unknown[0]!r}; expected {' or '.join(KINDS)}, or both: {','.join(KINDS)}")
    return found


def _parsed(text: str) -> "Expression":
    from ao_runner.runs.expressions import Expression, NoExpression

    try:
        return Expression.parse(text)
    except NoExpression as error:
        raise click.BadParameter(str(error)) from error


gate_options: Final = together(
    click.option("--fail-on", multiple=True, metavar="denied,unfinished", callback=_kinds, help=_FAIL_ON),
    click.option("--fail-if", multiple=True, metavar="EXPRESSION", type=_parsed, help=_FAIL_IF),
    # It is emptied at once, so that what an earlier run has left there is never taken for the verdict of this one.
    click.option("--verdict", type=click.File("w", "utf-8", lazy=False), metavar="FILE", help=_VERDICT),
)


def conclude(given: RunArguments, terminal: Terminal, run: Run, store: Store) -> int:
    """Return the exit code of a run that has ended. Show what its gate has against its result, and write the verdict.

    Raises:
        VerdictLost: The events of the run cannot be read, or the verdict cannot be written.
    """
    code, reasons, file = int(exit_code_of(terminal)), list["Reason"](), given.get("verdict")
    if isinstance(terminal, Result) and (given.get("fail_on") or given.get("fail_if")):
        reasons = list(_reasons_against(given, terminal, run, store))
    if reasons:
        code = EXIT_REFUSED
        echo(f"✗ the gate refuses the result of {run.run_id} (exit code {code}):", fg="red", bold=True, err=True)
        for one in reasons:
            kind = one.kind.replace("fail_if", "--fail-if")
            echo(f"    {kind}: {shorten(one.message, MAX_REASON_CHARACTERS)}", err=True)
    if file is not None:
        verdict = "passed" if code == 0 else "refused" if reasons else "failed"
        ids, told = {"run_id": run.run_id, "session_id": run.session_id}, [asdict(one) for one in reasons]
        event = json.loads(store.events.last_line(run.run_id) or "null")
        document = {"verdict": verdict, "exit_code": code, "reasons": told, **ids, "event": event}
        try:
            file.write(json.dumps(document, indent=2) + "\n")
            file.flush()
        except OSError as error:
            raise VerdictLost(f"--verdict {file.name} cannot be written: {error.strerror}") from error
    return code


def _reasons_against(given: RunArguments, result: Result, run: Run, store: Store) -> "Iterator[Reason]":
    from ao_runner.runs.gate import Reason, reasons_in, verdict_of
    from ao_runner.store.run_filter import RunFilter

    found = reasons_in(_events_of(run, store))
    children = RunFilter(statuses=("queued", "running"), equal={"parent_session_id": run.session_id})
    for child in store.runs.search(children):
        found.append(Reason("unfinished", f"the run {child.run.run_id}, which the agent has started, has not ended"))
    yield from (one for one in found if one.kind in given["fail_on"])
    answer = result.result_data if result.result_text is None else result.result_text
    yield from filter(None, (verdict_of(expression, answer) for expression in given["fail_if"]))


def _events_of(run: Run, store: Store) -> Iterator[dict[str, Any]]:
    count = 0
    for event in store.events.of_session(run.session_id, run_id=run.run_id):
        count += 1
        yield json.loads(event.line)
    if count != store.events.last_seq(run.run_id):
        raise VerdictLost("the events of the run cannot be read whole, so its gate cannot decide; see `ao doctor`")
