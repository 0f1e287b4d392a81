"""Print texts, tables, JSON, problems and remarks: the only module that writes to the terminal.

Most of these texts are by agents, executors and other people. No character of them steers the terminal or hides text.
"""

import json
import shutil
import sys
from codecs import BOM_UTF8
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click

from ao_protocol.short_text import shorten_line
from ao_runner.odd_characters import ODD

if TYPE_CHECKING:
    from pydantic import JsonValue
    from rich.console import Console

    from ao_runner.diagnosis import Check, Verdict
    from ao_runner.store.store_errors import Damage

Cells: TypeAlias = Sequence[str]

MAX_LINE_CHARACTERS: Final = 160
MAX_SUBJECT_CHARACTERS: Final = 1000
LEAST_WIDTH: Final = 12
"""The minimum width of a column, also on a narrow terminal."""
GAP: Final = "  "
MOST_SHOWN: Final = 20
"""How many rows of a list are shown without `--all`."""
MOST_TOLD_DAMAGE: Final = 5
MARKS: "Final[dict[Verdict, tuple[str, str]]]" = {
    "ok": ("✓", "green"),
    "note": ("·", "yellow"),
    "problem": ("✗", "red"),
}


def plain_text(text: str) -> str:
    """Return the text without the characters that hide, reorder or erase text; line ends and tabs stay.

    Half of a surrogate pair becomes a replacement character, because it often stands for a byte of a path.
    """
    return ODD.sub(lambda found: "\ufffd" if "\ud800" <= found[0] <= "\udfff" else "", text)


def escaped_json(text: str) -> str:
    """Return the same JSON with these characters as escapes. JSON has them in strings only."""
    return ODD.sub(lambda found: json.dumps(found[0])[1:-1], text)


def escaped_line(line: bytes) -> bytes:
    """Return a line of JSON in the same way, without a byte-order mark; the same object if nothing was escaped."""
    if line.isascii() and b"\x7f" not in line:
        return line
    return escaped_json(line.removeprefix(BOM_UTF8).decode()).encode()


def echo(
    text: str = "", *, err: bool = False, nl: bool = True, fg: str | None = None, bold: bool | None = None
) -> None:
    """Print a text, whoever wrote it, as `plain_text`. The style is added to the whole text."""
    click.secho(plain_text(text), err=err, nl=nl, fg=fg, bold=bold)


def print_styled(text: str) -> None:
    """Print a text that has styles; its author has passed each text of others in it through `plain_text`."""
    click.echo(text)


def show_counter(text: str = "") -> None:
    """Replace the last line of a terminal on stderr; an empty text leaves nothing there."""
    stream = getattr(sys.stderr, "unfiltered", sys.stderr)
    stream.write(f"\r\033[K{plain_text(text)}")
    stream.flush()


def print_exactly(text: str) -> None:
    """Print a result: at a terminal as `plain_text`, elsewhere every byte."""
    is_shown = sys.stdout.isatty()
    shown = plain_text(text) if is_shown else text.encode(sys.stdout.encoding, "backslashreplace")
    click.echo(shown, nl=not text.endswith("\n"))


def console(*, err: bool = False, **options: Any) -> "Console":  # noqa: ANN401  # those of rich
    """Return a console of rich, which moves the cursor. Each text of others on it has passed `plain_text`."""
    from rich.console import Console

    stream = sys.stderr if err else sys.stdout
    return Console(file=getattr(stream, "unfiltered", stream), highlight=False, **options)


def shorten(text: str, limit: int = MAX_LINE_CHARACTERS) -> str:
    """Return the text as one line of at most `limit` characters, without control characters."""
    return shorten_line(plain_text(text), limit)


def short_time(timestamp: str) -> str:
    """Return a timestamp of the store to the minute."""
    return timestamp[:16].replace("T", " ")


