"""The house rules that no linter checks."""

import ast
import re
import subprocess
import sys
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


def test_the_schemas_of_wire_documents_are_generated_from_the_models() -> None:
    script = ROOT / ".ci" / "schemas"
    made = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, timeout=100, check=False)

    assert (made.returncode, made.stderr) == (0, "")


def test_import_ao_protocol_imports_nothing_before_a_name_is_used() -> None:
    script = "import sys, ao_protocol; print(*[name for name in sys.modules if name.startswith(('ao_', 'pydantic'))])"
    ran = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=100)

    assert ran.stdout.split() == ["ao_protocol"]
