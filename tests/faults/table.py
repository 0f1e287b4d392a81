"""The table of faults: read from the parts' `cases.toml`, shown in README.md.

usage: python -m tests.faults.table      writes the table into README.md, from the project's root
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
PAGE = FOLDER / "README.md"
BEGIN = "<!-- the table: python -m tests.faults.table -->"


@dataclass(frozen=True, slots=True)
class Case:
    """One fault: what is injected, what is expected, and the test that does it, as `path::function[id]`."""

    part: str
    name: str
    injected: str
    expected: str
    test: str


def read_cases() -> list[Case]:
    """Return the cases of all parts, those of a part in the order of its file."""
    return [
        Case(path.parent.name, name, **fields)
        for path in sorted(FOLDER.glob("*/cases.toml"))
        for name, fields in tomllib.loads(path.read_text(encoding="utf-8")).items()
    ]


def shown(cases: list[Case]) -> str:
    """Return the table as Markdown."""
    lines = [f"{len(cases)} cases.", ""]
    for part in dict.fromkeys(case.part for case in cases):
        of_part = [case for case in cases if case.part == part]
        lines += [f"## {part} ({len(of_part)})", "", "| case | what is injected | what is expected | test |"]
        lines += ["| --- | --- | --- | --- |"]
        lines += [f"| {case.name} | {case.injected} | {case.expected} | `{case.test}` |" for case in of_part]
        lines.append("")
    return "\n".join(lines)


def page_with(text: str, cases: list[Case]) -> str:
    """Return the page with the table of today behind its mark."""
    return f"{text.partition(BEGIN)[0]}{BEGIN}\n\n{shown(cases)}"


if __name__ == "__main__":
    PAGE.write_text(page_with(PAGE.read_text(encoding="utf-8"), read_cases()), encoding="utf-8")
