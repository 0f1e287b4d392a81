"""The end of the messages that an agent and its sub-agents write, in the lines that a terminal has room for."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ao_protocol.events import Body, Message, MessageDelta, Terminal, ToolFinished, Usage
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


@dataclass
class _Written:
    """A message that is being written, and its depth below the tool calls that it is part of."""

    message_id: str
    depth: int
    text: str = ""
    is_whole: bool = False

    def lines(self, console: "Console", most: int) -> "list[Text]":
        """Return its last lines, as wide as the terminal."""
        from rich.text import Text

        mark = " " * min(2 * self.depth, console.width // 4) + MARK
        columns = console.width - len(mark)
        end = Text("\n".join(_last_of(self.text.strip("\n").split("\n")[-most:], most * columns)), tab_size=4)
        return [Text(mark, style="dim") + line for line in end.wrap(console, columns, overflow="fold")[-most:]]


class MessageTail:
    """Pass it every event of a run. A complete message stays until the event after it, which tells where it belongs.

    Sub-agents may write at the same time. Each of them, and the agent, writes one message at a time.
    """

    def __init__(self) -> None:
        self._of_call: dict[str | None, _Written] = {}
        """The messages by the tool call that they are part of; None stands for the agent."""

    def receive(self, body: Body, depth: int = 0) -> None:
        """Process an event that is part of so many tool calls, one within the other."""
        ours = self._of_call.get(None)
        if ours is not None and ours.is_whole and not isinstance(body, Usage):
            del self._of_call[None]
        match body:
            case MessageDelta(role="assistant", parent_tool_call_id=call, message_id=message_id):
                written = self._of_call.get(call)
                if written is None or written.message_id != message_id:
                    written = self._of_call[call] = _Written(message_id, depth)
                written.text += plain_text(text_of(body.content))
                if len(written.text) > 2 * KEPT_CHARACTERS:
                    written.text = written.text[-KEPT_CHARACTERS:]
            case Message(parent_tool_call_id=None, message_id=message_id):
                if ours is not None and ours.message_id == message_id:
                    ours.is_whole = True
            case Message(parent_tool_call_id=call) | ToolFinished(tool_call_id=call):
                self._of_call.pop(call, None)
            case _ if isinstance(body, Terminal):
                self._of_call.clear()

    def lines(self, console: "Console") -> "list[Text]":
        """Return the last lines of the messages, in total at most half as many as the terminal has."""
        shown = [written for written in self._of_call.values() if written.text.strip()]
        if not shown or console.width < LEAST_COLUMNS:
            return []
        most = max(1, min(MAX_LINES, console.height // 2))
        each = max(1, most // len(shown))
        return [line for written in shown[-most:] for line in written.lines(console, each)]


def _last_of(lines: list[str], most: int) -> list[str]:
    """Return lines without those that are far from the end. A line is cut so that it breaks at the same places."""
    room, kept = most, list[str]()
    for line in reversed(lines):
        if room <= 0:
            break
        kept.insert(0, line[max(0, len(line) // most - 1) * most :])
        room -= len(line)
    return kept
