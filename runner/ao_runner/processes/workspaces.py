"""Workspaces: a git worktree or a copy of the project folder for one session, and what its runs changed there.

The functions block, may take minutes and start git, so the runner calls them in a process of their own
(`ao_runner.processes.calls`), while it holds the lock of the workspace. They know neither runs nor profiles.

`workspaces/<name>` of the home contains the tree, `<name>.json` the state of the workspace and its lock, `<name>.files`
the files of a copy, and `<name>.git` the git directories for one call. After an agent has worked, git is told where the
repository is, so a `.git` that the agent has changed leads it nowhere else. `ao_runner.processes.git` starts git.
"""

import hashlib
import json
import os
import re
import shutil
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from ao_lifeline.removal import remove_tree
from ao_runner.home import take_lock
from ao_runner.processes.git import Git, WorkspaceProblem, beside, check_out, find, head_of, store_tree

if TYPE_CHECKING:
    from ao_protocol.wire import JsonObject  # its import takes longer than a small workspace

WorkspaceKind = Literal["worktree", "copy"]

BRANCHES: Final = "ao/"
"""The beginning of the names of branches with the changes of sessions."""
MOST_FILES: Final = 500_000
MOST_BYTES: Final = 10 * 2**30
"""The most that is copied."""
MOST_NAMED_FILES: Final = 200
"""How many changed files a record names; further ones are only counted."""

MOST_DIFFED_FILES: Final = 50
MOST_DIFFED_BYTES: Final = "32k"
"""The size up to which git compares the lines of a file."""
MOST_DIFF: Final = 2**16
"""The size of all diffs of a record in characters; a diff that does not fit is left out."""

_PLAIN_NAME: Final = re.compile(r"(?!s-)[a-z0-9][a-z0-9_-]{0,63}")
_KINDS: Final = {"A": "added", "D": "removed"}


@dataclass(frozen=True, slots=True)
class Workspace:
    """The state of a session's workspace, as it is stored in its file."""

    kind: WorkspaceKind
    source: str
    """The session's project folder, which the workspace is made from."""
    tree: str
    project_dir: str
    """Where the agent works: the tree, or a folder in it."""
    is_made: bool = False
    is_open: bool = True
    """Whether a run uses it; if nobody holds its lock then, the runner of that run was killed."""
    top: str = ""
    git_dir: str = ""
    """The folder of the worktree in the git directory of its repository; a guess until the worktree is made."""
    branch: str = ""
    tip: str = ""
    """The commit of the branch; empty before there is one."""
    base: str = ""
    """The commit that the changes are compared with."""
    sandbox: Sequence[str] = ()
    """The command of the sandbox that the tree is read in; empty if there is none."""

    @property
    def common(self) -> Path:
        """The git directory of the repository."""
        return Path(self.git_dir).parents[1]


