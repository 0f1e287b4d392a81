"""The toolkit for executors in Python: it handles stdin, stdout, signals, output contracts and exit codes.

An executor is a function from a `Task` to a result; `serve` makes a program of it. The public API is the names in
`__all__`, and `ao_executors.core.program` for executors that start programs. The other modules are internal and change
without notice. Importing this package is cheap: it imports no heavy module before it writes `run_started`. A run with
only a prompt imports nothing but the event loop afterwards.
"""

from ao_executors.core.conversation import converse, hold_conversation
from ao_executors.core.emitter import Emitter, EventTooLarge
from ao_executors.core.executor import (
    Answer,
    Connection,
    Executor,
    Findings,
    Model,
    Perform,
    RunContext,
    RunFailed,
    RunLimits,
    Task,
    TextResult,
)
from ao_executors.core.inputs import ALLOW_OR_DENY, UNANSWERED, InputOption, InputRequest, Inputs
from ao_executors.core.message_stream import MessageStream
from ao_executors.core.serve import serve
from ao_executors.core.stdio import NobodyReads

__all__ = [
    "ALLOW_OR_DENY",
    "UNANSWERED",
    "Answer",
    "Connection",
    "Emitter",
    "EventTooLarge",
    "Executor",
    "Findings",
    "InputOption",
    "InputRequest",
    "Inputs",
    "MessageStream",
    "Model",
    "NobodyReads",
    "Perform",
    "RunContext",
    "RunFailed",
    "RunLimits",
    "Task",
    "TextResult",
    "converse",
    "hold_conversation",
    "serve",
]
