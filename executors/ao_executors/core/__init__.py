"""The toolkit that executors are made with: stdin, stdout, signals, contracts and exit codes are taken care of.

An executor is a function from a `Task` to a `Result`; `serve` makes a program of it. Nothing heavy is imported
until `run_started` is out, and nothing but the event loop by a run that plainly asks a prompt.
"""

from ao_executors.core.executor import Answer, Executor, Model, converse
from ao_executors.core.failures import RunFailed
from ao_executors.core.serve import serve

__all__ = ["Answer", "Executor", "Model", "RunFailed", "converse", "serve"]
