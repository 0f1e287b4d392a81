"""Whether a result keeps the contract that its executor says to have kept (SPEC 11.4). Pure."""

from ao_protocol.errors import ErrorType
from ao_protocol.events import ErrorInfo, Failure, Result, Terminal
from ao_protocol.output import OutputContract, Problem, problems_of_data
from ao_protocol.places import below

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
        message=f"executor {executor_name} says that its result keeps the output contract, and it does not: {listed}",
        retryable=False,
        side_effects="possible",
        origin="executor",
        validation_errors=problems,
    )
    return Failure(status="failed", error=error, usage=terminal.usage)


def _lies(result: Result, contract: OutputContract) -> list[str]:
    if result.result_text is not None:
        return [str(Problem(below("$", "result_text"), "is there, and a contract wants result_data"))]
    return [str(problem) for problem in problems_of_data(result.result_data, contract.format)]
