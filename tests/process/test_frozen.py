"""What version 3.0 means does not change: requirements, schemas and vectors are those that were frozen (SPEC 13)."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def freeze(root: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, str(root / ".ci" / "freeze"), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "protocol", tmp_path / "protocol", ignore=shutil.ignore_patterns("__pycache__", "*.py"))
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "freeze", tmp_path / ".ci")
    return tmp_path


def requirements_of(root: Path) -> Path:
    return root / "protocol" / "ao_protocol" / "requirements" / "3.0.json"


def test_requirements_schemas_and_vectors_are_those_that_were_frozen() -> None:
    checked = freeze(ROOT, "--check")

    assert (checked.returncode, checked.stderr) == (0, "")


def test_a_changed_requirement_is_refused_with_what_it_needs(copy: Path) -> None:
    file = requirements_of(copy)
    file.write_text(file.read_text(encoding="utf-8").replace('"keyword": "SHOULD"', '"keyword": "MUST"', 1))

    checked, written = freeze(copy, "--check"), freeze(copy)

    assert checked.returncode == 1
    assert "requirements/3.0.json" in checked.stderr
    assert "3.1" in checked.stderr
    assert written.returncode == 1
    assert "without an erratum" in written.stderr


def test_a_new_vector_is_a_change(copy: Path) -> None:
    file = copy / "protocol" / "ao_protocol" / "vectors" / "3.0" / "new.json"
    file.write_text('{"topic": "New", "vectors": []}')

    assert "vectors/3.0/new.json" in freeze(copy, "--check").stderr


def test_a_reason_and_a_description_may_be_reworded(copy: Path) -> None:
    file = requirements_of(copy)
    document = json.loads(file.read_text(encoding="utf-8"))
    document["requirements"][0]["why"] = "Because."
    file.write_text(json.dumps(document))

    assert freeze(copy, "--check").returncode == 0


def test_an_erratum_lets_the_correction_be_frozen(copy: Path) -> None:
    spec = copy / "protocol" / "SPEC.md"
    spec.write_text(spec.read_text(encoding="utf-8").rstrip() + "\n| 2027-01-01 | AOX-010 | a word |\n")
    file = requirements_of(copy)
    file.write_text(file.read_text(encoding="utf-8").replace("malformed", "not of this form", 1))

    written = freeze(copy)

    assert (written.returncode, written.stderr) == (0, "")
    assert freeze(copy, "--check").returncode == 0
