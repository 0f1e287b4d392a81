"""What a project, its configuration or an agent has written never makes the runner start a program through git."""

import os
import shlex
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pytest

from ao_runner.processes.workspaces import Workspace, WorkspacePlace, forget_workspaces, settle_interrupted
from tests.process.runner.test_sandbox import BWRAP, require_bwrap
from tests.process.runner.test_workspaces import Desk, workspace_of
from tests.repositories import git

pytestmark = pytest.mark.thorough

PROGRAMS: Final = (
    *("filter.c.clean", "filter.c.smudge", "filter.q.process", "core.fsmonitor", "diff.external", "diff.d.textconv"),
    *("diff.d.command", "merge.m.driver", "core.pager", "pager.rev-parse", "pager.config", "pager.diff", "core.editor"),
    *("alias.rev-parse", "alias.add", "core.sshCommand", "credential.helper", "core.askPass", "gpg.program"),
    *("core.gitProxy", "core.alternateRefsCommand", "uploadpack.packObjectsHook", "remote.origin.uploadpack"),
    *("sequence.editor", "interactive.diffFilter", "tar.tgz.command", "hook.h.command", "submodule.s.update"),
)
OTHERS: Final = (
    *("commit.gpgSign true", "filter.c.required true", "remote.origin.url /no/such", "remote.origin.promisor true"),
    *("extensions.partialClone origin", "remote.origin.partialclonefilter blob:none", "protocol.allow always"),
    *("hook.h.event reference-transaction", "diff.ignoreSubmodules none", "core.untrackedCache true"),
)
HOOKS: Final = (
    "post-checkout",
    "pre-commit",
    "post-commit",
    "reference-transaction",
    "post-index-change",
    "pre-auto-gc",
)
ATTRIBUTES: Final = "* filter=c diff=d merge=m\n*.q filter=q\n"


@dataclass
class Trap:
    """Programs of which each leaves a mark when it runs."""

    desk: Desk
    folder: Path

    @property
    def marks(self) -> list[str]:
        return sorted(path.name for path in (self.folder / "marks").iterdir())

    def program(self, name: str) -> str:
        """Return the path of a program that marks its name and passes its input on."""
        path = self.folder / "programs" / name
        path.write_text(f"#!/bin/sh\ntouch {shlex.quote(str(self.folder / 'marks' / name))}\nexec cat\n")
        path.chmod(0o755)
        return str(path)

    def configuration(self) -> str:
        """Return the text of a configuration in which every setting names a program."""
        hooks = self.folder / "hooks"
        hooks.mkdir(exist_ok=True)
        for hook in HOOKS:
            (hooks / hook).unlink(missing_ok=True)
            (hooks / hook).symlink_to(self.program(hook))
        settings = [(name, f"{'!' * (name.startswith('alias'))}{self.program(name)}") for name in PROGRAMS]
        settings += [(name, value) for name, _, value in (other.partition(" ") for other in OTHERS)]
        lines = []
        for name, value in [*settings, ("core.hooksPath", str(hooks))]:
            section, _, variable = name.rpartition(".")
            first, _, rest = section.partition(".")
            lines += [f'[{first} "{rest}"]' if rest else f"[{first}]", f"\t{variable} = {value}"]
        return "\n".join([*lines, ""])

    def written(self) -> Path:
        """Return a file with that configuration."""
        path = self.folder / "configuration"
        path.write_text(self.configuration())
        return path


@pytest.fixture
def trap(tmp_path: Path) -> Trap:
    project = tmp_path / "project"
    for folder in (project / "inner", tmp_path / "marks", tmp_path / "programs"):
        folder.mkdir(parents=True)
    (project / "inner" / "a.txt").write_text("one\n")
    (project / "b.q").write_text("one\n")
    (project / ".gitattributes").write_text(ATTRIBUTES)
    git(project, "init", "-q", "-b", "main")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "first")
    return Trap(Desk(project, tmp_path / "home"), tmp_path)


def set_in_the_repository(trap: Trap) -> None:
    with (trap.desk.project / ".git" / "config").open("a") as config:
        config.write(trap.configuration())
    (trap.desk.project / ".git" / "info" / "attributes").write_text(ATTRIBUTES)


