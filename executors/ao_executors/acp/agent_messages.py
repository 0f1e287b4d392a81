"""The messages of an agent, which arrive in chunks."""

from ao_executors.core import Answer
from ao_executors.core.foreign_json import JsonDocument, as_object
from ao_executors.core.message_stream import TurnMessages


class AgentMessages(TurnMessages):
    """The messages of a turn, from their chunks. A message ends when something else follows it."""

    _count = 0
    _agents_id: object = None

    def begin_turn(self) -> None:
        """Forget the message before, the answer of another turn."""
        super().begin_turn()
        self._chunks: list[str] = []

    def add_chunk(self, chunk: JsonDocument) -> None:
        """Add an `agent_message_chunk`. A chunk with another `messageId`, or after a tool call, begins a message."""
        text, agents_id = as_object(chunk.get("content")).get("text"), chunk.get("messageId")
        if not isinstance(text, str) or not text:
            return
        if agents_id is not None and self._agents_id not in (None, agents_id):
            self.end_message()
        self._count += not self._chunks
        self._agents_id = agents_id or self._agents_id
        self._chunks.append(text)
        self.add_piece(f"msg_{self._count}", text)

    def end_message(self) -> None:
        """Write the message before, if there is one: something else follows it."""
        if self._chunks:
            self.add(f"msg_{self._count}", "".join(self._chunks))
        self.begin_message()
        self._chunks, self._agents_id = [], None

    def end(self, stop_reason: str) -> Answer:
        """Return the last message of the turn; its text is empty if the turn ended with something else."""
        self._count += not self._chunks
        self.add(f"msg_{self._count}", "".join(self._chunks))
        return self.answer(stop_reason)
