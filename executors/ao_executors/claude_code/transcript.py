"""What the model has said in a turn: pieces of messages in, whole messages out."""

from typing import Final

from ao_executors.claude_code.sdk import AssistantMessage, TextBlock, UserMessage
from ao_executors.core.emitter import Emitter
from ao_executors.core.executor import Answer
from ao_protocol.events import Message
from ao_protocol.events import TextBlock as MessageText
from ao_protocol.output import NativeOutput

_CONTINUATION: Final = "Output token limit hit."
"""How the CLI begins the message by which it lets a model go on that ran into its output limit."""
_NUDGE: Final = "[structured-output-enforce]"
"""How the CLI begins the message to a model that wrote its answer as text in place of calling the output tool."""
OUTPUT_TOOL: Final = "StructuredOutput"
"""The tool by which the CLI takes structured output. A call of it is an answer, and no tool of the agent's."""


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
        """Note whether the CLI asked the model to go on with a message that was cut off, or refused it as an answer."""
        texts = [block.text for block in message.content if isinstance(block, TextBlock)]
        self._continues = any(text.startswith(_CONTINUATION) for text in texts)
        if any(text.startswith(_NUDGE) for text in texts):
            self.withhold()

    def withhold(self) -> None:
        """Forget the message so far: it may hold an answer that does not fit, and such a one is shown to nobody."""
        self._texts = []

    def show(self) -> None:
        """Write the message so far as an event: something follows it, so it is not the answer."""
        text = "".join(self._texts)
        if text:
            content = [MessageText(text=text)]
            self._events.emit(Message(message_id=self._message_id, role="assistant", content=content))
        self._texts = []

    def answer(self, stop_reason: str, native: NativeOutput | None = None) -> Answer:
        """Return the last message of the turn, or what was given by the output tool."""
        return Answer(
            text="".join(self._texts),
            message_id=self._message_id or "msg",
            # To a caller, the call of the output tool is the end of the turn.
            stop_reason="end_turn" if native is not None else stop_reason,
            truncated=stop_reason == "max_tokens",
            native=native,
        )
