"""The messages of an agent and of its sub-agents, and what they think, which arrive in chunks."""

from dataclasses import dataclass, field

from ao_executors.core import Answer
from ao_executors.core.foreign_json import JsonDocument, as_object
from ao_executors.core.message_stream import TurnMessages


def parent_of(update: JsonDocument) -> str | None:
    """Return the id of the tool call of whose work an update is part, as Qwen and Claude's agent tell it."""
    meta = as_object(update.get("_meta"))
    named = (meta.get("parentToolCallId"), *(as_object(part).get("parentToolUseId") for part in meta.values()))
    return next((call_id for call_id in named if isinstance(call_id, str) and call_id), None)


@dataclass(slots=True)
class _Begun:
    message_id: str
    agents_id: object = None
    pieces: list[str] = field(default_factory=list)


class AgentMessages(TurnMessages):
    """The messages of a turn, from their chunks. A message ends when something else follows it.

    Reasoning does not end a message, and messages of different sub-agents do not end each other.
    """

    _count = 0

    def begin_turn(self) -> None:
        """Forget the message before, the answer of another turn."""
        super().begin_turn()
        self._begun: dict[tuple[str | None, bool], _Begun] = {}
        """The texts that have begun, by the tool call of which they are part, and whether they are reasoning."""

    def add_chunk(self, chunk: JsonDocument, *, is_reasoning: bool = False) -> None:
        """Add an `agent_message_chunk` or `agent_thought_chunk`.

        A chunk with another `messageId`, or after a tool call, begins a message.
        """
        text, agents_id = as_object(chunk.get("content")).get("text"), chunk.get("messageId")
        if not isinstance(text, str) or not text:
            return
        parent = parent_of(chunk)
        before = self._begun.get((parent, is_reasoning))
        is_another = before is not None and None not in (agents_id, before.agents_id) and agents_id != before.agents_id
        if is_another or not is_reasoning:
            self._end_reasoning(parent)
        if is_another and not is_reasoning:
            self.end_message(parent)
        begun = self._begun.get((parent, is_reasoning))
        if begun is None:
            self._count += not is_reasoning
            own_id = (parent or "msg") if is_reasoning else f"msg_{self._count}"
            begun = self._begun[parent, is_reasoning] = _Begun(own_id)
        begun.agents_id = agents_id or begun.agents_id
        begun.pieces.append(text)
        add = self.add_reasoning_piece if is_reasoning else self.add_piece
        add(begun.message_id, text, parent)

    def end_message(self, parent: str | None = None) -> None:
        """Write the message before, of the agent or in the tool call `parent`, if there is one."""
        self._end_reasoning(parent)
        begun = self._begun.pop((parent, False), None)
        if begun is not None and parent is not None:
            self.add_part(begun.message_id, "".join(begun.pieces), parent)
        elif begun is not None:
            self.add(begun.message_id, "".join(begun.pieces))
        if parent is None:
            self.begin_message()

    def forget_message(self) -> None:
        """Forget the message before, of the agent."""
        self._end_reasoning(None)
        self._begun.pop((None, False), None)
        self._message_id, self._text, self._unsaid = "", "", ""

    def end_parts(self) -> None:
        """Write the messages in tool calls, which are about to end."""
        for parent in {parent for parent, _ in self._begun if parent is not None}:
            self.end_message(parent)

    def end(self, stop_reason: str) -> Answer:
        """Return the last message of the turn; its text is empty if the turn ended with something else."""
        self._end_reasoning(None)
        last = self._begun.pop((None, False), None) or _Begun(f"msg_{self._count + 1}")
        self.add(last.message_id, "".join(last.pieces))
        return self.answer(stop_reason)

    def _end_reasoning(self, parent: str | None) -> None:
        if begun := self._begun.pop((parent, True), None):
            self.add_reasoning(begun.message_id, "".join(begun.pieces), parent)
