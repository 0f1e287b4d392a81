"""`ao new executor`: what it makes, and what it refuses to."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from ao_executors.scaffold.project import (
    LANGUAGES,
    ProjectError,
    fill_templates,
    make_project,
    read_example,
)
from tests.process.executors.examples.conftest import EXAMPLES

AO = str(Path(sys.executable).with_name("ao"))


def new_executor(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([AO, "new", "executor", *arguments], capture_output=True, text=True, timeout=100, check=False)


def test_what_was_built_in_an_example_does_not_come_along(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES / "rust", tmp_path / "rust")
    (tmp_path / "rust" / "ao-rust-exec").write_bytes(b"\x7fELF\xff")
    (tmp_path / "rust" / "target").mkdir()
    (tmp_path / "rust" / "target" / "object.o").write_bytes(b"\xff")

    assert read_example("rust", "parrot", tmp_path) == read_example("rust", "parrot")


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_project_has_an_executable_a_readme_a_ci_file_and_says_what_to_run_next(
    language: str, tmp_path: Path
) -> None:
    called = new_executor("--lang", language, str(tmp_path / "my-agent"), "--json")

    made = json.loads(called.stdout)
    assert {"README.md", ".github/workflows/ci.yml"} <= set(made["files"])
    assert made["next"][-1] == "ao conformance run -- ./ao-my-agent-exec"
    own_name = f"ao-{language}-exec"
    texts = {name: (tmp_path / "my-agent" / name).read_text("utf-8") for name in made["files"]}
    assert not [name for name, text in texts.items() if own_name in name + text]
    assert not re.search(r"\b(EXECUTABLE|SOURCE|NEEDS|NEXT|BUILD)\b", "".join(texts.values()))


def test_the_ci_file_installs_from_where_the_author_says_and_tells_where_nothing_is_said() -> None:
    project = fill_templates("c", "parrot")
    (job,) = yaml.safe_load(project[".github/workflows/ci.yml"])["jobs"].values()
    (install,) = [step["run"] for step in job["steps"] if "pip install" in step.get("run", "")]

    unset, installed = (
        subprocess.run(
            ["/bin/bash", "-e", "-c", install],
            env={"PATH": f"{Path(AO).parent}:{os.environ['PATH']}", "PIP_NO_INDEX": "1", "AO_PROTOCOL": source},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        for source in ("", "ao-executor-protocol[cli]")
    )

    assert job["env"] == {"AO_PROTOCOL": "${{ vars.AO_PROTOCOL }}"}
    assert unset.returncode != 0
    assert "AO_PROTOCOL: is not set; README.md says what it is for" in unset.stderr
    assert installed.returncode == 0, installed.stderr
    assert "Set the repository variable `AO_PROTOCOL`" in project["README.md"]


def test_what_is_there_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")

    with pytest.raises(ProjectError, match="nothing was written"):
        make_project("bash", tmp_path, "x")

    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize("name", ["", "Über", "a b", "../x", "-x", "a" * 65], ids=repr)
def test_a_name_that_no_executable_could_have_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ProjectError, match="not a valid executor name"):
        make_project("bash", tmp_path / "x", name)

    assert not (tmp_path / "x").exists()


def test_a_refusal_is_told_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")

    called = new_executor("--lang", "bash", str(tmp_path), "--name", "x")

    assert called.returncode == 2
    assert "nothing was written" in called.stderr
    assert "Traceback" not in called.stderr
