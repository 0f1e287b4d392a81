"""Check an answer to an `input_requested` event, and tell its outcome (SPEC 8.3).

Executors check the `input_response` lines that they read, and runners check the answers of people before they send
them. Requests and answers are wire fields: no pydantic models are imported.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ao_protocol.json_words import shown

if TYPE_CHECKING:
    from pydantic import JsonValue


@dataclass(frozen=True, slots=True)
class Resolution:
    """The end of a request.

    Args:
        outcome: `accepted`, `declined`, `cancelled` or `expired`.
        by: `person`, `policy` or `timeout`.
        option_id: The option that applies; None if none does.
        value: The value of an accepted answer; None if the request takes none.
    """

    outcome: str
    by: str
    option_id: str | None = None
    value: "JsonValue" = None

    def to_fields(self, request_id: str) -> "dict[str, JsonValue]":
        """Return the fields of the `input_resolved` event. It does not contain the value, which may be a secret."""
        fields: dict[str, JsonValue] = {"request_id": request_id, "outcome": self.outcome, "by": self.by}
        return fields if self.option_id is None else {**fields, "option_id": self.option_id}


class InvalidAnswer(ValueError):
    """An answer that does not fit its request. The message says what was found and what was expected."""


def resolution_of(request: Mapping[str, Any], response: Mapping[str, Any]) -> Resolution:
    """Return how a response resolves an open request.

    Args:
        request: The fields of the `input_requested` event.
        response: The fields of the `input_response` line: `option_id`, `value`, `outcome`, `by`, each optional.

    Returns:
        The resolution. That of an expired request has the request's `default` as its option, if it has one.

    Raises:
        InvalidAnswer: The option does not exist or contradicts the outcome, the value does not match the schema, or
            the response chooses nothing.
    """
    options = options_of(request)
    chosen, outcome, by = response.get("option_id"), response.get("outcome"), response.get("by") or "person"
    if chosen is not None and chosen not in options:
        raise InvalidAnswer(f"option_id is {shown(chosen)}; expected {_either(options)}")
    if outcome in {"cancelled", "expired"}:
        if chosen is not None:
            raise InvalidAnswer(f"outcome is {outcome} and option_id is {shown(chosen)}; expected only one of them")
        return Resolution(outcome, by, default_of(request) if outcome == "expired" else None)
    declines = chosen is not None and options[chosen]["effect"] == "deny"
    natural = "declined" if declines else "accepted"
    if outcome is not None and outcome != natural and (chosen is not None or outcome != "declined"):
        raise InvalidAnswer(f"outcome is {outcome}, and option_id is {shown(chosen)}, which means {natural}")
    if declines or outcome == "declined":
        return Resolution("declined", by, chosen)
    return Resolution("accepted", by, chosen, _checked_value(request, chosen, response.get("value")))


def options_of(request: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the options of a request by their `id`; of two with the same `id` the first."""
    options: dict[str, Mapping[str, Any]] = {}
    for option in request.get("options") or []:
        options.setdefault(option["id"], option)
    return options


def default_of(request: Mapping[str, Any]) -> str | None:
    """Return the `id` of the option that applies if nobody answers; None if the request then counts as denied."""
    option = options_of(request).get(request.get("default") or "")
    return None if option is None or option["effect"] == "allow" else str(option["id"])


def _checked_value(request: Mapping[str, Any], chosen: str | None, value: "JsonValue") -> "JsonValue":
    schema = request.get("schema")
    if schema is None:
        if value is not None:
            raise InvalidAnswer("value is set, and the request takes none; expected an option_id alone")
        if chosen is None:
            raise InvalidAnswer(f"option_id is missing; expected {_either(options_of(request))}")
        return None
    if value is None and chosen is not None:
        return None
    from ao_protocol.contracts import validate  # needed for few runs

    problems = validate(value, schema)
    if problems:
        raise InvalidAnswer(f"value does not match the schema: {'; '.join(map(str, problems))}")
    return value


def _either(options: Mapping[str, object]) -> str:
    return f"one of {', '.join(options)}" if options else "no option, but a value"
