"""What all runs of an executor process share, and how each of them begins and ends on the wire."""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from ao_executors.core.cancellation import Cancellation
from ao_executors.core.emitter import Emitter
from ao_executors.core.executor import Executor
from ao_executors.core.failures import RunFailed
from ao_executors.core.stdio import NobodyReads, Stdio
from ao_protocol.errors import ExitCode
from ao_protocol.identifiers import is_identifier
from ao_protocol.version import announced_version

if TYPE_CHECKING:
    from pydantic import JsonValue


@dataclass(slots=True)
class Process:
    """An executor at work. `events` are those of the current run, or of the last one.

    `leave` ends the process at once. It may be called from a signal handler.
    """

    executor: Executor
    stdio: Stdio
    cancellation: Cancellation
    leave: Callable[[ExitCode], NoReturn]
    events: Emitter

    def say_started(self, document: Mapping[str, object]) -> None:
        """Write `run_started` for an invocation, which may be one that will be refused (SPEC AOX-090).

        Raises:
            NobodyReads: the other end is closed.
        """
        identity = {"name": self.executor.name, "version": self.executor.version}
        started = {"schema_version": str(announced_version(document)), "executor": identity}
        self.events.emit_fields("run_started", started)

    def begin_turn(self, run_id: str, schema_version: str) -> None:
        """Begin another run in the same session.

        Raises:
            NobodyReads: the other end is closed.
        """
        self.events = self.events.for_next_run(run_id)
        self.say_started({"schema_version": schema_version})

    def fail(self, failure: RunFailed) -> ExitCode:
        """End the current run with a `failure`, if it has not ended, and return the exit code that agrees."""
        with suppress(NobodyReads):
            self.events.end("failure", failure.to_fields(self.events.side_effects))
        return failure.exit_code

    def give_up(self, failure: RunFailed) -> NoReturn:
        """End the current run with a `failure`, and the process at once."""
        self.leave(self.fail(failure))


def events_for(executor: Executor, stdio: Stdio, document: "dict[str, JsonValue] | None") -> Emitter:
    """Return the emitter of an invocation's run; None is an invocation that could not be read (SPEC AOX-043).

    A name that is longer than names may be is null on the events: it could be longer than they may be.
    """
    secrets = [os.environ.get(name, "") for name in executor.secrets]
    if document is None:
        return Emitter(stdio.write, run_id=None, session_id=None, secrets=secrets)
    return Emitter(
        stdio.write,
        run_id=_identifier(document.get("run_id"), "run_"),
        session_id=_identifier(document.get("session_id"), "ses_"),
        secrets=secrets,
    )


def _identifier(given: object, prefix: str) -> str | None:
    if not isinstance(given, str) or not given:
        return prefix + os.urandom(12).hex()
    return given if is_identifier(given) else None
