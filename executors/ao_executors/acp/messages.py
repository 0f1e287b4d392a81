"""The messages of an agent, which arrive in chunks: `message_delta`, `message`, and the answer of a turn.

The answer is the last message of a turn. Under an output contract a message is written when something else follows
it in its turn, and never in pieces: an invalid answer must not appear in an event (AOX-175).
"""

from ao_executors.acp.peer import JsonDocument, as_object
from ao_executors.core import Answer, Emitter


class Messages:
    """The messages of a run.

    Args:
        events: The emitter of the run.
        holds_back: Whether there is an output contract.
    """

    def __init__(self, events: Emitter, *, holds_back: bool) -> None:
        self._events = events
        self._holds_back = holds_back
        self._count = 0
        self._texts: list[str] = []
        self._agents_id: object = None
        self._is_open = False

    def begin_turn(self) -> None:
        """Forget the message before."""
        self._open(None)
        self._texts = []

    def add(self, chunk: JsonDocument) -> None:
        """Add an `agent_message_chunk`. A chunk with another `messageId`, or after a tool call, begins a message."""
        text = as_object(chunk.get("content")).get("text")
        if not isinstance(text, str) or not text:
            return
        agents_id = chunk.get("messageId")
        if not self._is_open or (agents_id is not None and self._agents_id not in (None, agents_id)):
            self.end_message()
            self._open(agents_id)
        self._agents_id = agents_id or self._agents_id
        self._is_open = True
        self._texts.append(text)
        if not self._holds_back:
            self._events.emit_fields("message_delta", self._fields(text))

    def end_message(self) -> None:
        """Write the message before, if there is one: something else follows it."""
        if self._texts:
            self._events.emit_fields("message", self._fields("".join(self._texts)))
        self._texts, self._is_open = [], False

    def answer(self, stop_reason: str) -> Answer:
        """Return the last message of the turn; its text is empty if the turn ended with something else."""
        text = "".join(self._texts)
        if not text:
            self._open(None)
        return Answer(text, message_id=self._message_id, stop_reason=stop_reason, truncated=stop_reason == "max_tokens")

    @property
    def _message_id(self) -> str:
        return f"msg_{self._count}"

    def _open(self, agents_id: object) -> None:
        self._count += 1
        self._agents_id, self._is_open = agents_id, False

    def _fields(self, text: str) -> dict[str, object]:
        content = [{"type": "text", "text": text}]
        return {"message_id": self._message_id, "role": "assistant", "content": content}
