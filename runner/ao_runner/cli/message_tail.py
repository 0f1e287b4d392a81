"""The end of the message that an agent is writing, in the lines that a terminal has room for."""

from typing import TYPE_CHECKING, Final

from ao_protocol.events import Body, Message, MessageDelta, Terminal, Usage
from ao_protocol.message_content import text_of
from ao_runner.cli.printing import plain_text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

MAX_LINES: Final = 12
KEPT_CHARACTERS: Final = 4_000
"""How much of the message is kept at least; twice as much at most, so that lines break at the same places for long."""
MARK: Final = "│ "
LEAST_COLUMNS: Final = 8
"""On a narrower terminal nothing is shown before the message is complete."""


class MessageTail:
    """Pass it every event of a run. A complete message stays until the event after it, which tells where it belongs."""

    def __init__(self) -> None:
        self._message_id = ""
        self._text = ""
        self._is_whole = False

    def receive(self, body: Body) -> None:
        """Process an event."""
        match body:
            case MessageDelta(role="assistant", message_id=message_id, content=content):
                if message_id != self._message_id or self._is_whole:
                    self._message_id, self._text, self._is_whole = message_id, "", False
                self._text += plain_text(text_of(content))
                if len(self._text) > 2 * KEPT_CHARACTERS:
                    self._text = self._text[-KEPT_CHARACTERS:]
            case Message(message_id=message_id) if message_id == self._message_id:
                self._is_whole = True
            case Usage():
                pass
            case _ if self._is_whole or isinstance(body, Terminal):
                self._message_id, self._text, self._is_whole = "", "", False

    def lines(self, console: "Console") -> "list[Text]":
        """Return the last lines of the message, as wide as the terminal and at most half as many as it has."""
        from rich.text import Text

        columns, most = console.width - len(MARK), max(1, min(MAX_LINES, console.height // 2))
        text = self._text.strip("\n")
        if not text.strip() or console.width < LEAST_COLUMNS:
            return []
        end = Text("\n".join(_last_of(text.split("\n")[-most:], most * columns)), tab_size=4)
        return [Text(MARK, style="dim") + line for line in end.wrap(console, columns, overflow="fold")[-most:]]


def _last_of(lines: list[str], most: int) -> list[str]:
    """Return lines without those that are far from the end. A line is cut so that it breaks at the same places."""
    room, kept = most, list[str]()
    for line in reversed(lines):
        if room <= 0:
            break
        kept.insert(0, line[max(0, len(line) // most - 1) * most :])
        room -= len(line)
    return kept
