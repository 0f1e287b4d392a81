"""The end of the messages that an agent and its sub-agents write, in the lines that a terminal has room for."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ao_protocol.events import Body, Message, MessageDelta, Terminal, ToolFinished, Usage
from ao_protocol.message_content import reasoning_of, text_of
from ao_protocol.short_text import keep_end
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
LABELLED_COLUMNS: Final = 40
"""On a narrower terminal what the model thinks has no label; the status line says that it thinks."""


@dataclass
class _Written:
    """A message that is being written, and its depth below the tool calls that it is part of."""

    message_id: str
    depth: int
    text: str = ""
    thought: str = ""
    """What the model thinks; empty while it writes text."""
    is_whole: bool = False

    def add(self, text: str, thought: str) -> None:
        """Add a piece of the message."""
        self.text = _kept(self.text + plain_text(text))
        self.thought = "" if text else _kept(self.thought + plain_text(thought))

    def lines(self, console: "Console", most: int) -> "list[Text]":
        """Return its last lines, and the end of what the model thinks on one line, as wide as the terminal."""
        from rich.text import Text

        mark = " " * min(2 * self.depth, console.width // 4) + MARK
        columns = console.width - len(mark)
        last = _end_of(self.thought, "thinking: " if console.width >= LABELLED_COLUMNS else "", columns)
        thought = [Text(mark.replace(MARK, "· ") + last, style="dim")] if last else []
        room = most - len(thought)
        if not self.text.strip() or not room:
            return thought
        end = Text("\n".join(_last_of(self.text.strip("\n").split("\n")[-room:], room * columns)), tab_size=4)
        said = end.wrap(console, columns, overflow="fold")[-room:]
        return [*(Text(mark, style="dim") + line for line in said), *thought]


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
                written.add(text_of(body.content), reasoning_of(body.content))
            case Message(parent_tool_call_id=None, message_id=message_id):
                if ours is not None and ours.message_id == message_id:
                    ours.is_whole, ours.thought = True, ""
            case Message(parent_tool_call_id=call) | ToolFinished(tool_call_id=call):
                self._of_call.pop(call, None)
            case _ if isinstance(body, Terminal):
                self._of_call.clear()

    def lines(self, console: "Console") -> "list[Text]":
        """Return the last lines of the messages, in total at most half as many as the terminal has."""
        shown = [written for written in self._of_call.values() if (written.text + written.thought).strip()]
        if not shown or console.width < LEAST_COLUMNS:
            return []
        most = max(1, min(MAX_LINES, console.height // 2))
        each = max(1, most // len(shown))
        return [line for written in shown[-most:] for line in written.lines(console, each)]


def _kept(text: str) -> str:
    return text[-KEPT_CHARACTERS:] if len(text) > 2 * KEPT_CHARACTERS else text


def _end_of(text: str, label: str, columns: int) -> str:
    """Return the last line of a text behind a label, in so many columns; empty if the text is blank."""
    from rich.cells import cell_len

    end, most = text.rstrip().rpartition("\n")[2].replace("\t", " "), columns - len(label)
    while most > 1 and cell_len(label + keep_end(end, most)) > columns:  # of wide characters fewer have room
        most -= 1
    return end and label + keep_end(end, most)


def _last_of(lines: list[str], most: int) -> list[str]:
    """Return lines without those that are far from the end. A line is cut so that it breaks at the same places."""
    room, kept = most, list[str]()
    for line in reversed(lines):
        if room <= 0:
            break
        kept.insert(0, line[max(0, len(line) // most - 1) * most :])
        room -= len(line)
    return kept
