"""Which functions of the reference executor each vector enters: what it never enters it cannot see broken."""

import ast
import stat
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ao_conformance.suite import Plan, run_suite
from ao_conformance.vectors import ProcessVector

Function = tuple[str, int]
"""The file of a function and the line in which it begins."""

NOTING = """\
#!/usr/bin/env -S python3 -I -S
import os
import sys

entered = set()
noted = os.open({notes!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def note(frame, event, argument):
    code = frame.f_code
    if event == "call" and code not in entered:
        entered.add(code)
        os.write(noted, f"{{os.path.basename(code.co_filename)}}:{{code.co_firstlineno}}\\n".encode())


sys.path.insert(0, {reference!r})
sys.setprofile(note)
from command_line import main

code = main(sys.argv[1:])
sys.stdout.flush() if sys.stdout else None
os._exit(code)
"""


def entered_functions(
    reference: Path, vectors: Sequence[ProcessVector], scratch: Path, jobs: int
) -> dict[str, frozenset[Function]]:
    """Play each vector at the whole reference executor; return what it enters, by the id of the vector."""

    for vector in vectors:
        _write_executable(scratch / vector.id, reference)
    with ThreadPoolExecutor(jobs) as pool:
        noted = pool.map(lambda vector: _noted(vector, scratch / vector.id), vectors)
        return dict(zip((vector.id for vector in vectors), noted, strict=True))


def _write_executable(folder: Path, reference: Path) -> None:
    folder.mkdir()
    executable = folder / "ao-reference-exec"
    executable.write_text(NOTING.format(notes=str(folder / "notes"), reference=str(reference)), encoding="utf-8")
    executable.chmod(stat.S_IRWXU)


def _noted(vector: ProcessVector, folder: Path) -> frozenset[Function]:
    run_suite(Plan(command=(str(folder / "ao-reference-exec"),), vectors=[vector], jobs=1))
    lines = (folder / "notes").read_text(encoding="utf-8").splitlines()
    return frozenset((file, int(line)) for file, _, line in (text.partition(":") for text in lines))


def function_around(source: str, piece: str) -> int | None:
    """Return the line in which the innermost function around a piece of source begins; None outside of its body."""
    begin = source.index(piece) + len(piece) - len(piece.lstrip())
    first = source.count("\n", 0, begin) + 1
    last = first + piece.strip().count("\n")
    around = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef) and node.body[0].lineno <= first and last <= (node.end_lineno or 0)
    ]
    if not around:
        return None
    innermost = max(around, key=lambda node: node.lineno)
    return min([innermost.lineno, *(decorator.lineno for decorator in innermost.decorator_list)])
