"""Requests to a person: asked, answered, parked, and never left open (SPEC 8.3)."""

from collections.abc import Mapping
from typing import Any

from control import Control
from errors import RunFailed
from events import Emitter
from json_schema import problems_of
from watch import Watch

OUTCOMES = {"accepted", "declined", "cancelled", "expired"}
GIVERS = {"person", "policy", "timeout"}
QUESTION = {
    "request_id": "ask_1",
    "kind": "question",
    "title": "May the run go on?",
    "options": [
        {"id": "yes", "label": "Yes", "effect": "allow"},
        {"id": "always", "label": "Yes, in this session", "effect": "allow", "scope": "session"},
        {"id": "no", "label": "No", "effect": "deny"},
    ],
    "schema": {"type": "string"},
}
PERMISSIONS = [
    {"id": "allow", "label": "Allow once", "effect": "allow"},
    {"id": "deny", "label": "Deny", "effect": "deny"},
]


class Requests:
    """Asks during the runs of a process; `is_parked` says that the run ended with a request open."""

    def __init__(self, emitter: Emitter, watch: Watch, control: Control) -> None:
        self._emitter, self._watch, self._control = emitter, watch, control
        self._given: dict[str, dict[str, Any]] = {}
        self.is_parked = False

    def begin(self, given: list[dict[str, Any]]) -> None:
        """Begin another run, whose invocation has these answers."""
        self._given = {answer["request_id"]: answer for answer in reversed(given)}
        self.is_parked = False

    @property
    def is_open(self) -> bool:
        """Say whether answers will come."""
        return self._control.takes_input

    def ask(self, request: dict[str, Any]) -> str:
        """Return the outcome of a request.

        Raises:
            RunFailed: the run was ended or parked while the request was open.
        """
        self._control.forget_answers()
        self._emitter.emit("input_requested", **request)
        try:
            resolved = self._answer(request)
        except RunFailed:
            self._emitter.emit("input_resolved", request_id=request["request_id"], outcome="cancelled", by="policy")
            raise
        self._emitter.emit("input_resolved", request_id=request["request_id"], **resolved)
        if self.is_parked:
            message = f"the run waits for an answer to {request['request_id']}; resume it with input_responses"
            raise RunFailed("input_required", message, details={"requests": [request]})
        return str(resolved["outcome"])

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        given = self._given.pop(request["request_id"], {})
        resolved = resolution_of(request, given) if given else None
        while resolved is None:
            if not self._control.has_answers():
                self._watch.attend({}, "input", is_enough=self._control.has_answers)
            said = self._control.answers.popleft()
            if said["type"] == "park":
                self.is_parked = True
                resolved = {"outcome": "expired", "by": "timeout"}
            elif said["request_id"] == request["request_id"]:
                resolved = resolution_of(request, said)
        return resolved


def resolution_of(request: dict[str, Any], said: dict[str, Any]) -> dict[str, Any] | None:
    """Return how an answer resolves a request, or None where it is not valid."""
    options = {option["id"]: option["effect"] for option in reversed(request["options"])}
    chosen, outcome, by = said.get("option_id"), said.get("outcome"), said.get("by", "person")
    if by not in GIVERS or (outcome is not None and outcome not in OUTCOMES):
        return None
    if chosen is not None and chosen not in options:
        return None
    if outcome in {"cancelled", "expired"}:
        return None if chosen is not None else {"outcome": outcome, "by": by}
    effect = "declined" if options.get(chosen) == "deny" or (chosen is None and outcome == "declined") else "accepted"
    if outcome not in {None, effect}:
        return None
    if effect == "accepted" and not _is_value(request.get("schema"), said.get("value"), is_needed=chosen is None):
        return None
    return {"outcome": effect, "by": by} | ({"option_id": chosen} if chosen is not None else {})


def _is_value(schema: dict[str, Any] | None, value: Any, *, is_needed: bool) -> bool:
    if schema is None:
        return value is None and not is_needed
    return (value is None and not is_needed) or not problems_of(schema, value)


def ask_as_told(environment: Mapping[str, str], requests: Requests) -> None:
    """Ask before the work, where `AO_CONFORM_ASK` is 1 and answers will come."""
    if environment.get("AO_CONFORM_ASK") == "1" and requests.is_open:
        requests.ask(QUESTION)
