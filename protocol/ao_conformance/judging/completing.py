"""Events of core level as whole ones (SPEC 5.2): every other rule looks at what a coordinator would receive."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from ao_protocol.lifecycle import KnownOfRun, complete_event

TERMINAL: Final = frozenset({"result", "failure"})
NAMES: Final = ("run_id", "session_id")


@dataclass(frozen=True, slots=True)
class Asked:
    """What the suite knows of the runs of a process, as a runner does."""

    runs: tuple[str | None, ...]
    """Their `run_id`s as they were sent, the invocation's and those of turns; None where there was none."""
    session_id: str | None
    executor: Mapping[str, str]
    schema_version: str
    names_are_known: bool = True
    """Whether the executor could read the names, or has to make those that were not sent; else they are null."""
    began_clock: float = 0.0


class Completing:
    """The events of one process, one after another."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._run = 0
        self._seq = 0
        self._has_ended = False
        self._open_tools: dict[str, str] = {}

    def complete(self, document: Mapping[str, Any], seconds: float) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Return the whole event, and the paths of the fields that it lacks at standard."""
        kind = document.get("event_type")
        if self._has_ended and kind == "run_started":
            self._run, self._seq, self._has_ended = self._run + 1, 0, False
            self._open_tools.clear()
        told = datetime.fromtimestamp(self._asked.began_clock + seconds, UTC)
        written = dict(document)
        whole = dict(
            complete_event(
                written,
                self._known(),
                seq=self._seq + 1,
                timestamp=told.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
                open_tools=self._open_tools,
            )
        )
        if kind == "result":  # without an answer nothing is added, and only that is to be told
            whole.setdefault("stop_reason", "end_turn")
        absent = _absent(written, whole)
        for name in NAMES if self._asked.names_are_known else ():
            if name in absent and whole[name] is None:
                del whole[name]
        self._note(whole)
        return whole, absent

    def _known(self) -> KnownOfRun:
        runs = self._asked.runs
        run_id = runs[self._run] if self._run < len(runs) else None
        return KnownOfRun(run_id, self._asked.session_id, self._asked.executor, self._asked.schema_version)

    def _note(self, whole: Mapping[str, Any]) -> None:
        seq, kind, call = whole.get("seq"), whole.get("event_type"), str(whole.get("tool_call_id"))
        self._seq = seq if isinstance(seq, int) else self._seq + 1
        self._has_ended = self._has_ended or kind in TERMINAL
        if kind == "tool_started":
            self._open_tools[call] = str(whole.get("tool_name"))
        elif kind == "tool_finished":
            self._open_tools.pop(call, None)


def _absent(written: Mapping[str, Any], whole: Mapping[str, Any]) -> tuple[str, ...]:
    error, whole_error = written.get("error"), whole.get("error")
    of_error = whole_error.keys() - error.keys() if isinstance(error, dict) and isinstance(whole_error, dict) else ()
    return (*sorted(whole.keys() - written.keys()), *(f"error.{name}" for name in sorted(of_error)))
