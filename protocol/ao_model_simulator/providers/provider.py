"""What a simulated API must be able to do. It sees neither sockets nor the rest of the script."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from pydantic import JsonValue

from ao_model_simulator.given_answer import GivenAnswer
from ao_model_simulator.model_error import ModelError
from ao_model_simulator.prompt import Prompt
from ao_model_simulator.stream_event import StreamEvent


class Provider(Protocol):
    """One API: it reads requests into the neutral form and words what the script says."""

    @property
    def kind(self) -> str:
        """The name of the API in `model_endpoint` (SPEC 7)."""

    @property
    def title(self) -> str:
        """What people call it, with its article."""

    @property
    def required_fields(self) -> Sequence[str]:
        """The members without which the API refuses a request before it asks any model."""

    @property
    def request_id_header(self) -> str:
        """The header of a reply that names the request."""

    def serves(self, method: str, route: str) -> bool:
        """Return whether this asks a model for an answer. `route` is the path without its query."""

    def read_prompt(self, path: str, fields: Mapping[str, Any]) -> Prompt:
        """Return what was asked. Never raises: the body is whatever the client sent."""

    def body(self, given: GivenAnswer) -> JsonValue:
        """Return the document of an answer that is not streamed."""

    def stream_type(self, given: GivenAnswer) -> str:
        """Return the content type of a stream."""

    def stream(self, given: GivenAnswer) -> Iterator[StreamEvent]:
        """Yield the events of a whole, sound stream; the same ones each time."""

    def broken_event(self, given: GivenAnswer, sent: int) -> bytes:
        """Return an event whose data is no JSON, as number `sent` of the stream (the first is 0)."""

    def error_event(self, given: GivenAnswer, error: ModelError, sent: int) -> bytes:
        """Return an error as number `sent` of the stream, and its end."""

    def error_body(self, error: ModelError, path: str) -> JsonValue:
        """Return the document of an error that has a status of its own."""
