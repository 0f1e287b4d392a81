"""Write the messages of a model: in pieces while it produces them, and whole; the last one of a turn is the answer.

Internal, except for `MessageStream`, which `ao_executors.core` exports.
"""

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from ao_executors.core.emitter import EventTooLarge
from ao_executors.core.executor import Answer
from ao_executors.core.stdio import NobodyReads

if TYPE_CHECKING:
    import asyncio

    from ao_executors.core.emitter import Emitter
    from ao_protocol.contracts.enforcement import NativeOutput

_PAUSE_SECONDS: Final = 0.1
"""The time between two deltas: each of them is stored, and a piece may wait for 250 ms (AOX-191)."""
_LIMIT_SHARE: Final = 16
"""A character takes up to 6 bytes in JSON, so a delta of this share of the limit fits with its envelope."""


class MessageStream:
    """A message of the model that is being written: `message_delta` events, and behind them the whole (AOX-079).

    The first piece is written at once, and those that follow at most ten times a second. The end of a piece that may be
    the beginning of a secret waits for the next one. Under an output contract the answer may be refused, and must not
    be streamed (AOX-175).

    Args:
        events: The emitter of the run.
        message_id: The id of the message, which no other message of the run has (AOX-083).
        kind: The type of its blocks, `text` or `reasoning`.
        parent: The id of the open tool call whose work it is part of; None: it is the agent's own.
    """

    def __init__(self, events: "Emitter", message_id: str, *, kind: str = "text", parent: str | None = None) -> None:
        self._events = events
        self._message_id = message_id
        self._kind = kind
        self._part_of = {} if parent is None else {"parent_tool_call_id": parent}
        self._pieces: list[str] = []
        self._unwritten = ""
        self._has_begun = False
        self._timer: asyncio.TimerHandle | None = None

    def add(self, text: str) -> None:
        """Add the next piece. Nothing is written while the message is white space only.

        Args:
            text: The text that follows the pieces so far.

        Raises:
            NobodyReads: The read end of stdout is closed.
        """
        self._pieces.append(text)
        self._unwritten += text
        if self._timer is None:
            self._write_settled()

    def end(self, text: str | None = None) -> None:
        """Write the rest, and the whole message.

        Args:
            text: The whole message; None: the pieces together, and no event if none of them is written.

        Raises:
            EventTooLarge: The message is too long and cannot be cut to fit.
            TypeError: The message or its id is no text, or the id is empty.
            NobodyReads: The read end of stdout is closed.
        """
        if self._timer is not None:
            self._timer.cancel()
        if self._has_begun:
            self._write(len(self._unwritten))
        if self._has_begun or text is not None:
            self._emit("message", "".join(self._pieces) if text is None else text)

    def _write_settled(self) -> None:
        if not self._has_begun and not self._unwritten.strip():
            return
        from asyncio import get_running_loop  # imported late: this module is loaded before run_started

        length = self._events.settled_length(self._unwritten)
        if length > 0:
            self._write(length)
            self._has_begun = True
            self._timer = get_running_loop().call_later(_PAUSE_SECONDS, self._go_on)

    def _go_on(self) -> None:
        self._timer = None
        with suppress(NobodyReads, EventTooLarge):  # the next event of the run raises it where it can be handled
            self._write_settled()

    def _write(self, length: int) -> None:
        most = max(1, self._events.max_event_bytes // _LIMIT_SHARE)
        for begin in range(0, length, most):
            self._emit("message_delta", self._unwritten[begin : min(begin + most, length)])
        self._unwritten = self._unwritten[length:]

    def _emit(self, event_type: str, text: str) -> None:
        if not isinstance(text, str) or not isinstance(self._message_id, str) or not self._message_id:
            raise TypeError(f"message {self._message_id!r} is {text!r}; expected texts, and a message_id")
        if self._part_of and self._part_of["parent_tool_call_id"] not in self._events.open_tools:
            return  # nobody could tell it from the agent's own message (AOX-095)
        content = [{"type": self._kind, "text": text}]
        fields = {"message_id": self._message_id, "role": "assistant", "content": content, **self._part_of}
        self._events.emit_fields(event_type, fields)


class TurnMessages:
    """The messages of the model in a turn.

    Without `holds_back`, a message becomes an event at once, and its pieces do before it with `streams`. With it, a
    message becomes an event when something follows in its turn: the last message is the answer, and an invalid answer
    must not appear in an event (AOX-175).

    Reasoning, unless `shows_reasoning` is false, and messages of a sub-agent are never the answer, and never held back
    (AOX-085, AOX-096).
    """

    def __init__(
        self, events: "Emitter", *, holds_back: bool, streams: bool = True, shows_reasoning: bool = True
    ) -> None:
        self.holds_back = holds_back
        self._events = events
        self._streams = streams
        self._shows_reasoning = shows_reasoning
        self._thought_count = 0
        self.begin_turn()

    def begin_turn(self) -> None:
        """Forget the messages so far; those that are held back are not written."""
        self._message_id, self._text, self._unsaid = "", "", ""
        self._pieces: dict[str, MessageStream] = {}
        self._thoughts: dict[str, MessageStream] = {}

    def begin_message(self) -> None:
        """Write what is held back: another message or a tool call follows."""
        self.show()
        self._text = ""

    def add_piece(self, message_id: str, text: str, parent: str | None = None) -> None:
        """Add a piece of a text that is being written, by the agent or in the tool call `parent`."""
        if self._streams and (parent is not None or not self.holds_back):
            self._pieces.setdefault(message_id, MessageStream(self._events, message_id, parent=parent)).add(text)

    def add_reasoning_piece(self, message_id: str, text: str, parent: str | None = None) -> None:
        """Add a piece of what the model thinks before it writes a message."""
        if self._streams and self._shows_reasoning:
            self._thought(message_id, parent).add(text)

    def add_reasoning(self, message_id: str, text: str, parent: str | None = None) -> None:
        """Write the whole of what the model thought before it writes a message, as a message of its own."""
        if self._shows_reasoning and text.strip():
            self._thought(message_id, parent).end(text)
            del self._thoughts[message_id]

    def _thought(self, message_id: str, parent: str | None) -> MessageStream:
        if message_id not in self._thoughts:
            self._thought_count += 1
            own_id = f"{message_id}_reasoning_{self._thought_count}"
            self._thoughts[message_id] = MessageStream(self._events, own_id, kind="reasoning", parent=parent)
        return self._thoughts[message_id]

    def end_pieces(self) -> None:
        """End the texts that broke off while they were written: the pieces are all of them (AOX-079)."""
        for stream in (*self._thoughts.values(), *self._pieces.values()):
            stream.end()
        self._pieces, self._thoughts = {}, {}

    def add_part(self, message_id: str, text: str, parent: str) -> None:
        """Write a whole message that is part of the tool call `parent`, such as a sub-agent's."""
        stream = self._pieces.pop(message_id, None) or MessageStream(self._events, message_id, parent=parent)
        stream.end(text)

    def add(self, message_id: str, text: str) -> None:
        """Add a whole text to the message. Of texts that are held back together, the first id counts."""
        self._message_id = self._message_id if self._unsaid else message_id
        self._text += text
        self._unsaid += text
        if not self.holds_back:
            self.show()

    def show(self) -> None:
        """Write what is held back of the message."""
        if self._unsaid:
            stream = self._pieces.pop(self._message_id, None) or MessageStream(self._events, self._message_id)
            stream.end(self._unsaid)
            self._unsaid = ""

    def answer(self, stop_reason: str, native: "NativeOutput | None" = None) -> Answer:
        """Return the last message of the turn, with the structured output if `native` is given."""
        return Answer(
            text=self._text,
            message_id=self._message_id or "msg",
            stop_reason="end_turn" if native is not None else stop_reason,  # it ends with the call of an output tool
            truncated=stop_reason == "max_tokens",
            native=native,
            is_said=bool(self._text) and not self._unsaid,
        )
