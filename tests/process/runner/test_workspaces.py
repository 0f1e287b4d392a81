"""Runs in a worktree or a copy of their project, with real repositories: nothing is overwritten, nothing is lost."""

import asyncio
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from ao_protocol.events import SessionBound, VendorEvent
from ao_protocol.wire import JsonObject
from ao_runner.discovery import Executor
from ao_runner.profiles import Profile
from ao_runner.runs.attempt import ColdLauncher
from ao_runner.runs.journal import StoredJournal
from ao_runner.runs.run import perform_run
from ao_runner.runs.run_request import RunRequest, StopRequests
from ao_runner.runs.submission import new_run_id, new_session_id
from ao_runner.store.ownership import own_runs
from ao_runner.store.records import Run, Session
from ao_runner.store.sqlite_store import SqliteStore
from tests.process.runner.performing import MINIATURES, PATIENT, Follower, Performed, check_whole
from tests.repositories import git

DOING = MINIATURES / "does_what_its_prompt_says.py"


@dataclass
class Desk:
    """A project with one commit, and a home whose runs work on it."""

    project: Path
    home: Path
    kind: str = "worktree"
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)

    @property
    def workspaces(self) -> Path:
        return self.home / "workspaces"

    def session(self, session_id: str | None = None) -> Session:
        made = Session(session_id or new_session_id(), "now", "doing", str(DOING), str(self.project), {"name": "agent"})
        with SqliteStore(self.home) as store:
            store.sessions.add(made)
        return made

    def run(self, prompt: str, session: Session | None = None, **profile: Any) -> Performed:
        """Perform the first run of a new session, or a further one of a session."""
        mode = "start" if session is None else "resume"
        session = replace(session or self.session(), executor_session_id="mine")
        run = Run(new_run_id(), session.session_id, mode, {"prompt": prompt}, "now")  # type: ignore[arg-type]  # one of two
        made = Profile(name="mine", executor=str(DOING), **{"workspace": self.kind, **profile})
        follower = Follower()
        with SqliteStore(self.home) as store, own_runs(self.home) as owner:
            request = RunRequest(session, run, Executor("doing", DOING), self.environ)
            request = replace(request, profile=made, workspaces=self.workspaces, grace_periods=PATIENT)
            journal = StoredJournal(store, run, follower, owner)
            terminal = asyncio.run(perform_run(request, journal, StopRequests(), ColdLauncher()))
            record = store.runs.find_record(run.run_id)
            lines = [event.line for event in store.events.of_session(session.session_id, run_id=run.run_id)]
        assert record is not None
        performed = Performed(terminal, follower.events, follower.notes, record, lines, [])
        check_whole(performed)
        return performed

    def left(self) -> list[str]:
        return sorted(path.name for path in self.workspaces.iterdir())


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    project = tmp_path / "project"
    (project / "inner").mkdir(parents=True)
    (project / "inner" / "a.txt").write_text("one\n")
    (project / ".gitignore").write_text("*.log\n")
    git(project, "init", "-q", "-b", "main")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "first")
    return Desk(project, tmp_path / "home")


def diffs_of(performed: Performed) -> dict[str, str]:
    """Return the diffs of changed files by path."""
    (told,) = [item.event.body for item in performed.events if isinstance(item.event.body, VendorEvent)]
    diffs: Any = told.fields["diffs"]
    return dict(diffs)


def workspace_of(performed: Performed) -> JsonObject:
    """Return the record of the workspace, after a check that the event before the terminal one says the same.

    The event has the diffs, too.
    """
    told = [item.event.body for item in performed.events if item.event_type == "_ao/workspace"]
    assert performed.record.workspace is not None
    if told:
        assert isinstance(told[0], VendorEvent)
        assert performed.events[-2].event_type == "_ao/workspace"
        assert {name: value for name, value in told[0].fields.items() if name != "diffs"} == performed.record.workspace
    return performed.record.workspace


