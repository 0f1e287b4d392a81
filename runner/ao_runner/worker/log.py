"""What a worker says of itself: lines for people on a terminal, JSON for machines, on stderr, with structlog."""

import logging
import sys
from typing import Literal, Protocol, TypeAlias

LogFormat: TypeAlias = Literal["console", "json"]


class Log(Protocol):
    """Takes events, each with what belongs to it."""

    def info(self, event: str, **values: object) -> object:
        """Say what happened as it should."""

    def warning(self, event: str, **values: object) -> object:
        """Say what somebody should look at some time."""

    def error(self, event: str, **values: object) -> object:
        """Say what somebody should look at now."""


def open_log(log_format: LogFormat, *, colours: bool) -> Log:
    """Return a log on stderr."""
    import structlog

    shown: structlog.typing.Processor = structlog.processors.JSONRenderer()
    if log_format == "console":
        shown = structlog.dev.ConsoleRenderer(colors=colours, pad_event_to=0)
    log: Log = structlog.wrap_logger(
        structlog.PrintLogger(sys.stderr),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            shown,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        context_class=dict,
    )
    return log
