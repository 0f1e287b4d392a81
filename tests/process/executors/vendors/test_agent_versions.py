"""The versions of agents: what is said about the one on a machine, and when a run is refused."""

import json
from pathlib import Path

import pytest

from ao_executors.core import Findings, RunFailed
from ao_executors.vendors.agent_versions import KNOWN, examine, refuse_too_old


def installed(folder: Path, version: str, **package: object) -> Path:
    """Install a program as npm does: a link to a file in a package."""
    program = folder / "modules" / "qwen" / "cli.js"
    program.parent.mkdir(parents=True)
    program.write_text("")
    document = {"bin": "cli.js", "version": version, **package}
    (program.parent / "package.json").write_text(json.dumps(document), encoding="utf-8")
    (folder / "qwen").symlink_to(program)
    return folder / "qwen"


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `node` of version 20, which writes into its home."""
    program = tmp_path / "bin" / "node"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho > "$HOME/left-behind"\necho v20.20.2\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    return program


@pytest.mark.parametrize("version", [KNOWN["qwen"].oldest, KNOWN["qwen"].newest])
def test_a_version_that_was_tried_is_told_with_its_path(version: str, tmp_path: Path) -> None:
    path = installed(tmp_path, version)
    told: list[dict[str, str | None]] = [{"name": "qwen", "path": str(path), "version": version}]
    assert examine("qwen", path, "npm install it") == Findings([], told)


def test_an_old_version_is_a_problem_and_an_old_node_may_be_its_cause(tmp_path: Path, node: Path) -> None:
    (problem,) = examine("qwen", installed(tmp_path, "0.15.10"), "npm install it").problems

    assert problem.startswith(f"qwen 0.15.10 at {tmp_path}/qwen is too old; ")
    assert problem.endswith(
        "npm install it. `node` on PATH is 20.20.2, for which npm installs an old version without a word"
    )


def test_a_newer_version_and_an_old_node_are_remarks_and_no_home_is_written_to(tmp_path: Path, node: Path) -> None:
    found = examine("qwen", installed(tmp_path, "99.0.0", engines={"node": ">=22"}), "npm install it")

    assert found.problems == []
    assert found.remarks == [
        f"qwen 99.0.0 is newer than {KNOWN['qwen'].newest}, the newest that was tried",
        "qwen 99.0.0 asks for Node >=22, and `node` on PATH is 20.20.2",
    ]
    assert list((tmp_path / "home").iterdir()) == []


def test_a_program_that_is_not_of_npm_is_asked_for_its_version(node: Path) -> None:
    assert examine("codex", node, "install it").programs == [{"name": "codex", "path": str(node), "version": "20.20.2"}]


@pytest.mark.parametrize(
    ("version", "is_refused"), [("0.15.10", True), ("0.24.4", False), ("0.100.0", False), (None, False)]
)
def test_an_agent_that_says_that_it_is_too_old_fails_the_run(version: str | None, is_refused: bool) -> None:
    if not is_refused:
        refuse_too_old("qwen", version, "install it")
        return
    with pytest.raises(
        RunFailed, match=r"qwen 0\.15\.10 is too old: 0\.24\.0 is the oldest that works: install it"
    ) as failed:
        refuse_too_old("qwen", version, "install it")
    assert failed.value.error_type == "dependency_missing"