def test_changes_are_on_a_branch_when_the_result_comes_and_the_worktree_is_gone(desk: Desk) -> None:
    session = desk.session("ses_1")

    performed = desk.run("echo two > inner/a.txt; echo new > b.txt; rm .gitignore; pwd", session)

    changed = workspace_of(performed)
    assert performed.result.result_text == str(desk.workspaces / "ses_1" / "project")
    assert (changed["branch"], changed["kept"], changed["base"]) == (
        "ao/ses_1",
        False,
        git(desk.project, "rev-parse", "HEAD"),
    )
    assert changed["files"] == [
        {"path": ".gitignore", "change": "removed"},
        {"path": "b.txt", "change": "added"},
        {"path": "inner/a.txt", "change": "changed"},
    ]
    assert git(desk.project, "rev-parse", "ao/ses_1") == changed["commit"]
    assert git(desk.project, "show", "ao/ses_1:b.txt") == "new"
    assert git(desk.project, "status", "--porcelain") == ""
    assert len(git(desk.project, "worktree", "list").splitlines()) == 1
    assert desk.left() == []


def test_the_event_has_the_diff_of_each_changed_file(desk: Desk) -> None:
    diffs = diffs_of(
        desk.run("echo two >> inner/a.txt; printf 'caf\\351\\n' > 'b c.txt'; rm .gitignore; ln -sf x inner/l")
    )

    assert diffs["inner/a.txt"].endswith("--- a/inner/a.txt\n+++ b/inner/a.txt\n@@ -1 +1,2 @@\n one\n+two\n")
    assert "+caf\ufffd\n" in diffs["b c.txt"]
    assert "-*.log\n" in diffs[".gitignore"]
    assert "new file mode 120000" in diffs["inner/l"]


@pytest.mark.thorough
def test_a_diff_is_bounded_and_no_file_takes_that_of_another(desk: Desk) -> None:
    made = "seq 9000 > inner/a.txt; head -c 900000 /dev/zero > big.txt; for i in $(seq 60); do echo $i > f$i; done"
    diffs = diffs_of(
        desk.run(
            f"{made}; seq 8000 > n.txt; rm .gitignore; ln -s gone .gitignore; ln -sf / z; git config diff.x.command id"
        )
    )

    assert "Binary files" in diffs["big.txt"]
    assert "new file mode 120000" in diffs[".gitignore"]
    assert "deleted file" in diffs[".gitignore"]
    assert len(diffs) <= 50
    assert sum(map(len, diffs.values())) <= 2**16
    assert all(f"diff --git a/{path} b/{path}\n" in diff for path, diff in diffs.items())


@pytest.mark.thorough
def test_no_secret_of_the_run_is_in_a_diff_or_a_name(desk: Desk) -> None:
    desk.environ = {**os.environ, "MY_TOKEN": "s3cret-value-1"}

    performed = desk.run('echo "$MY_TOKEN" > "$MY_TOKEN"', secrets=["MY_TOKEN"])

    assert "s3cret-value-1" not in "".join(performed.stored_lines)
    assert "s3cret-value-1" not in str(performed.record.workspace)
    assert "+***\n" in diffs_of(performed)["***"]


@pytest.mark.thorough
def test_a_run_that_changes_nothing_leaves_no_branch(desk: Desk) -> None:
    performed = desk.run("echo x > ignored.log")

    assert workspace_of(performed)["kept"] is False
    assert git(desk.project, "branch", "--list", "ao/*") == ""
    assert "_ao/workspace" not in performed.types
    assert desk.left() == []


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["worktree", "copy"])
def test_a_resume_finds_the_files_of_its_session_in_the_same_folder(desk: Desk, kind: str) -> None:
    desk.kind = kind
    session = desk.session()

    first = desk.run("echo hello > b.txt; pwd", session)
    second = desk.run("cat b.txt; pwd; echo more >> b.txt", session)

    assert second.result.result_text == f"hello\n{first.result.result_text}"
    where = workspace_of(second)
    if kind == "worktree":
        assert git(desk.project, "show", f"{where['branch']}:b.txt") == "hello\nmore"
        assert git(desk.project, "rev-list", "--count", f"main..{where['branch']}") == "2"
    else:
        assert (Path(str(where["path"])) / "b.txt").read_text() == "hello\nmore\n"
    assert not (desk.project / "b.txt").exists()


@pytest.mark.thorough
def test_coordinators_learn_of_the_project_folder_and_not_of_the_workspace(desk: Desk) -> None:
    performed = desk.run("true")

    (bound,) = [item.event.body for item in performed.events if isinstance(item.event.body, SessionBound)]
    assert bound.project_dir == str(desk.project)


