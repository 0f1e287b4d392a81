"""The terms of a run: what an invocation says of how it is performed, whatever it asks."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

DEFAULT_CANCEL_GRACE_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Terms:
    """Limits and control of a run, in the toolkit's own words. None is a limit that is not set.

    `listens` says whether control lines follow on stdin, and `takes_turns` whether `turn` lines may be among them;
    `has_mcp_programs` whether the blueprint has MCP servers that are programs to be started.
    """

    schema_version: str
    timeout_seconds: float | None = None
    heartbeat_interval_seconds: float | None = None
    cancel_grace_seconds: float = DEFAULT_CANCEL_GRACE_SECONDS
    max_event_bytes: int | None = None
    listens: bool = False
    takes_turns: bool = False
    has_mcp_programs: bool = False


def terms_from(schema_version: str, limits: Mapping[str, Any], control: Mapping[str, Any]) -> Terms:
    """Return the terms that an invocation's `limits` and `control` lay down; both have been checked."""
    listens = control.get("stdin") == "open"
    return Terms(
        schema_version,
        timeout_seconds=_seconds(limits, "timeout_seconds"),
        heartbeat_interval_seconds=_seconds(limits, "heartbeat_interval_seconds"),
        cancel_grace_seconds=_seconds(limits, "cancel_grace_seconds") or DEFAULT_CANCEL_GRACE_SECONDS,
        max_event_bytes=limits.get("max_event_bytes"),
        listens=listens,
        takes_turns=listens and control.get("turns") is True,
    )


def _seconds(limits: Mapping[str, Any], name: str) -> float | None:
    given = limits.get(name)
    return None if given is None else float(given)
