"""What became of the answers of a run: whether they were valid, and the rejected ones."""

from collections.abc import Sequence

from ao_protocol.events import OutputValidation, Result, Terminal
from ao_protocol.rejected_answers import RejectedAnswer
from ao_protocol.wire import JsonObject
from ao_runner.store.records import Run


def validation_of(terminal: Terminal, run: Run, verdicts: int) -> JsonObject:
    """Return `validated_output` and `schema_validation` of a run that has ended; nothing if no answer was validated.

    `verdicts` is the number of its `output_validation` events.
    """
    kept = terminal.output if isinstance(terminal, Result) else None
    if kept is None and not verdicts:
        return {}
    retries = verdicts - 1 if kept is None else kept.retry_count
    name = (run.contract or {}).get("schema_name")
    return {
        "validated_output": None if kept is None else terminal.result_data,
        "schema_validation": {"valid": kept is not None, "schema_name": name, "retry_count": retries},
    }


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