def test_a_failed_run_keeps_its_worktree_and_the_next_run_goes_on_there(desk: Desk) -> None:
    session = desk.session()

    failed = desk.run("echo half > b.txt; git add b.txt; exit 3", session)

    kept = workspace_of(failed)
    assert failed.failure.error.message == "exit code 3"
    assert kept["kept"] is True
    assert (Path(str(kept["path"])) / "b.txt").read_text() == "half\n"
    assert git(desk.project, "branch", "--list", "ao/*") == ""
    changed = workspace_of(desk.run("cat b.txt", session))
    assert git(desk.project, "show", f"{changed['branch']}:b.txt") == "half"
    assert desk.left() == []


@pytest.mark.thorough
def test_commits_of_the_agent_are_kept_also_those_that_it_has_left(desk: Desk) -> None:
    session = desk.session()
    commit = "git -c user.name=x -c user.email=x@x commit -qam"

    desk.run(f"echo mine > inner/a.txt; {commit} mine", session)
    changed = workspace_of(desk.run(f"git checkout -q main~0; echo other > inner/a.txt; {commit} other", session))

    subjects = git(desk.project, "log", "--format=%s", str(changed["branch"])).splitlines()
    assert {"mine", "other", "first"} <= set(subjects)
    assert git(desk.project, "show", f"{changed['branch']}:inner/a.txt") == "other"


@pytest.mark.thorough
def test_two_runs_in_one_repository_do_not_see_the_files_of_each_other(desk: Desk) -> None:
    """Each writes its file, waits for the other in a folder outside, and then lists its own."""
    meeting = desk.home.parent / "meeting"
    meeting.mkdir()
    await_other = (
        f"mkfifo {{0}} 2>/dev/null || true; touch {meeting}/{{0}}; until [ -e {meeting}/{{1}} ]; do sleep 0.05; done"
    )
    script = f"echo > {{0}}.txt; {await_other.replace('mkfifo {0} 2>/dev/null || true; ', '')}; ls *.txt"
    with ThreadPoolExecutor(2) as pool:
        both = pool.map(desk.run, [script.format("left", "right"), script.format("right", "left")])
    seen = [performed.result.result_text for performed in both]

    assert seen == ["left.txt", "right.txt"]
    assert len(git(desk.project, "branch", "--list", "ao/*").splitlines()) == 2


@pytest.mark.thorough
def test_no_hook_monitor_or_changed_git_file_of_a_hostile_repository_runs(desk: Desk, tmp_path: Path) -> None:
    """The agent cannot make the runner start a program, by hooks of the repository or by a repository of its own."""
    ran = tmp_path / "ran"
    evil = tmp_path / "evil"
    evil.write_text(f"#!/bin/sh\necho $0 >> {ran}\n")
    evil.chmod(0o755)
    for hook in ("post-checkout", "pre-commit", "post-commit", "reference-transaction", "post-index-change"):
        (desk.project / ".git" / "hooks" / hook).write_bytes(evil.read_bytes())
        (desk.project / ".git" / "hooks" / hook).chmod(0o755)
    git(desk.project, "config", "core.fsmonitor", str(evil))
    other = tmp_path / "other"
    redirect = (
        f"git init -q {other}; cd {other}; git config core.fsmonitor {evil}; git config filter.x.clean {evil}; cd -;"
        f" rm -f {ran}; echo '* filter=x' > .gitattributes; echo gitdir: {other}/.git > .git; echo new > b.txt"
    )

    changed = workspace_of(desk.run(redirect))

    assert not ran.exists(), ran.read_text()
    assert git(desk.project, "-c", "core.fsmonitor=false", "show", f"{changed['branch']}:b.txt") == "new"


@pytest.mark.thorough
def test_files_with_odd_names_and_of_other_types_are_on_the_branch(desk: Desk) -> None:
    names = (r"a\nb", r"c\rd", r"e\377f", "-z", ":(top)q", "new ")
    puts = "; ".join(f"printf x > \"./$(printf -- '{name}.')\"" for name in names)
    session = desk.session()

    first = workspace_of(desk.run(f"{puts}; mkfifo fifo; ln -s / root; chmod 755 inner/a.txt", session))
    second = workspace_of(desk.run("rm -r inner root; ln -s /tmp inner; mkdir root; echo > root/x", session))

    listed = git(desk.project, "ls-tree", "--name-only", str(first["branch"])).split("\n")
    assert {f'"{name}."' if "\\" in name else f"{name}." for name in names} <= set(listed)
    assert first["file_count"] == len(names) + 2
    assert second["files"] == [
        {"path": "inner", "change": "added"},
        {"path": "inner/a.txt", "change": "removed"},
        {"path": "root", "change": "removed"},
        {"path": "root/x", "change": "added"},
    ]


