"""`ao new executor`: what it makes, and what it refuses to."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ao_executors.scaffold.project import BUILD, NameNotAllowed, PlaceTaken, make_project
from tests.executors.driver import invocation, run
from tests.executors.examples.conftest import EXAMPLES

AO = str(Path(sys.executable).with_name("ao"))
MAX_LINES = 150
CODE = sorted(
    path
    for folder in (EXAMPLES, EXAMPLES.parent / "ao_executors" / "scaffold" / "templates")
    for path in folder.rglob("*")
    if path.is_file() and "target" not in path.parts and path.suffix not in {"", ".md", ".lock"}
)


def new_executor(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([AO, "new", "executor", *arguments], capture_output=True, text=True, timeout=30, check=False)


def files_of(folder: Path, names: tuple[str, ...]) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in names}


@pytest.mark.parametrize("language", sorted(set(BUILD) - {"python"}))
def test_an_example_is_what_the_command_makes_under_the_languages_name(language: str, tmp_path: Path) -> None:
    made = make_project(language, tmp_path / language)

    assert files_of(tmp_path / language, made.files) == files_of(EXAMPLES / language, made.files)


@pytest.mark.parametrize("language", BUILD)
def test_a_project_has_an_executable_a_readme_a_ci_file_and_says_what_to_run_next(
    language: str, tmp_path: Path
) -> None:
    called = new_executor("--lang", language, str(tmp_path / "my-agent"), "--json")

    made = json.loads(called.stdout)
    assert {"README.md", ".gitignore", ".github/workflows/ci.yml"} <= set(made["files"])
    assert made["next"][-1] == "ao conformance run -- ./ao-my-agent-exec"
    assert not [name for name in made["files"] if "__NAME__" in (tmp_path / "my-agent" / name).read_text("utf-8")]


def test_the_executor_works_under_the_name_that_was_given(tmp_path: Path) -> None:
    project = make_project("python", tmp_path / "anything", "parrot")

    executable = str(project.folder / "ao-parrot-exec")
    shebang_free = [sys.executable, executable]
    ended = run(shebang_free, invocation(parameters={"prompt": "Polly"}))

    assert ended.events[0]["executor"]["name"] == "parrot"
    assert ended.terminal["result_text"] == "Polly"


def test_what_is_there_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")

    with pytest.raises(PlaceTaken, match="nothing was written"):
        make_project("bash", tmp_path, "x")

    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize("name", ["", "Über", "a b", "../x", "-x", "a" * 65], ids=repr)
def test_a_name_that_no_executable_could_have_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(NameNotAllowed):
        make_project("bash", tmp_path / "x", name)

    assert not (tmp_path / "x").exists()


def test_a_refusal_is_told_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")

    called = new_executor("--lang", "bash", str(tmp_path), "--name", "x")

    assert called.returncode == 2
    assert "nothing was written" in called.stderr
    assert "Traceback" not in called.stderr


@pytest.mark.parametrize("path", CODE, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_no_file_of_an_example_is_longer_than_can_be_read_at_once(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_LINES
