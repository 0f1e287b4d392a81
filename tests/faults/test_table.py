"""The table of faults is true: every case has its test, and every test of these folders its case."""

import ast

import pytest

from tests.faults.table import FOLDER, PAGE, ROOT, Case, page_with, read_cases

CASES = read_cases()


@pytest.mark.parametrize("case", CASES, ids=[f"{case.part}/{case.name}" for case in CASES])
def test_the_test_of_a_case_is_there(case: Case) -> None:
    path, _, named = case.test.partition("::")
    function, _, chosen = named.removesuffix("]").partition("[")
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    assert function in functions_of(tree)
    words = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    assert chosen == "" or chosen in words


def test_every_test_here_is_the_test_of_a_case() -> None:
    named = {case.test.partition("[")[0] for case in CASES}
    there = {
        f"{path.relative_to(ROOT)}::{function}"
        for path in FOLDER.glob("*/test_*.py")
        for function in functions_of(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert there - named == set()


def test_the_page_shows_the_cases_of_today() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text == page_with(text, CASES), "write it anew: python -m tests.faults.table"


def functions_of(tree: ast.Module) -> set[str]:
    return {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    }
