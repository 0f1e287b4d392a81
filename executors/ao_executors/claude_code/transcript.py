"""What the model has said in a turn: pieces of messages in, whole messages out."""

from typing import Final

from ao_executors.claude_code.sdk import AssistantMessage, TextBlock, UserMessage
from ao_executors.core.emitter import Emitter
from ao_executors.core.executor import Answer
from ao_protocol.events import Message
from ao_protocol.events import TextBlock as MessageText

_CONTINUATION: Final = "Output token limit hit."
"""How the CLI begins the message by which it lets a model go on that ran into its output limit."""


class Transcript:
    """Joins the pieces of a message, which the CLI sends block by block under one message id.

    A message becomes an event when another one or a tool follows it. The last one of a turn is the answer; it is
    left to the caller, since an answer that breaks an output contract must not be shown.
    """

    def __init__(self, events: Emitter) -> None:
        self.api_error: str | None = None
        self._events = events
        self._message_id = ""
        self._texts: list[str] = []
        self._continues = False

    def begin_turn(self) -> None:
        """Forget the message before."""
        self.api_error = None
        self._message_id, self._texts, self._continues = "", [], False

    def add(self, message: AssistantMessage) -> None:
        """Take one piece. A message that the CLI made up to report an API error is no message."""
        if message.error is not None:
            self.api_error = message.error
            return
        message_id = message.message_id or message.uuid or "msg"
        if message_id != self._message_id and not self._continues:
            self.show()
        self._message_id, self._continues = message_id, False
        self._texts += [block.text for block in message.content if isinstance(block, TextBlock)]

    def add_user(self, message: UserMessage) -> None:
        """Note whether the CLI asked the model to go on with a message that was cut off."""
        texts = [block.text for block in message.content if isinstance(block, TextBlock)]
        self._continues = any(text.startswith(_CONTINUATION) for text in texts)

    def show(self) -> None:
        """Write the message so far as an event: something follows it, so it is not the answer."""
        text = "".join(self._texts)
        if text:
            content = [MessageText(text=text)]
            self._events.emit(Message(message_id=self._message_id, role="assistant", content=content))
        self._texts = []

    def answer(self, stop_reason: str) -> Answer:
        """Return the last message of the turn."""
        return Answer(
            text="".join(self._texts),
            message_id=self._message_id or "msg",
            stop_reason=stop_reason,
            truncated=stop_reason == "max_tokens",
        )
