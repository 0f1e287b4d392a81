"""Counts the lines of the product that are code: no docstrings, blank lines, imports and comments."""

import ast
from collections import Counter
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
FOLDERS: Final = ("protocol", "runner", "executors")
"""Where the product is."""


def modules() -> list[Path]:
    """Return the Python files of the product."""
    return sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))


def code_lines() -> Counter[str]:
    """Return the number of code lines of each package, such as runner/ao_runner/store."""
    lines: Counter[str] = Counter()
    for path in modules():
        folder = path.relative_to(ROOT).parent
        lines["/".join(folder.parts[:3])] += code_lines_of(path.read_text(encoding="utf-8"))
    return lines


def code_lines_of(text: str) -> int:
    """Return the number of lines of a module that are no docstring, import, comment or blank."""
    left_out: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Import() | ast.ImportFrom() | ast.Expr(value=ast.Constant(value=str())):
                left_out.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return sum(
        line.strip() != "" and number not in left_out and not line.strip().startswith("#")
        for number, line in enumerate(text.splitlines(), 1)
    )
