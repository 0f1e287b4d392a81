"""What a process does that was started before there is anything to do: it imports what its run will need (SPEC 10).

Nothing is said, and neither network, credentials nor the workspace are touched.
"""

import os
from contextlib import suppress
from functools import partial
from typing import Final

from ao_executors.core.executor import Executor
from ao_executors.core.stdio import Stdio
from ao_protocol.framing import decode_object

_REHEARSED: Final = (
    b'{"schema_version":"3.0","mode":"start","run_id":"run_0","session_id":"ses_0","parameters":{"prompt":"-"},'
    b'"output_schema":{"type":"object"}}'
)
"""An invocation with a contract, since contracts are what costs most to check for the first time."""


def warm_up(executor: Executor, stdio: Stdio) -> None:
    """Import, as long as nothing has come on stdin: first the toolkit, then what the executor itself wants.

    What cannot be imported is no fault yet: the run that needs it will say so.
    """
    with suppress(ImportError):
        for prepare_for_work in (partial(_rehearse, executor), executor.warm_up):
            if prepare_for_work is not None and stdio.is_silent:
                prepare_for_work()


def _rehearse(executor: Executor) -> None:
    """Read an invocation and throw it away: what is imported late, or made at the first use, is there then."""
    import ao_executors.core.contract_keeping
    import ao_executors.core.conversation
    import ao_executors.core.runs  # noqa: F401
    import ao_protocol.documents  # noqa: F401
    from ao_executors.core.emitter import Emitter
    from ao_executors.core.failures import RunFailed
    from ao_executors.core.task_from_invocation import prepare
    from ao_protocol.contracts import Enforcement
    from ao_protocol.events import Log

    secrets = [os.environ.get(name, "") for name in executor.secrets]
    nobody = Emitter(lambda _: None, run_id=None, session_id=None, secrets=secrets)
    nobody.emit(Log(level="debug", message="-"))
    with suppress(RunFailed):
        task = prepare(executor, decode_object(_REHEARSED), nobody)
        if task.contract is not None:
            Enforcement(task.contract).judge('Here: {"a": "b"}')
