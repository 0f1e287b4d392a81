"""The messages of a turn, whose last one is the answer: when each of them becomes an event."""

from ao_executors.core import Answer, Emitter, MessageStream
from ao_protocol.contracts import NativeOutput


class TurnMessages:
    """The messages of the model in a turn.

    Without `holds_back`, a message becomes an event at once, and its pieces do before it with `streams`. With it, a
    message becomes an event when something follows in its turn: the last message is the answer, and an invalid answer
    must not appear in an event (AOX-175).
    """

    def __init__(self, events: Emitter, *, holds_back: bool, streams: bool = True) -> None:
        self.holds_back = holds_back
        self._events = events
        self._streams_pieces = streams and not holds_back
        self.begin_turn()

    def begin_turn(self) -> None:
        """Forget the messages so far; those that are held back are not written."""
        self._message_id, self._text, self._unsaid = "", "", ""
        self._pieces: dict[str, MessageStream] = {}

    def begin_message(self) -> None:
        """Write what is held back: another message or a tool call follows."""
        self.show()
        self._text = ""

    def add_piece(self, message_id: str, text: str) -> None:
        """Add a piece of a text that is being written."""
        if self._streams_pieces:
            self._pieces.setdefault(message_id, MessageStream(self._events, message_id)).add(text)

    def end_pieces(self) -> None:
        """End the texts that broke off while they were written: the pieces are all of them (AOX-079)."""
        for stream in self._pieces.values():
            stream.end()
        self._pieces = {}

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

    def answer(self, stop_reason: str, native: NativeOutput | None = None) -> Answer:
        """Return the last message of the turn, with the structured output if `native` is given."""
        return Answer(
            text=self._text,
            message_id=self._message_id or "msg",
            stop_reason="end_turn" if native is not None else stop_reason,  # it ends with the call of an output tool
            truncated=stop_reason == "max_tokens",
            native=native,
            is_said=bool(self._text) and not self._unsaid,
        )
