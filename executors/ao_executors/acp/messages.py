"""The messages of an agent, which arrive in chunks: `message_delta`, `message`, and the answer of a turn.

The answer is the last message of a turn. Under an output contract a message is written when something else follows
it in its turn, and never in pieces: an invalid answer must not appear in an event (AOX-175).
"""

from ao_executors.core import Answer, Emitter, MessageStream
from ao_executors.core.foreign_json import JsonDocument, as_object


class Messages:
    """The messages of a run.

    Args:
        events: The emitter of the run.
        streams: Whether pieces are written as they arrive; never under an output contract.
    """

    def __init__(self, events: Emitter, *, streams: bool) -> None:
        self._events = events
        self._streams = streams
        self._count = 0
        self._texts: list[str] = []
        self._agents_id: object = None
        self._stream: MessageStream | None = None

    def begin_turn(self) -> None:
        """Forget the message before, the answer of another turn."""
        self._texts, self._stream = [], None

    def add(self, chunk: JsonDocument) -> None:
        """Add an `agent_message_chunk`. A chunk with another `messageId`, or after a tool call, begins a message."""
        text, agents_id = as_object(chunk.get("content")).get("text"), chunk.get("messageId")
        if not isinstance(text, str) or not text:
            return
        if agents_id is not None and self._agents_id not in (None, agents_id):
            self.end_message()
        if not self._texts:
            self._count += 1
            self._stream = MessageStream(self._events, self._message_id) if self._streams else None
        self._agents_id = agents_id or self._agents_id
        self._texts.append(text)
        if self._stream is not None:
            self._stream.add(text)

    def end_message(self) -> None:
        """Write the message before, if there is one: something else follows it."""
        if self._texts:
            (self._stream or MessageStream(self._events, self._message_id)).end("".join(self._texts))
        self._texts, self._stream, self._agents_id = [], None, None

    def answer(self, stop_reason: str) -> Answer:
        """Return the last message of the turn; its text is empty if the turn ended with something else."""
        text, is_said = "".join(self._texts), self._stream is not None
        if self._stream is not None:
            self._stream.end(text)
        if not text:
            self._count += 1
        is_cut = stop_reason == "max_tokens"
        return Answer(text, message_id=self._message_id, stop_reason=stop_reason, truncated=is_cut, is_said=is_said)

    @property
    def _message_id(self) -> str:
        return f"msg_{self._count}"
