"""The attempts of a run at an answer that fits its contract, shown to people and to scripts."""

import json
from collections.abc import Sequence

import click

from ao_protocol.events import OutputValidation
from ao_protocol.rejected_answers import RejectedAnswer
from ao_protocol.wire import JsonObject
from ao_runner.cli.narration import plain_text
from ao_runner.store.records import Run


def show_attempts(
    run: Run, verdicts: Sequence[OutputValidation], rejected: Sequence[RejectedAnswer], *, as_json: bool
) -> None:
    """Print each attempt on stdout: whether its answer fitted, the errors, and the text of a rejected one."""
    attempts = attempts_of(verdicts, rejected)
    if as_json:
        click.echo(json.dumps(attempts, ensure_ascii=False))
    elif not attempts:
        click.echo(f"run {run.run_id} has no validated answer: {_reason(run)}", err=True)
    for attempt in () if as_json else attempts:
        _show(attempt, run.run_id)


def attempts_of(verdicts: Sequence[OutputValidation], rejected: Sequence[RejectedAnswer]) -> list[JsonObject]:
    """Return `attempt`, `valid`, `errors`, `text` and `is_cut` of each attempt. `text` is null where it is not kept.

    A truncated answer has no verdict, and so no errors.
    """
    judged = {verdict.attempt: verdict for verdict in verdicts}
    texts = {answer.attempt: answer for answer in rejected}
    # What the runner refused although its executor had accepted it was judged twice.
    return [
        {
            "attempt": attempt,
            "valid": attempt not in texts and judged[attempt].valid,
            "errors": list(judged[attempt].errors) if attempt in judged else [],
            "text": texts[attempt].text if attempt in texts else None,
            "is_cut": attempt in texts and texts[attempt].is_cut,
        }
        for attempt in sorted({*judged, *texts})
    ]


def _show(attempt: JsonObject, run_id: str) -> None:
    heading = f"attempt {attempt['attempt']}: {'valid' if attempt['valid'] else 'rejected'}"
    click.secho(heading, fg="green" if attempt["valid"] else "red", bold=True)
    errors, text = attempt["errors"], attempt["text"]
    for error in errors if isinstance(errors, list) else ():
        click.echo(f"  {plain_text(str(error))}")
    if attempt["valid"]:
        click.echo(f"  see the answer: ao result {run_id}")
    elif not isinstance(text, str):
        click.echo("  (the answer was not stored)")
    else:
        click.echo("\n".join(f"  | {line}" for line in plain_text(text).splitlines() or [""]))
        if attempt["is_cut"]:
            click.echo("  … (the rest was not stored)")


def _reason(run: Run) -> str:
    if run.ended_at is None:
        return f"it has not ended; follow it with: ao events {run.run_id} --follow"
    return "it has no output schema, or ended before an answer"
