"""`describe` and `check`: what an executor says without performing a run (SPEC 7)."""

import sys
from collections.abc import Callable

from ao_executors.core.executor import Executor
from ao_protocol.documents import Description
from ao_protocol.errors import ExitCode
from ao_protocol.framing import encode_line


def describe(executor: Executor) -> ExitCode:
    """Print the description as one line of JSON."""
    sys.stdout.write(encode_line(description_of(executor).model_dump(mode="json", exclude_none=True)).decode())
    return ExitCode.RESULT


def description_of(executor: Executor) -> Description:
    """Return the executor's description, checked."""
    identity = {"name": executor.name, "version": executor.version}
    return Description.model_validate({**executor.description, "executor": identity})


def check(find_problems: Callable[[], list[str]]) -> ExitCode:
    """Print what is missing for a run, as one line of JSON; nothing is spent on a model."""
    problems = find_problems()
    sys.stdout.write(encode_line({"ok": not problems, "problems": problems}).decode())
    return ExitCode.FAILURE if problems else ExitCode.RESULT