def set_by_other_files_of_the_repository(trap: Trap) -> None:
    written = trap.written()
    git(trap.desk.project, "config", "extensions.worktreeConfig", "true")
    git(trap.desk.project, "config", f"includeIf.gitdir:{trap.folder}/.path", str(written))
    git(trap.desk.project, "config", "include.path", str(written))
    (trap.desk.project / ".git" / "config.worktree").write_text(trap.configuration())


def set_for_the_user(trap: Trap) -> None:
    home = trap.folder / "user"
    home.mkdir()
    (home / ".gitconfig").write_text(trap.configuration())
    trap.desk.environ = {**os.environ, "HOME": str(home)}


def set_by_variables(trap: Trap) -> None:
    programs = ("GIT_EXTERNAL_DIFF", "GIT_SSH_COMMAND", "GIT_SSH", "GIT_PAGER", "GIT_EDITOR", "GIT_ASKPASS", "PAGER")
    given = {name: trap.program(name) for name in programs}
    count = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "include.path", "GIT_CONFIG_VALUE_0": str(trap.written())}
    elsewhere = {"GIT_DIR": str(trap.folder / "elsewhere"), "GIT_EXEC_PATH": str(trap.folder / "programs")}
    trap.desk.environ = {**os.environ, **given, **count, **elsewhere, "GIT_CONFIG_GLOBAL": str(trap.written())}


def set_by_path(trap: Trap) -> None:
    for name in ("git", "cp", "git-rev-parse"):
        for folder in ("bin", "inner"):
            (trap.desk.project / folder).mkdir(exist_ok=True)
            (trap.desk.project / folder / name).symlink_to(trap.program(name))
    relative = os.path.relpath(trap.desk.project / "bin")
    entries = [relative, "", str(trap.desk.project / "inner"), os.environ["PATH"]]
    trap.desk.environ = {**os.environ, "PATH": os.pathsep.join(entries)}


SETTERS: Final = (
    *(set_in_the_repository, set_by_other_files_of_the_repository, set_for_the_user, set_by_variables, set_by_path),
)


@pytest.mark.parametrize("setter", SETTERS, ids=lambda setter: setter.__name__)
def test_no_setting_of_a_project_starts_a_program(trap: Trap, setter: Callable[[Trap], None]) -> None:
    setter(trap)
    session = trap.desk.session()

    first = workspace_of(trap.desk.run("echo two > inner/a.txt; echo two > b.q", session))
    second = workspace_of(trap.desk.run("echo three > inner/a.txt; exit 3", session))
    forget_workspaces(trap.desk.workspaces, [session.session_id])

    assert trap.marks == []
    assert first["file_count"] == 2
    assert "problem" not in first
    assert second["kept"] is True
    assert trap.desk.left() == []


COMMIT: Final = "git -C {} -c user.name=x -c user.email=x@x commit -qm x"


def leaves_repositories_and_changes_its_own(trap: Trap) -> str:
    """A repository of its own, a submodule that is checked out, and all files of the repository that git obeys."""
    configuration, attributes = shlex.quote(trap.configuration()), shlex.quote(ATTRIBUTES)
    return f"""
        git -c protocol.file.allow=always submodule -q update --init
        C=$(git rev-parse --git-common-dir); D=$(git rev-parse --git-dir); S=$(git -C s rev-parse --git-dir)
        git init -q n; echo x > n/x; git -C n add x; {COMMIT.format("n")}
        for config in n/.git $S; do printf %s {configuration} >> $config/config; done
        for tree in n s; do printf %s {attributes} > $tree/.gitattributes; echo y > $tree/a; echo y > $tree/x; done
        printf '[submodule "s"]\npath=s\nurl=../s\nignore=none\n' > .gitmodules
        printf %s {attributes} > $C/info/attributes; cp {trap.folder}/hooks/* $C/hooks
        git config extensions.worktreeConfig true; printf %s {configuration} > $D/config.worktree
        printf %s {configuration} >> $C/config
    """


def replaces_git_folders(trap: Trap) -> str:
    """The submodule is another repository now, and so is the worktree itself."""
    configuration, attributes = shlex.quote(trap.configuration()), shlex.quote(ATTRIBUTES)
    return f"""
        rmdir s; git init -q s; echo x > s/x; git -C s add x; {COMMIT.format("s")}
        printf %s {configuration} >> s/.git/config; printf %s {attributes} > s/.gitattributes; echo y > s/x
        printf '[submodule "s"]\npath=s\nurl=../s\nignore=none\n' > .gitmodules; printf %s {attributes} > .gitattributes
        mv s/.git n; rm .git; echo gitdir: n > .git; cp -r n s/.git
    """


