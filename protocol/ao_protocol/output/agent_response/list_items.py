"""The items of a list in Markdown: a mark, then the text, which goes on in lines that are indented."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from ao_protocol.output.agent_response.plain_text import BLANKS


@dataclass(slots=True)
class Item:
    """An item: the line it begins on, what its mark matched, and its lines without their indentation."""

    line: int
    mark: re.Match[str]
    lines: list[str] = field(default_factory=list)
    ended: bool = False


def list_items(text: str, mark: re.Pattern[str], first_line: int = 1) -> Iterator[Item]:
    """Yield the items whose first line the mark matches.

    A line that is indented deeper than its item belongs to it, also behind blank lines; one that is not belongs to it
    only where no blank line stands between. Text before the list, and behind an item that has ended, is passed over.
    """
    item: Item | None = None
    indent = 0
    for number, line in enumerate(text.split("\n"), first_line):
        width = len(line) - len(line.lstrip(BLANKS))
        found = mark.match(line) if item is None or width <= indent else None
        if found is not None:
            if item is not None:
                yield item
            item, indent = Item(number, found, [line[found.end() :]]), width
        elif item is not None:
            _go_on(item, line, indent, width)
    if item is not None:
        yield item


def _go_on(item: Item, line: str, indent: int, width: int) -> None:
    is_blank = width == len(line)
    if width <= indent and not is_blank and (line.startswith("```", width) or _is_blank(item.lines[-1])):
        item.ended = True
    if not item.ended:
        item.lines.append(without_indent(line, indent + 2))


def without_indent(line: str, width: int) -> str:
    """Return the line without its first `width` spaces, or as many of them as it has."""
    return line[min(width, len(line) - len(line.lstrip(" "))) :]


def _is_blank(line: str) -> bool:
    return not line.strip(BLANKS)
