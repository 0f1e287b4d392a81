"""Worktrees of repositories of every kind: what the agent changes is on the branch, and nothing else is."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.process.runner.test_workspaces import Desk, workspace_of
from tests.repositories import git

pytestmark = pytest.mark.thorough


def plain(folder: Path, *options: str) -> Path:
    project = folder / "plain"
    for name in ("inner", "outer"):
        (project / name).mkdir(parents=True)
        (project / name / "a.txt").write_text("one\n")
    (project / "link").symlink_to("inner/a.txt")
    (project / ".gitignore").write_text("*.log\n")
    git(project, "init", "-q", "-b", "main", *options)
    for allowed in ("allowFilter", "allowAnySHA1InWant"):
        git(project, "config", f"uploadpack.{allowed}", "true")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "first")
    git(project, "commit", "-q", "--allow-empty", "-m", "second")
    return project


def sha256_with_a_split_index(folder: Path) -> Path:
    project = plain(folder, "--object-format=sha256")
    git(project, "config", "core.splitIndex", "true")
    git(project, "config", "core.untrackedCache", "true")
    return project


def cloned(folder: Path, *options: str) -> Path:
    git(folder, "clone", "-q", *options, f"file://{plain(folder)}", "clone")
    return folder / "clone"


def shallow(folder: Path) -> Path:
    return cloned(folder, "--depth=1")


def sparse_and_partial(folder: Path) -> Path:
    project = cloned(folder, "--filter=blob:none", "--sparse")
    git(project, "sparse-checkout", "set", "inner")
    return project


def packed_with_alternates(folder: Path) -> Path:
    git(folder, "clone", "-q", "--shared", str(plain(folder)), "clone")
    git(folder / "clone", "gc", "-q")
    return folder / "clone"


def linked_to_a_bare_one(folder: Path) -> Path:
    git(folder, "clone", "-q", "--bare", str(plain(folder)), "bare")
    git(folder / "bare", "worktree", "add", "-q", str(folder / "linked"), "HEAD~1")
    return folder / "linked"


def of_a_submodule(folder: Path) -> Path:
    git(folder, "init", "-q", "above")
    git(folder / "above", "-c", "protocol.file.allow=always", "submodule", "-q", "add", str(plain(folder)), "module")
    return folder / "above" / "module"


KINDS: Final = (
    *(sha256_with_a_split_index, shallow, sparse_and_partial, packed_with_alternates, linked_to_a_bare_one),
    of_a_submodule,
)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_the_changes_of_two_runs_are_on_the_branch(tmp_path: Path, kind: Callable[[Path], Path]) -> None:
    project = kind(tmp_path)
    desk = Desk(project, tmp_path / "home")
    session, before = desk.session("ses_1"), git(project, "rev-parse", "HEAD")

    status = "git status --porcelain"
    first = desk.run(f"{status}; echo two > inner/a.txt; ln -sf b link; echo > x.log; git add .; {status}", session)
    replacing = "cat inner/a.txt; rm inner/a.txt; mkdir inner/a.txt; echo > inner/a.txt/b"
    second = desk.run(f"{replacing}; [ -e outer ] || echo none", session)

    assert first.result.result_text == "M  inner/a.txt\nM  link"
    assert second.result.result_text == ("two\nnone" if "sparse" in kind.__name__ else "two")
    assert workspace_of(first)["files"] == [
        {"path": "inner/a.txt", "change": "changed"},
        {"path": "link", "change": "changed"},
    ]
    changes = git(project, "diff", "--no-renames", "--name-status", before, "ao/ses_1").split("\n")
    assert changes == ["D\tinner/a.txt", "A\tinner/a.txt/b", "M\tlink"]
    assert workspace_of(second)["kept"] is False
    assert "problem" not in workspace_of(second)
    assert git(project, "status", "--porcelain") == ""
    assert git(project, "rev-parse", "HEAD") == before
    assert desk.left() == []


def test_a_repository_that_lacks_objects_is_refused_and_asks_nobody_for_them(tmp_path: Path) -> None:
    project = cloned(tmp_path, "--filter=blob:none", "--no-checkout")
    git(project, "config", "remote.origin.uploadpack", f"touch {tmp_path}/asked; git-upload-pack")
    desk = Desk(project, tmp_path / "home")

    failure = desk.run("true").failure

    assert failure.error.type == "workspace_error"
    assert f"git -C {project} archive" in failure.error.message
    assert not (tmp_path / "asked").exists()
    assert desk.left() == []
    assert len(git(project, "worktree", "list").splitlines()) == 1
    git(project, "archive", "-o", str(tmp_path / "archive.tar"), "HEAD")
    assert desk.run("cat link").result.result_text == "one"
