"""The worker's log on stderr, with structlog: short lines for people, JSON for machines.

No line holds a secret. Output of executors is redacted before it comes here; known secrets of this host, and users and
passwords in addresses, are removed from every line.
"""

import json
import logging
import os
import select
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias

from ao_protocol.addresses import without_credentials
from ao_protocol.redaction import NO_SECRETS, Redactor

if TYPE_CHECKING:
    from structlog.typing import Processor

LogFormat: TypeAlias = Literal["console", "json"]

FOR_MACHINES: Final = frozenset(
    {"attempt", "containment", "exit_code", "launched", "level", "outbox", "session_id", "timestamp", "worker"}
)
"""Fields that are not shown to people; `ao result --record` has them."""
_MARKS: Final[Mapping[str, tuple[str, str]]] = {"info": ("·", "2"), "warning": ("!", "33"), "error": ("✗", "31;1")}


class WorkerLog(Protocol):
    """Logs events with their fields."""

    def info(self, event: str, **values: object) -> object:
        """WorkerLog normal progress."""

    def warning(self, event: str, **values: object) -> object:
        """WorkerLog what a person should look at some time."""

    def error(self, event: str, **values: object) -> object:
        """WorkerLog what a person should look at now."""


def open_log(log_format: LogFormat, *, colours: bool, worker: str = "", redactor: Redactor = NO_SECRETS) -> WorkerLog:
    """Return a log on stderr. Every JSON line has the field `worker`."""
    import structlog

    stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)
    shown: Processor = structlog.processors.JSONRenderer()
    if log_format == "console":
        stamp = structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=False)
        shown = _for_people(colours=colours)

    def _redacted(_logger: object, _method: str, line: Any) -> str:  # noqa: ANN401  # structlog's own signature
        return redactor.line(line.encode()).decode() if log_format == "json" else redactor.text(line)

    log: WorkerLog = structlog.wrap_logger(
        _Undaunted(sys.stderr.fileno()),
        processors=[structlog.processors.add_log_level, stamp, _event_first, shown, _redacted],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        context_class=dict,
        worker=worker,
    )
    return log


def log_mishap(log: WorkerLog, sentence: str, run_id: str, error: Exception) -> None:
    """WorkerLog an unexpected error of this program with its traceback."""
    log.error(sentence, run_id=run_id, traceback="".join(traceback.format_exception(error)))


def _event_first(_logger: object, _method: str, values: Any) -> dict[str, Any]:  # noqa: ANN401  # structlog's own
    first = ("timestamp", "level", "event", "worker")
    plain = {name: without_credentials(value) if isinstance(value, str) else value for name, value in values.items()}
    return {name: plain[name] for name in first} | {k: v for k, v in plain.items() if k not in first}


def _for_people(*, colours: bool) -> Callable[[object, str, Any], str]:
    """Return the structlog renderer that makes one aligned line of an event."""

    def paint(text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if colours else text

    def render(_logger: object, _method: str, values: Any) -> str:  # noqa: ANN401  # structlog's own signature
        mark, code = _MARKS.get(values["level"], _MARKS["error"])
        event = _harmless(values["event"])
        told = {name: value for name, value in values.items() if name not in {*FOR_MACHINES, "event"}}
        shown = [
            text if name == "run_id" else f"{paint(name, '2')}={text}"
            for name, value in told.items()
            if (text := _worded(name, value))
        ]
        head = f"{paint(values['timestamp'], '2')} {paint(mark, code)} "
        padded = event.ljust(16) if shown else event
        return f"{head}{paint(padded, code) if values['level'] != 'info' else padded} {' '.join(shown)}".rstrip()

    return render


def _worded(name: str, value: object) -> str:
    """Return a value in a few characters; empty for a value without information."""
    if (
        value is None
        or (name == "problems" and not value)
        or (isinstance(value, float) and name == "queued_seconds" and value < 0.1)
    ):
        return ""
    if name == "profile" and "/" in str(value):
        return _harmless(PurePath(str(value)).stem)
    if name == "seconds" and isinstance(value, dict):
        return f"{value.get('reaped', value.get('terminal', 0.0)):.1f}"
    if isinstance(value, float):
        return f"{value:.1f}"
    if isinstance(value, list | tuple):
        return _harmless(",".join(map(str, value)))
    return _harmless(str(value) if not isinstance(value, dict) else json.dumps(value))[:300]


def _harmless(text: str) -> str:
    """Return the text on one line, without control characters."""
    return "".join(character if character.isprintable() else " " for character in text)


class _Undaunted:
    """Writes lines. If they cannot be written, because the disk is full or the reader is gone, the worker continues.

    Nothing is buffered, because a buffer that Python cannot flush at exit changes the exit code.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._dropped = 0

    def msg(self, message: str) -> None:
        """Write a line."""
        if self._dropped:
            message = f"{message} ({self._dropped} earlier lines were dropped)"
        line = f"{message}\n".encode(errors="backslashreplace")
        try:
            for begin in range(0, len(line), select.PIPE_BUF):
                # A pipe that is ready accepts this many bytes at once. One that is not would block every run.
                if not select.select([], [self._descriptor], [], 0)[1]:
                    self._dropped += 1
                    return
                os.write(self._descriptor, line[begin : begin + select.PIPE_BUF])
        except OSError:
            return
        self._dropped = 0

    info = warning = error = msg
