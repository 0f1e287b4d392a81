"""Whether a result keeps the contract that its executor says to have kept (SPEC 11.4)."""

from collections.abc import Callable, Iterator

from ao_protocol.contracts import OutputContract, Problem, problems_of_data
from ao_protocol.errors import ErrorType
from ao_protocol.events import ErrorInfo, Failure, Result, Terminal
from ao_protocol.json_path import below
from ao_runner.processes.calls import CallNotFinished, call_apart

JUDGING_SECONDS = 10.0
"""How long another process may judge one answer."""
_SHOWN_PROBLEMS = 3


def verified(terminal: Terminal, contract: OutputContract, executor_name: str) -> Terminal:
    """Return the terminal event, or the failure that a result means which does not keep its contract."""
    problems = _lies(terminal, contract) if isinstance(terminal, Result) else []
    if not problems:
        return terminal
    more = len(problems) - _SHOWN_PROBLEMS
    listed = "; ".join(problems[:_SHOWN_PROBLEMS]) + (f"; and {more} more" if more > 0 else "")
    error = ErrorInfo(
        type=ErrorType.PROTOCOL_VIOLATION,
        message=f"executor {executor_name} claims that its result fits the output contract, but it does not: {listed}",
        retryable=False,
        side_effects="possible",
        origin="executor",
        validation_errors=problems,
    )
    return Failure(status="failed", error=error, usage=terminal.usage)


async def verified_apart(result: Result, verify: Callable[[Terminal], Terminal]) -> Terminal:
    """Return what `verify` does, called in another process."""
    try:
        return await call_apart(JUDGING_SECONDS, verify, result)
    except CallNotFinished as error:
        info = ErrorInfo(
            type=ErrorType.PROTOCOL_VIOLATION,
            message=f"the result could not be verified by its output contract: {error}; give a shorter result",
            retryable=False,
            side_effects="possible",
            origin="executor",
        )
        return Failure(status="failed", error=info, usage=result.usage)


def _lies(result: Result, contract: OutputContract) -> list[str]:
    if result.result_text is not None:
        return [str(Problem(below("$", "result_text"), "is present, but a contract requires result_data"))]
    problems = [*_false_claims(result, contract), *problems_of_data(result.result_data, contract.format)]
    return [str(problem) for problem in problems]


def _false_claims(result: Result, contract: OutputContract) -> Iterator[Problem]:
    output = result.output
    if output is None:
        yield Problem("$.output", "is missing, and a result under a contract has it")
        return
    if output.schema_source != contract.source:
        yield Problem("$.output.schema_source", f"expected {str(contract.source)!r}, found {output.schema_source!r}")
    if output.retry_count > contract.max_retries:
        yield Problem("$.output.retry_count", f"expected at most {contract.max_retries}, found {output.retry_count}")
