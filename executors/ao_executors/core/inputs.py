"""Ask a person during a run: `task.inputs` (SPEC 8.3).

Internal, except for the names that `ao_executors.core` exports.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from ao_executors.core.emitter import Emitter

if TYPE_CHECKING:  # imports pydantic, which a run without a request does not need
    import asyncio

    from pydantic import JsonValue

    from ao_protocol.input_answers import Resolution

UNANSWERED: Final = "nobody answered in time"
"""The reason of a denial that no person decided, for the `error` of a `tool_finished`."""


_WIRE_FIELDS: Final = ("request_id", "kind", "title", "schema", "default", "tool_call_id", "tool_input")
_DENIED: Final = "the user denied this call"


def denial_of(resolution: "Resolution") -> str:
    """Return why a call is not allowed, by the resolution of its request."""
    return {"declined": _DENIED, "expired": UNANSWERED}.get(resolution.outcome, "the request was cancelled")


@dataclass(frozen=True, slots=True)
class InputOption:
    """One possible answer.

    Args:
        id: Its name, unique in the request.
        label: Its text for the person.
        effect: Whether it allows or denies what waits, or does something else.
        scope: `session` if the answer also applies to later requests of its kind.
    """

    id: str
    label: str
    effect: Literal["allow", "deny", "other"]
    scope: Literal["once", "session"] = "once"


ALLOW_OR_DENY: Final = (InputOption("allow", "Allow once", "allow"), InputOption("deny", "Deny", "deny"))


@dataclass(frozen=True, slots=True)
class InputRequest:
    """A request for a decision or a value. It has options, a schema or both.

    Args:
        request_id: Its name, unique in the run. An executor that can park gives the same name when it asks again in a
            later run.
        kind: `permission` for the use of a tool, `question` for anything else, or another kind.
        title: One line for the person.
        options: The possible answers.
        schema: JSON Schema Draft-7 of a value; None if the request takes none.
        default: The id of the option that applies if nobody answers; its effect is not `allow`.
        tool_call_id: The id of the tool call that waits.
        tool_input: Its exact input, as JSON.
        can_park: Returns whether a resume could continue the run at this request. If not, `park` lets it expire, and
            the run goes on.
    """

    request_id: str
    kind: str
    title: str
    options: Sequence[InputOption] = ()
    schema: "Mapping[str, JsonValue] | None" = None
    default: str | None = None
    tool_call_id: str | None = None
    tool_input: object = None
    can_park: Callable[[], bool] = lambda: True

    def to_fields(self) -> dict[str, Any]:
        """Return the fields of the `input_requested` event."""
        fields = {name: getattr(self, name) for name in _WIRE_FIELDS} | {
            "options": [*map(asdict, self.options)] or None
        }
        return {name: value for name, value in fields.items() if value is not None}


@dataclass(eq=False)
class Inputs:
    """The requests of one run.

    Args:
        is_open: Whether every request will be answered (`control.input`). If not, decide by a policy, without `ask`.
        given: The `input_responses` of the invocation, by `request_id`; those that are used are taken out.
        when_parked: Called once when the run is parked.
        parked: The fields of the requests that were open when the run was parked. Its work then ends, so that a resume
            can continue it.
    """

    _events: Emitter
    is_open: bool
    given: dict[str, dict[str, Any]]
    when_parked: Callable[[], None] = lambda: None
    parked: list[dict[str, Any]] = field(default_factory=list)
    _waiting: "dict[str, tuple[InputRequest, asyncio.Future[Resolution]]]" = field(default_factory=dict)

    async def ask(self, request: InputRequest) -> "Resolution":
        """Emit a request, wait for its answer, and emit that it is resolved.

        A run that ends while it waits has its requests resolved as `cancelled`, by `policy`. If the run is parked, the
        outcome is `expired` and `parked` is not empty.

        Args:
            request: The request. Its line is not cut: a person decides about what the request shows.

        Returns:
            The resolution: `outcome`, `by`, `option_id` and `value`. Only `accepted` allows what was asked for.

        Raises:
            EventTooLarge: The request does not fit into an event.
            ValueError: A field of the request is not valid in the protocol, or its schema is no schema.
        """
        from ao_protocol.contracts import check_schema
        from ao_protocol.events import InputRequested

        InputRequested.model_validate(request.to_fields())
        if request.schema is not None:
            check_schema(request.schema)
        from asyncio import get_running_loop  # imported late: this module is loaded before run_started

        answer: asyncio.Future[Resolution] = get_running_loop().create_future()
        self._events.emit_fields("input_requested", request.to_fields())
        self._waiting[request.request_id] = (request, answer)
        try:
            if request.request_id in self.given:
                self.receive(request.request_id, self.given.pop(request.request_id))
            return await answer
        finally:
            self._waiting.pop(request.request_id, None)

    def receive(self, request_id: str, response: Mapping[str, Any]) -> None:
        """Resolve a request by a response; report one that is not valid in a `log` event.

        Args:
            request_id: The request that the response names.
            response: The fields of the `input_response` line, or an entry of `input_responses`.
        """
        from ao_protocol.input_answers import InvalidAnswer, resolution_of  # most runs ask nothing

        request, answer = self._waiting.get(request_id, (None, None))
        if request is None or answer is None or answer.done():
            self._ignore(f"no request {request_id!r} is open")
            return
        try:
            self._resolve(request_id, resolution_of(request.to_fields(), response))
        except InvalidAnswer as error:
            self._ignore(f"the answer to request {request_id!r} is not valid: {error}")

    def park(self) -> None:
        """Resolve the open requests as expired, so that the run ends as `input_required`; without one, do nothing."""
        from ao_protocol.input_answers import Resolution

        waiting = [request for request, answer in self._waiting.values() if not answer.done()]
        if not waiting:
            return
        self.parked += [request.to_fields() for request in waiting if request.can_park()]
        for request in waiting:
            self._resolve(request.request_id, Resolution("expired", "timeout"))
        if self.parked:
            self.when_parked()

    def _resolve(self, request_id: str, resolution: "Resolution") -> None:
        self._events.emit_fields("input_resolved", resolution.to_fields(request_id))
        self._waiting[request_id][1].set_result(resolution)

    def _ignore(self, reason: str) -> None:
        self._events.warn(f"an input_response was ignored: {reason}")