def test_a_copy_is_made_by_no_program_of_the_project(trap: Trap) -> None:
    set_by_path(trap)
    trap.desk.kind = "copy"

    copied = workspace_of(trap.desk.run("echo two > b.q"))

    assert trap.marks == []
    assert copied["files"] == [{"path": "b.q", "change": "changed"}]


@pytest.mark.parametrize("sandboxed", [False, True], ids=["no sandbox", "bwrap"])
@pytest.mark.parametrize(
    "agent", [leaves_repositories_and_changes_its_own, replaces_git_folders], ids=lambda agent: agent.__name__
)
def test_nothing_that_an_agent_leaves_starts_a_program(
    trap: Trap, agent: Callable[[Trap], str], sandboxed: bool
) -> None:
    """In its runs, in the sweep after a killed runner, and when its session is deleted."""
    if sandboxed:
        require_bwrap()
    writable = ["--bind", str(trap.desk.project), str(trap.desk.project)]
    profile = {"sandbox": {"command": [*BWRAP[:4], *writable, *BWRAP[4:]]}} if sandboxed else {}
    module = trap.folder / "s"
    git(trap.folder, "clone", "-q", str(trap.desk.project), str(module))
    git(trap.desk.project, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "../s", "s")
    git(trap.desk.project, "commit", "-qm", "with a submodule")
    session = trap.desk.session("ses_1")
    place = WorkspacePlace.of_session(trap.desk.workspaces, "ses_1")

    first = workspace_of(trap.desk.run(f"{agent(trap)}\necho two > inner/a.txt", session, **profile))
    second = workspace_of(trap.desk.run("echo three > inner/a.txt", session, **profile))
    third = workspace_of(trap.desk.run("echo four > inner/a.txt; exit 3", session, **profile))
    left = place.read()
    assert isinstance(left, Workspace)
    place.write(replace(left, is_open=True))
    swept = settle_interrupted(trap.desk.workspaces, 60, trap.desk.environ)
    forget_workspaces(trap.desk.workspaces, ["ses_1"])

    assert trap.marks == []
    assert {"path": "inner/a.txt", "change": "changed"} in first["files"]  # type: ignore[operator]  # a list
    assert second["branch"] == "ao/ses_1"
    assert third["kept"] is True
    assert swept == [f"the workspace of a killed run is kept: {place.folder / 'project'}"]
    assert trap.desk.left() == []
    shown = ["git", "-c", "core.hooksPath=/dev/null", "--git-dir", str(trap.desk.project / ".git"), "cat-file", "-p"]
    content = subprocess.run([*shown, "ao/ses_1:inner/a.txt"], capture_output=True, text=True, check=True).stdout
    assert content == "three\n"


def test_a_tree_is_read_in_the_sandbox_or_not_at_all(trap: Trap) -> None:
    program = trap.folder / "without-git"
    program.write_text('#!/bin/sh\n[ "$1" != git ] || { echo no git here >&2; exit 1; }\nexec "$@"\n')
    program.chmod(0o755)
    session = trap.desk.session()

    kept = workspace_of(trap.desk.run("echo two > b.q", session, sandbox={"command": [str(program)]}))
    settled = workspace_of(trap.desk.run("true", session))

    assert kept["kept"] is True
    assert "which needs git: no git here" in str(kept["problem"])
    assert settled["files"] == [{"path": "b.q", "change": "changed"}]
    assert trap.desk.left() == []


def test_a_sandbox_may_hide_the_repository_and_the_home(trap: Trap) -> None:
    require_bwrap()
    hidden = [part for folder in (trap.desk.project, trap.desk.home) for part in ("--tmpfs", str(folder))]

    performed = trap.desk.run("echo two > b.q", sandbox={"command": [*BWRAP[:4], *hidden, *BWRAP[4:]]})

    assert workspace_of(performed)["files"] == [{"path": "b.q", "change": "changed"}]
    assert workspace_of(performed)["kept"] is False
