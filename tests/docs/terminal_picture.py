"""Draw the README's run as it looks in a terminal: `python -m tests.docs.terminal_picture`, from the project's root.

It runs the command and writes docs/images/terminal-run.svg. The picture uses the fonts of its viewer, and no address.
"""

import io
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text

ROOT: Final = Path(__file__).parents[2]
EXAMPLE: Final = Path("docs/examples/pr-reviewer")
COLOURS: Final = {"$ ao": "bold", "✗ ": "yellow", "✓ ": "green", "· ": "bright_black"}
TIME: Final = re.compile(r"^\[ *[0-9.]+s\] ")
"""The time before each line where stderr is no terminal."""
PICTURE: Final = """<svg viewBox="0 0 {terminal_width} {terminal_height}" xmlns="http://www.w3.org/2000/svg">
<style>.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, monospace; font-size: {char_height}px;
line-height: {line_height}px; }} {styles}</style>
<rect fill="#191919" width="100%" height="100%" rx="8"/>
<g transform="translate(16, 14)">{backgrounds}<g class="{unique_id}-matrix">{matrix}</g></g></svg>
"""


def lines() -> list[str]:
    """Return the command and what it prints, in the order and form of a terminal."""
    options = [f"{EXAMPLE}/blueprint.json", "--model-script", f"{EXAMPLE}/model-script.json"]
    ao = Path(sys.executable).with_name("ao")
    with (ROOT / EXAMPLE / "prompt.md").open() as prompt:
        run = subprocess.run([ao, "run", *options], stdin=prompt, capture_output=True, text=True, cwd=ROOT, check=True)
    told = [TIME.sub("", line) for line in run.stderr.splitlines() if "continue:" not in line]
    command = "$ ao run blueprint.json --model-script model-script.json < prompt.md"
    return [command, *told[:-1], *run.stdout.splitlines(), told[-1]]


def main() -> None:
    """Write the picture."""
    console = Console(record=True, width=122, file=io.StringIO())
    for line in lines():
        colour = next((colour for mark, colour in COLOURS.items() if mark in line), "white")
        console.print(Text(line, style=colour), no_wrap=True)
    console.print()
    svg = console.export_svg(code_format=PICTURE, theme=DIMMED_MONOKAI, unique_id="run")
    svg = re.sub(r"<text[^>]*>\s*</text>| clip-path=\"[^\"]*\"", "", svg)  # nothing is longer than its line
    (ROOT / "docs/images/terminal-run.svg").write_text(svg)


if __name__ == "__main__":
    main()