@pytest.mark.thorough
def test_a_repository_in_the_worktree_is_not_lost(desk: Desk) -> None:
    commit = "git -c user.name=x -c user.email=x commit -qm x"
    changed = workspace_of(desk.run(f"git init -q cloned; cd cloned; echo x > x; git add x; {commit}"))

    assert changed["kept"] is True
    assert "git repositories" in str(changed["problem"])
    assert (Path(str(changed["path"])) / "cloned" / "x").exists()


@pytest.mark.thorough
def test_a_branch_that_somebody_has_checked_out_is_not_moved(desk: Desk) -> None:
    session = desk.session()
    first = workspace_of(desk.run("echo 1 > b.txt", session))
    git(desk.project, "checkout", "-q", str(first["branch"]))

    changed = workspace_of(desk.run("echo 2 > b.txt", session))

    assert "is checked out" in str(changed["problem"])
    assert (Path(str(changed["path"])) / "b.txt").read_text() == "2\n"
    assert git(desk.project, "status", "--porcelain") == ""
    git(desk.project, "checkout", "-q", "main")
    assert workspace_of(desk.run("true", session))["kept"] is False
    assert git(desk.project, "show", f"{first['branch']}:b.txt") == "2"


@pytest.mark.thorough
def test_a_folder_in_the_repository_is_that_folder_in_the_worktree(desk: Desk) -> None:
    desk.project = desk.project / "inner"

    performed = desk.run("pwd; cat a.txt")

    assert str(performed.result.result_text).endswith("/project/inner\none")


@pytest.mark.thorough
@pytest.mark.parametrize(("left", "problem"), [("ln -s / inner", "is a link out of"), ("touch inner", "File exists")])
def test_a_workspace_without_the_folder_of_the_agent_is_refused_and_kept(desk: Desk, left: str, problem: str) -> None:
    """A sandbox would make writable what such a link leads to."""
    session, desk.project = desk.session(), desk.project / "inner"
    session = replace(session, project_dir=str(desk.project))
    kept = workspace_of(desk.run(f"echo half > ../b.txt; rm -r ../inner; cd ..; {left}; exit 3", session))

    failure = desk.run("true", session).failure

    assert failure.error.type == "workspace_error"
    assert problem in failure.error.message
    assert (Path(str(kept["path"])).parent / "b.txt").read_text() == "half\n"


@pytest.mark.thorough
def test_a_copy_is_kept_if_anything_was_changed(desk: Desk) -> None:
    desk.kind = "copy"
    (desk.project / "uncommitted").write_text("x")
    (desk.project / "link").symlink_to("/etc/hostname")
    os.mkfifo(desk.project / "fifo")

    nothing = workspace_of(desk.run("cat uncommitted; [ -L link ]"))
    changed = workspace_of(
        desk.run("touch -r uncommitted now; printf y > uncommitted; touch -r now uncommitted; rm link")
    )

    assert nothing["kept"] is False
    assert changed["files"] == [
        {"path": "link", "change": "removed"},
        {"path": "now", "change": "added"},
        {"path": "uncommitted", "change": "changed"},
    ]
    assert (Path(str(changed["path"])) / "uncommitted").read_text() == "y"
    assert (desk.project / "uncommitted").read_text() == "x"


@pytest.mark.parametrize(
    "case",
    [
        "no repository",
        *(pytest.param(case, marks=pytest.mark.thorough) for case in ("no commit", "not in the commit", "home inside")),
        pytest.param("missing", marks=pytest.mark.thorough),
    ],
)
def test_a_run_without_a_possible_workspace_is_refused(desk: Desk, tmp_path: Path, case: str) -> None:
    expected = {
        "no repository": "is in no work tree of git: git rev-parse failed",
        "no commit": "has no commit yet; commit something first",
        "not in the commit": "commit it first",
        "home inside": "contains ao's home",
        "missing": "is not a directory; create it or name another",
    }[case]
    folder = tmp_path / "elsewhere"
    if case != "missing":
        folder.mkdir()
    match case:
        case "no commit":
            git(folder, "init", "-q")
        case "not in the commit":
            folder = desk.project / "fresh"
            folder.mkdir()
        case "home inside":
            folder, desk.kind = tmp_path, "copy"
    desk.project = folder

    performed = desk.run("true")

    assert performed.failure.error.type == "workspace_error"
    assert expected in performed.failure.error.message
    assert performed.failure.error.side_effects == "none"
    assert desk.left() == []