@dataclass(frozen=True, slots=True)
class WorkspacePlace:
    """The place of a session's workspace in the home."""

    folder: Path

    @classmethod
    def of_session(cls, workspaces: Path, session_id: str) -> "WorkspacePlace":
        """Return the place for a session, whose id may be any text."""
        name = session_id
        if _PLAIN_NAME.fullmatch(name) is None:
            name = f"s-{hashlib.sha256(session_id.encode(errors='surrogatepass')).hexdigest()[:32]}"
        return cls(workspaces / name)

    @property
    def file(self) -> Path:
        """The file with the state, which is also the lock."""
        return self.folder.with_name(f"{self.folder.name}.json")

    @property
    def listing(self) -> Path:
        """The file with the files of a copy."""
        return self.folder.with_name(f"{self.folder.name}.files")

    @property
    def scratch(self) -> Path:
        """The folder for git directories, which exist during one call."""
        return self.folder.with_name(f"{self.folder.name}.git")

    def take(self) -> int | None:
        """Lock the workspace and return the descriptor that holds the lock; None if another process has it.

        Raises:
            OSError: The file of the state cannot be created.
        """
        descriptor = os.open(self.file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with suppress(FileNotFoundError):
            if take_lock(descriptor) and os.path.samestat(os.fstat(descriptor), self.file.stat()):
                return descriptor
        os.close(descriptor)
        return None

    def read(self) -> Workspace | None:
        """Return the state; None if there is no workspace or its file is damaged."""
        with suppress(OSError, ValueError, TypeError):
            return Workspace(**json.loads(self.file.read_bytes()))
        return None

    def write(self, state: Workspace) -> Workspace:
        """Store the state and return it."""
        self.file.write_text(json.dumps(asdict(state)), encoding="utf-8")
        return state

    def discard(self) -> None:
        """Remove the workspace with its files, except the branch. The lock must be held, and ends with this.

        Raises:
            WorkspaceProblem: Files cannot be removed.
        """
        self.clear()
        self.listing.unlink(missing_ok=True)
        self.file.unlink(missing_ok=True)

    def clear(self) -> None:
        """Remove the tree, and what the repository knows of it; raises as `discard` does."""
        state = self.read()
        for folder in (self.folder, self.scratch):
            _remove(folder)
        if state is not None and state.git_dir:
            for link in state.common.glob("worktrees/*/gitdir"):
                if link.is_file() and link.read_bytes().strip() == os.fsencode(f"{state.tree}/.git"):
                    _remove(link.parent)
            with suppress(OSError):  # other worktrees are in it
                (state.common / "worktrees").rmdir()


def _remove(folder: Path) -> None:
    if left := remove_tree(str(folder)):
        raise WorkspaceProblem(f"the workspace cannot be removed: {left[0]}; remove {folder} by hand")


def open_workspace(
    place: WorkspacePlace,
    kind: WorkspaceKind,
    project_dir: str,
    sandbox: Sequence[str],
    seconds: float,
    environ: Mapping[str, str],
) -> Workspace | str:
    """Return the session's workspace for another run, made if it is not there; or why there is none, as a sentence."""
    around = [str(path) for path in Path(project_dir).parents if (path / ".git").exists()]
    git = Git.within(seconds, environ, project_dir, *around)
    known = place.read()
    is_new = known is None or not known.is_made or not Path(known.tree).is_dir()
    try:
        if known is None or is_new:
            if not Path(project_dir).is_dir():
                raise WorkspaceProblem(f"project_dir {project_dir!r} is not a directory; create it or name another")
            place.clear()
            known = (_make_worktree if kind == "worktree" else _make_copy)(place, project_dir, git)
            _remove(place.scratch)
        Path(known.project_dir).mkdir(parents=True, exist_ok=True)
        if not Path(known.project_dir).resolve().is_relative_to(Path(known.tree).resolve()):
            raise WorkspaceProblem(f"{known.project_dir} is a link out of the workspace; replace it by a folder")
        return place.write(replace(known, is_made=True, is_open=True, sandbox=sandbox))
    except (WorkspaceProblem, OSError) as error:
        with suppress(WorkspaceProblem):
            if is_new:
                place.discard()
        return f"no workspace ({kind}): {error}"


def _make_worktree(place: WorkspacePlace, project_dir: str, git: Git) -> Workspace:
    found = find(project_dir, git)
    git, at = beside(place.scratch, found.git_dir, found.common, git), place.scratch
    branch = f"{BRANCHES}{place.folder.name}"
    tip = git.commit_of(f"refs/heads/{branch}", at)
    base = tip or git.commit_of(found.head, at)
    if not base:
        raise WorkspaceProblem(f"the repository {found.top} has no commit yet; commit something first")
    tree = place.folder / (found.top.name or "tree")
    work, git_dir = str(tree / found.prefix), str(found.common / "worktrees" / tree.name)
    made = Workspace("worktree", project_dir, str(tree), work, top=str(found.top), git_dir=git_dir, branch=branch)
    place.write(made)
    place.folder.mkdir(mode=0o700)
    git_dir = str(check_out(tree, base, found, git))
    if not Path(work).is_dir():
        advice = f"is not in its commit {base[:12]}; commit it first"
        raise WorkspaceProblem(f"the folder {found.prefix} of {found.top} {advice}")
    return replace(made, git_dir=git_dir, tip=tip, base=base)


def _make_copy(place: WorkspacePlace, project_dir: str, git: Git) -> Workspace:
    source = Path(project_dir).resolve()
    if place.folder.resolve().is_relative_to(source):
        raise WorkspaceProblem(f"project_dir {project_dir!r} contains ao's home; name another, or move it: AO_HOME")
    files, size = 0, 0
    for _, status in _entries(source):
        files, size = files + 1, size + status.st_size
        if files > MOST_FILES or size > MOST_BYTES:
            most = f"{MOST_FILES} files or {MOST_BYTES >> 30} GiB"
            raise WorkspaceProblem(f"{project_dir} has more than {most}; name a smaller folder, or use a worktree")
    tree = place.folder / (source.name or "tree")
    copy = place.write(Workspace("copy", project_dir, str(tree), str(tree)))
    place.folder.mkdir(mode=0o700)
    how = ["-cRp"] if sys.platform == "darwin" else ["-a", "--reflink=auto"]
    ended = git.start(["cp", *how, "--", str(source), str(tree)], place.folder)
    if ended.exit_code:
        raise WorkspaceProblem(f"{project_dir} cannot be copied: {ended.stderr.strip()[:500]}")
    place.listing.write_text(json.dumps(_listed(tree)), encoding="utf-8")
    return copy


def settle_workspace(
    place: WorkspacePlace, message: str, seconds: float, environ: Mapping[str, str], *, is_failed: bool
) -> "JsonObject":
    """Return the record of what was changed, and remove the workspace if nobody needs it any more.

    A worktree is removed after its changes are on the branch, or if there are none. It is kept after a failure, or if a
    commit cannot hold all of it. A copy is kept if anything in it was changed.
    """
    state = place.read()
    if state is None or not state.is_made:
        with suppress(WorkspaceProblem):
            place.discard()
        return {"kept": False, "file_count": 0}
    record: JsonObject = {"kind": state.kind, "source": state.source}
    settled = replace(state, is_open=False)
    try:
        if not Path(state.tree).is_dir() or Path(state.tree).is_symlink():
            raise WorkspaceProblem(f"{state.tree} is not a folder any more")
        if state.kind == "copy":
            record |= _named(_changes_in_copy(place, state))
            is_kept = bool(record["file_count"])
        else:
            _remove(place.scratch)
            git = Git.within(seconds, environ, state.source, state.top, state.tree)
            settled, changes, is_kept = _settle_worktree(settled, place.scratch, git, message, is_failed)
            record |= changes
        if not is_kept:
            place.discard()
            return {**record, "kept": False}
    except (WorkspaceProblem, OSError, ValueError) as error:
        record["problem"] = str(error)
    with suppress(WorkspaceProblem, OSError):  # the next start settles it again
        place.write(settled)
        _remove(place.scratch)
    return {**record, "kept": True, "path": state.project_dir}


def _settle_worktree(
    state: Workspace, scratch: Path, git: Git, message: str, is_failed: bool
) -> "tuple[Workspace, JsonObject, bool]":
    """Return the state, the changes and whether the worktree is kept. The agent's own index stays as it is."""
    git_dir, inside, at, base = Path(state.git_dir), scratch / "inside", scratch / "beside", state.base
    stored = store_tree(Path(state.tree), git_dir, inside, state.sandbox, git)
    git = beside(at, git_dir, state.common, git)
    if stored.pack is not None:
        git.run("unpack-objects", "-q", at=at, stdin=stored.pack)
    head = git.run("rev-parse", "--verify", f"{head_of(git_dir)}^{{commit}}", at=at)
    raw = git.names("diff-tree", "-r", "-z", "--no-renames", "--raw", base, stored.name, at=at)
    named = [(kind.split()[4], name) for kind, name in zip(raw[::2], raw[1::2], strict=True)]
    changes = _named(named)
    changes["diffs"] = _diffs(named[:MOST_DIFFED_FILES], base, stored.name, git, at)
    changes |= {"base": base, "summary": git.run("diff-tree", "-M", "--shortstat", base, stored.name, at=at).strip()}
    if stored.has_repositories:
        changes |= {"problem": "the commit does not contain the git repositories in the tree"}
    is_changed = bool(changes["file_count"]) or head != base
    if is_failed or not is_changed:
        return state, changes, is_changed or stored.has_repositories or (is_failed and stored.has_ignored)
    commit = _commit(state, stored.name, head, git, at, message)
    settled = replace(state, tip=commit, base=commit)
    changes |= {"branch": state.branch, "commit": commit}
    if stored.has_repositories:
        # The next run continues behind the commit.
        git.run("update-ref", "--no-deref", head_of(git_dir), commit, at=at)
        (git_dir / "index").unlink(missing_ok=True)  # it may be a link
        shutil.copy2(inside / "index", git_dir / "index")
    return settled, changes, stored.has_repositories


def _commit(state: Workspace, tree: str, head: str, git: Git, at: Path, message: str) -> str:
    """Move the branch to a commit of the tree, behind everything that is on the branch and that the agent committed."""
    try:
        git.run("merge-base", "--is-ancestor", state.base, head, at=at)
        parents = ["-p", head]
    except WorkspaceProblem:
        parents = ["-p", head, "-p", state.base]
    commit = head
    if len(parents) > 2 or tree != git.run("rev-parse", f"{head}^{{tree}}", at=at):
        commit = git.run("commit-tree", tree, *parents, "-m", message, at=at)
    ref = f"refs/heads/{state.branch}"
    if f"\nbranch {ref}\n" in f"{git.run('worktree', 'list', '--porcelain', at=at)}\n":
        advice = f"check out another one there, then: git branch -f {state.branch} {commit}"
        raise WorkspaceProblem(f"the branch {state.branch} is checked out somewhere, so it was not moved; {advice}")
    git.run("update-ref", "--no-deref", ref, commit, state.tip or "0" * len(commit), at=at)
    return commit


def _named(changes: Sequence[tuple[str, str]]) -> "JsonObject":
    files: list[JsonObject] = [
        {"path": _shown(name), "change": _KINDS.get(kind, "changed")} for kind, name in changes[:MOST_NAMED_FILES]
    ]
    return {"file_count": len(changes), "files": [*files]}


def _diffs(changes: Sequence[tuple[str, str]], base: str, tree: str, git: Git, at: Path) -> "JsonObject":
    """Return the diffs of changed files by path, made without any program or setting of a repository."""
    git = replace(git, settings=(*git.settings, f"core.bigFileThreshold={MOST_DIFFED_BYTES}"))
    git = git.with_variables(GIT_LITERAL_PATHSPECS="1")
    options = ("-r", "-p", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color")
    text = git.run("diff-tree", *options, base, tree, "--", *(name for _, name in changes), at=at) if changes else ""
    sections = iter(re.split(r"(?m)^(?=diff --git )", _shown(f"{text}\n"))[1:])
    diffs: JsonObject = {}
    left = MOST_DIFF
    for kind, name in changes:
        diff = "".join(islice(sections, 2 if kind == "T" else 1))  # another type is a removal and an addition
        if len(diff) <= left:
            diffs[_shown(name)] = diff
            left -= len(diff)
    return diffs


def _shown(text: str) -> str:
    return os.fsencode(text).decode(errors="replace")


def _changes_in_copy(place: WorkspacePlace, state: Workspace) -> list[tuple[str, str]]:
    before, now = json.loads(place.listing.read_bytes()), _listed(Path(state.tree))
    changes = [("A" if name not in before else "M", name) for name in now if before.get(name) != now[name]]
    return sorted([*changes, *(("D", name) for name in before if name not in now)], key=lambda change: change[1])


def _listed(folder: Path) -> dict[str, list[int]]:
    """Return what shows whether a file was changed; only the system sets the time of its last change (ctime)."""
    return {name: [status.st_mode, status.st_size, status.st_ctime_ns] for name, status in _entries(folder)}


def _entries(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield everything below a folder except folders, with paths relative to it; links are not followed."""
    waiting = [""]
    while waiting:
        here = waiting.pop()
        with os.scandir(folder / here) as entries:
            for entry in entries:
                name, status = os.path.join(here, entry.name), entry.stat(follow_symlinks=False)  # noqa: PTH118
                if stat.S_ISDIR(status.st_mode):
                    waiting.append(name)
                else:
                    yield name, status


def list_interrupted(workspaces: Path) -> list[WorkspacePlace]:
    """Return the workspaces whose run did not end, possibly because it is still going on."""
    return [
        place
        for file in sorted(workspaces.glob("*.json"))
        if (state := (place := WorkspacePlace(file.with_suffix(""))).read()) is None or state.is_open
    ]


def settle_interrupted(workspaces: Path, seconds: float, environ: Mapping[str, str]) -> list[str]:
    """Settle the workspaces of killed runners like those of failed runs; return a sentence for each that is kept."""
    said = []
    for place in list_interrupted(workspaces):
        if (lock := place.take()) is not None:
            record = settle_workspace(place, "", seconds, environ, is_failed=True)
            if record["kept"]:
                said.append(f"the workspace of a killed run is kept: {record['path']}")
            os.close(lock)
    return said


def forget_workspaces(workspaces: Path, sessions: Sequence[str]) -> None:
    """Remove the workspaces of deleted sessions; their branches stay.

    Raises:
        WorkspaceProblem: Files cannot be removed.
    """
    for place in (WorkspacePlace.of_session(workspaces, session_id) for session_id in sessions):
        if place.file.exists() and (lock := place.take()) is not None:
            try:
                place.discard()
            finally:
                os.close(lock)