def counted(count: int, noun: str) -> str:
    """Return a number with its noun: `1 run`, `2 runs`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def print_document(document: object) -> None:
    """Print JSON for programs, on one line."""
    click.echo(escaped_json(json.dumps(document, ensure_ascii=False)))


def print_json(value: "JsonValue") -> None:
    """Print indented JSON, with colours at a terminal."""
    text = escaped_json(json.dumps(value, ensure_ascii=False, indent=2))
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.highlighter import JSONHighlighter

        Console(soft_wrap=True).print(JSONHighlighter()(text))
    else:
        click.echo(text)


def show_success(sentence: str) -> None:
    """Write a success message to stdout."""
    echo(f"✓ {sentence}", fg="green")


def show_problems(subject: str, problems: Iterable[object]) -> None:
    """Write the problems of a subject to stderr, one per line."""
    for problem in problems:
        echo(f"✗ {shorten(subject, MAX_SUBJECT_CHARACTERS)}: {problem}", fg="red", err=True)


def show_remarks(subject: str, remarks: Iterable[object]) -> None:
    """Write the remarks on a subject to stderr, one per line."""
    for remark in remarks:
        echo(f"! {shorten(subject, MAX_SUBJECT_CHARACTERS)}: {remark}", fg="yellow", err=True)


def report(findings: "Iterable[Check]", *, as_json: bool) -> None:
    """Print findings as they come, or all as one JSON object, and exit: with 1 if one of them is a problem."""
    found = []
    for finding in findings:
        found.append(finding)
        if as_json:
            continue
        mark, colour = MARKS[finding.verdict]
        echo(f"{mark} {finding.about}: ", fg=colour, nl=False)
        echo(finding.text)
        if finding.advice and finding.verdict != "ok":
            echo(f"    {finding.advice}")
    problems = [finding for finding in found if finding.verdict == "problem"]
    if as_json:
        print_document({"ok": not problems, "findings": [asdict(finding) for finding in found]})
    elif problems:
        ways = {finding.advice or finding.text for finding in problems}  # problems with the same advice count once
        echo(f"\n{len(ways)} to fix", fg="red")
    sys.exit(1 if problems else 0)


def show_newest(total: int, shown: int, command: str) -> None:
    """If a list is cut, name on stderr the command that lists the rest."""
    if shown < total:
        echo(f"… and {total - shown} older ones: {command} --all", err=True)


def leave_if_damaged(damage: "Damage") -> None:
    """If rows of the store are damaged, name them on stderr and exit with 1."""
    if not damage:
        return
    sentences = list(damage)
    for sentence in sentences[:MOST_TOLD_DAMAGE]:
        echo(f"Error: {sentence}", err=True)
    if len(sentences) > MOST_TOLD_DAMAGE:
        echo(f"… and {len(sentences) - MOST_TOLD_DAMAGE} more damaged rows", err=True)
    sys.exit(1)


def print_table(
    header: Cells, rows: Sequence[Cells], *, whole: Cells = (), expendable: Cells = (), if_empty: str = ""
) -> None:
    """Print rows below a header as `table_lines`, fitted to the width of a terminal; else tell `if_empty` on stderr."""
    if not rows:
        if if_empty:
            echo(if_empty, err=True)
        return
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for number, line in enumerate(table_lines(header, rows, room, whole=whole, expendable=expendable)):
        echo(line, bold=number == 0 and room is not None)


def table_lines(
    header: Cells, rows: Sequence[Cells], room: int | None, *, whole: Cells = (), expendable: Cells = ()
) -> list[str]:
    """Return a header and rows as lines. Each column is as wide as its longest cell; the last one is not padded.

    The table is fitted to its room: columns of `expendable` are left out while the table does not fit even with the
    others cut to their minimum; then the last column is cut, then the widest ones.

    Args:
        header: The names of the columns.
        rows: The rows, with one cell for each column.
        room: The number of columns of the terminal; None cuts nothing.
        whole: The columns that are never cut. The first column is never cut either, because it holds names to type.
        expendable: The columns that may be left out, the least important first.
    """
    from rich.cells import cell_len

    rows = [[" ".join(plain_text(cell).split()) for cell in row] for row in rows]
    needed = {name: max(map(cell_len, cells)) for name, *cells in zip(header, header, *rows, strict=True)}
    widths = dict(needed)
    if room is not None:
        least = {
            name: width if name in (header[0], *whole) else min(width, LEAST_WIDTH) for name, width in needed.items()
        }
        for name in expendable:
            if _taken(least) > room:
                del least[name], widths[name]
        _narrow(widths, least, room)
    return [
        GAP.join(_cell(cell, widths[name]) for name, cell in zip(header, row, strict=True) if name in widths).rstrip()
        for row in (header, *rows)
    ]


def _narrow(widths: dict[str, int], least: Mapping[str, int], room: int) -> None:
    last = list(widths)[-1]
    widths[last] = max(least[last], widths[last] - max(0, _taken(widths) - room))
    while _taken(widths) > room and (wider := [name for name in widths if widths[name] > least[name]]):
        widths[max(wider, key=widths.__getitem__)] -= 1


def _taken(widths: Mapping[str, int]) -> int:
    return sum(widths.values()) + len(GAP) * (len(widths) - 1)


def _cell(text: str, width: int) -> str:
    from rich.text import Text

    cell = Text(text)
    cell.truncate(width, overflow="ellipsis", pad=True)
    return cell.plain
