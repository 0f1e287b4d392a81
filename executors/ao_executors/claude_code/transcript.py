"""What the model has said in a turn: pieces of messages in, messages out."""

from typing import Final

from ao_executors.claude_code.sdk import AssistantMessage, TextBlock, ToolUseBlock, UserMessage
from ao_executors.claude_code.tools import OUTPUT_TOOL
from ao_executors.core.emitter import Emitter
from ao_executors.core.executor import Answer
from ao_protocol.contracts import NativeOutput
from ao_protocol.events import Message
from ao_protocol.events import TextBlock as MessageText

_CONTINUATION: Final = "Output token limit hit."
"""How the CLI begins the message by which it lets a model go on that ran into its output limit."""
_NUDGE: Final = "[structured-output-enforce]"
"""How the CLI begins the message to a model that wrote its answer as text in place of calling the output tool."""


class Transcript:
    """Joins the pieces of a message, which the CLI sends block by block under one message id.

    A piece is an event as soon as the CLI tells it. With `holds_back`, a message is one when another one or a tool
    follows it: the last one of a turn is the answer, and an answer that breaks an output contract must not be shown.
    """

    def __init__(self, events: Emitter, *, holds_back: bool) -> None:
        self.api_error: str | None = None
        self._events = events
        self._holds_back = holds_back
        self._message_id = ""
        self._texts: list[str] = []
        self._unsaid: list[str] = []
        self._said_ids: set[str] = set()
        self._continues = False

    def begin_turn(self) -> None:
        """Forget the message before."""
        self.api_error = None
        self._message_id, self._texts, self._unsaid, self._continues = "", [], [], False

    def add(self, message: AssistantMessage) -> None:
        """Take one piece. A message that the CLI made up to report an API error is no message."""
        if message.error is not None:
            self.api_error = message.error
            return
        message_id = message.message_id or message.uuid or "msg"
        if message_id != self._message_id and not self._continues:
            self._show()
            self._texts = []
        self._message_id, self._continues = message_id, False
        for block in message.content:
            if isinstance(block, TextBlock):
                self._texts.append(block.text)
                self._unsaid.append(block.text)
                if not self._holds_back:
                    self._show()
            elif isinstance(block, ToolUseBlock) and block.name == OUTPUT_TOOL:
                self._withhold()
            elif isinstance(block, ToolUseBlock):
                self._show()
                self._texts = []

    def add_user(self, message: UserMessage) -> None:
        """Note whether the CLI asked the model to go on with a message that was cut off, or refused it as an answer."""
        texts = [block.text for block in message.content if isinstance(block, TextBlock)]
        self._continues = any(text.startswith(_CONTINUATION) for text in texts)
        if any(text.startswith(_NUDGE) for text in texts):
            self._withhold()

    def answer(self, stop_reason: str, native: NativeOutput | None = None) -> Answer:
        """Return the last message of the turn, or what was given by the output tool."""
        text = "".join(self._texts)
        return Answer(
            text=text,
            message_id=self._unused_id(),
            # To a caller, the call of the output tool is the end of the turn.
            stop_reason="end_turn" if native is not None else stop_reason,
            truncated=stop_reason == "max_tokens",
            native=native,
            is_said=bool(text) and not self._unsaid,
        )

    def _withhold(self) -> None:
        """Forget the message so far: it may hold an answer that does not fit, and such a one is shown to nobody."""
        self._texts, self._unsaid = [], []

    def _show(self) -> None:
        """Write as an event what was not written yet."""
        text = "".join(self._unsaid)
        if text:
            content = [MessageText(text=text)]
            self._events.emit(Message(message_id=self._unused_id(), role="assistant", content=content))
        self._unsaid = []

    def _unused_id(self) -> str:
        """Return an id for an event: no two of a run have the same (AOX-083), and a message may become several."""
        base = self._message_id or "msg"
        number = 1
        while (unused := base if number == 1 else f"{base}.{number}") in self._said_ids:
            number += 1
        self._said_ids.add(unused)
        return unused
