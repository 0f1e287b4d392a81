"""The house rules that no linter checks."""

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from ao_protocol.events import BODIES
from tests.benchmarks.code_lines import code_lines, code_lines_of

ROOT = Path(__file__).parents[1]
MODULES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for folder in ("protocol", "runner", "executors")
    for path in sorted((ROOT / folder).rglob("*.py"))
}
MAX_LINES = 500
FOREIGN_SENTENCES = {
    "executors/ao_executors/claude_code/claude_connection.py": "the CLI tells some failures on stderr only",
    "executors/ao_executors/claude_code/claude_turn.py": "the CLI answers so at its output limit, as a message",
    "executors/ao_executors/codex/codex_connection.py": "an error of the app server has no code of its own",
    "executors/ao_executors/codex/codex_process.py": "the CLI tells it on stderr only",
    "protocol/ao_protocol/extraction/damage.py": "Python's decoder tells why a text breaks by a sentence only",
    "protocol/ao_protocol/written.py": "libyaml tells its limit of depth by a sentence only",
    "runner/ao_lifeline/removal.py": "a line of cgroup.events",
    "runner/ao_runner/outbox/outbox_file.py": "the SQL of the tables, as SQLite returns it",
    "runner/ao_runner/outbox/owning.py": "the content of a file, which a person may read",
    "runner/ao_runner/runs/attempt.py": "the step of a start, as a keeper in another process names it",
    "runner/ao_runner/worker/metrics.py": "a request line of HTTP",
}
"""By module: why it compares sentences. All others decide by values."""
IN_EVERY_FOLDER = {"__init__.py", "__main__.py"}
SAYS_NOTHING = {"base", "common", "helpers", "manager", "misc", "util", "utils"}


def test_a_module_is_short_enough_to_be_read_at_once() -> None:
    assert [name for name, text in MODULES.items() if len(text.splitlines()) > MAX_LINES] == []


def test_the_product_has_no_more_code_lines_than_the_decision_on_its_size_names() -> None:
    decision = (ROOT / "docs" / "decisions" / "size.md").read_text(encoding="utf-8")
    named = re.search(r"^\| code lines of the product \| [\d,]+ \| ([\d,]+) \|", decision, re.MULTILINE)
    assert named

    assert code_lines().total() <= int(named[1].replace(",", "")), (
        "say in docs/decisions/size.md what more lines are for"
    )


def test_docstrings_imports_comments_and_blank_lines_are_no_code_lines() -> None:
    module = '''"""A module."""

import sys
from json import (
    dumps,
)


# A comment.
def say(text: str) -> str:
    """Say it.

    Returns: What was said.
    """
    sys.stdout.write(text)  # at once
    return """one

two"""
'''
    assert code_lines_of(module) == 4


def test_a_module_begins_by_saying_what_it_is_for() -> None:
    assert [name for name, text in MODULES.items() if not ast.get_docstring(ast.parse(text))] == []


def test_a_module_has_a_name_that_says_something() -> None:
    assert [name for name in MODULES if Path(name).stem in SAYS_NOTHING] == []


def test_no_file_name_occurs_twice_in_a_package() -> None:
    found = Counter((Path(name).parts[1], Path(name).name) for name in MODULES)
    twice = {one for one, count in found.items() if count > 1 and one[1] not in IN_EVERY_FOLDER}

    assert twice == set()


def test_no_pattern_has_a_possessive_group() -> None:
    # Before Python 3.11.5, one whose last repetition fails continues where that failed (python/cpython#106052).
    assert [name for name, text in MODULES.items() if re.search(r"\(\?:.*\)[*+?]\+", text)] == []


def test_text_for_people_is_cut_in_one_module() -> None:
    # A slice next to the mark, in a text or added to it: f"{text[:80]}…", text[:80] + "…".
    cut = re.compile(r"""\[[^]\n]*:[^]\n]*\]\s*(?:\}|\+|and|if)[ f]*["']? ?…|…["'] ?\+|… ?\{[^}\n]*\[[^]\n]*:""")
    stands_by_itself = {"protocol/ao_model_simulator/playback.py", "protocol/ao_model_simulator/script.py"}

    assert {name for name, text in MODULES.items() if cut.search(text)} == stands_by_itself


def test_events_among_undecoded_lines_are_found_in_one_module() -> None:
    # `b'"usage"' in line` is also true of a text that quotes it; `events_of_types` is exact.
    searched = re.compile(rf"""b(?:'"|"\\")({"|".join(BODIES)})\b""")

    assert [name for name, text in MODULES.items() if searched.search(text)] == []


def test_nothing_decides_by_a_sentence_of_our_own() -> None:
    trees = {name: ast.parse(text) for name, text in MODULES.items()}
    constants = {_dotted(name): _constants_of(tree) for name, tree in trees.items()}
    deciding = {name for name, tree in trees.items() if _compares_sentences(tree, constants, _dotted(name))}

    assert deciding == FOREIGN_SENTENCES.keys()


def _dotted(name: str) -> str:
    """Return the name by which a module is imported."""
    return ".".join(Path(name).with_suffix("").parts[1:])


def _constants_of(tree: ast.Module) -> dict[str, ast.expr]:
    """Return the values that a module binds to names, without its functions and classes."""
    found: dict[str, ast.expr] = {}
    for node in tree.body:
        if isinstance(node, ast.AnnAssign | ast.Assign) and node.value is not None:
            targets = [node.target] if isinstance(node, ast.AnnAssign) else node.targets
            found |= {target.id: node.value for target in targets if isinstance(target, ast.Name)}
    return found


def _compares_sentences(tree: ast.Module, constants: dict[str, dict[str, ast.expr]], module: str) -> bool:
    """Return whether a comparison, `startswith` or `endswith` has an operand that is a text with a space inside."""
    known = dict(constants[module])
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            others = constants.get(node.module or "", {})
            known |= {one.asname or one.name: others[one.name] for one in node.names if one.name in others}
    operands: list[ast.expr] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            operands += [node.left, *node.comparators]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            operands += node.args if node.func.attr in {"startswith", "endswith"} else []
        elif isinstance(node, ast.MatchValue):
            operands.append(node.value)
    return any(" " in text.strip() for operand in operands for text in _texts_of(operand, known))


def _texts_of(node: ast.expr, known: dict[str, ast.expr]) -> Iterator[str]:
    """Yield the texts that an expression consists of, also by the names of constants."""
    match node:
        case ast.Constant(value=str() as text):
            yield text
        case ast.Constant(value=bytes() as text):
            yield text.decode("latin-1")
        case ast.JoinedStr(values=parts):
            yield "".join(str(part.value) for part in parts if isinstance(part, ast.Constant))
        case ast.Tuple(elts=parts) | ast.Set(elts=parts) | ast.List(elts=parts):
            for part in parts:
                yield from _texts_of(part, known)
        case ast.Call(func=ast.Name(id="frozenset" | "set" | "tuple"), args=parts):
            for part in parts:
                yield from _texts_of(part, known)
        case ast.Name(id=name) if name in known:
            yield from _texts_of(known[name], {other: value for other, value in known.items() if other != name})


def test_the_schemas_of_wire_documents_are_generated_from_the_models() -> None:
    script = ROOT / ".ci" / "schemas"
    made = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, timeout=100, check=False)

    assert (made.returncode, made.stderr) == (0, "")


def test_import_ao_protocol_imports_nothing_before_a_name_is_used() -> None:
    script = "import sys, ao_protocol; print(*[name for name in sys.modules if name.startswith(('ao_', 'pydantic'))])"
    ran = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=100)

    assert ran.stdout.split() == ["ao_protocol"]
