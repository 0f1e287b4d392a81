"""Workspaces: a git worktree or a copy of the project folder for one session, and what its runs changed there.

The functions block, may take minutes and start git, so the runner calls them in a process of their own
(`ao_runner.processes.calls`), while it holds the lock of the workspace. They know neither runs nor profiles.

`workspaces/<name>` of the home contains the tree, `<name>.json` the state of the workspace and its lock, `<name>.files`
the files of a copy. Git runs no hook and no file system monitor. After an agent has worked it is told where the
repository is, so a `.git` that the agent has changed leads it nowhere else.
"""

import hashlib
import json
import os
import re
import shutil
import stat
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from ao_lifeline.removal import remove_tree
from ao_protocol.addresses import without_credentials
from ao_runner.errors import RunnerError
from ao_runner.home import take_lock
from ao_runner.processes.spawn import run_to_end

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
MARGIN_SECONDS: Final = 5.0
"""How long before the deadline of the whole call git is stopped."""

_PLAIN_NAME: Final = re.compile(r"(?!s-)[a-z0-9][a-z0-9_-]{0,63}")
_SETTINGS: Final = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.safecrlf=false",
    "protocol.ext.allow=never",
    "submodule.recurse=false",
    "gc.auto=0",
)
_AUTHOR: Final = {
    f"GIT_{role}_{what}": value
    for role in ("AUTHOR", "COMMITTER")
    for what, value in {"NAME": "ao", "EMAIL": "ao@localhost"}.items()
}
_SUBMODULE: Final = "160000"
_KINDS: Final = {"A": "added", "D": "removed"}


class WorkspaceProblem(RunnerError):
    """A workspace cannot be made or settled; the message says why and what to do."""


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
    branch: str = ""
    tip: str = ""
    """The commit of the branch; empty before there is one."""
    base: str = ""
    """The commit that the changes are compared with."""


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

    def discard(self, git: "Git") -> None:
        """Remove the workspace with its files, except the branch. The lock must be held, and ends with this.

        Raises:
            WorkspaceProblem: Files cannot be removed.
        """
        self.clear(git)
        self.listing.unlink(missing_ok=True)
        self.file.unlink(missing_ok=True)

    def clear(self, git: "Git") -> None:
        """Remove the tree; raises as `discard` does."""
        state = self.read()
        if left := remove_tree(str(self.folder)):
            raise WorkspaceProblem(f"the workspace cannot be removed: {left[0]}; remove {self.folder} by hand")
        if state is not None and state.top:
            with suppress(WorkspaceProblem):  # the repository may be gone, or not know the worktree
                git.run("worktree", "remove", "-f", "-f", state.tree, at=state.top)


def git_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables by which git finds its programs and the user's configuration."""
    return {name: environ[name] for name in ("PATH", "HOME", "XDG_CONFIG_HOME") if name in environ}


@dataclass(frozen=True, slots=True)
class Git:
    """Runs git until a deadline, with the user's configuration."""

    environment: Mapping[str, str]
    ends_at: float

    @classmethod
    def within(cls, seconds: float, environ: Mapping[str, str]) -> "Git":
        """Return git with `seconds` for all its calls."""
        own = {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", **_AUTHOR}
        return cls({**git_variables(environ), **own}, time.monotonic() + max(1.0, seconds - MARGIN_SECONDS))

    def inside(self, state: Workspace, index: Path) -> "Git":
        """Return git in a worktree, with an index of its own; what the tree says of its repository does not matter."""
        where = {"GIT_DIR": state.git_dir, "GIT_WORK_TREE": state.tree, "GIT_INDEX_FILE": str(index)}
        return replace(self, environment={**self.environment, **where})

    def run(self, *arguments: str, at: str) -> str:
        """Run git in a folder and return its output without the last line end.

        Raises:
            WorkspaceProblem: It failed, or is not there.
        """
        settings = [part for setting in _SETTINGS for part in ("-c", setting)]
        argv = ["git", "-C", at, *settings, *arguments]
        try:
            ended = run_to_end(argv, self.environment, max(0.1, self.ends_at - time.monotonic()))
        except FileNotFoundError as error:
            raise WorkspaceProblem("git is not on PATH; install it, or use workspace: copy") from error
        except OSError as error:
            raise WorkspaceProblem(f"git {arguments[0]}: {error}") from error
        if ended.exit_code:
            said = without_credentials(ended.stderr.strip().removeprefix("fatal: "))[-500:]
            raise WorkspaceProblem(f"git {arguments[0]} failed in {at}: {said or f'exit code {ended.exit_code}'}")
        return ended.stdout.removesuffix("\n")

    def commit_of(self, name: str, at: str) -> str:
        """Return the commit that a name refers to; empty if there is none."""
        with suppress(WorkspaceProblem):
            return self.run("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", at=at)
        return ""


def open_workspace(
    place: WorkspacePlace, kind: WorkspaceKind, project_dir: str, seconds: float, environ: Mapping[str, str]
) -> Workspace | str:
    """Return the session's workspace for another run, made if it is not there; or why there is none, as a sentence."""
    git = Git.within(seconds, environ)
    try:
        known = place.read()
        if known is not None and known.is_made and Path(known.tree).is_dir():
            Path(known.project_dir).mkdir(parents=True, exist_ok=True)
            return place.write(replace(known, is_open=True))
        if not Path(project_dir).is_dir():
            raise WorkspaceProblem(f"project_dir {project_dir!r} is not a directory; create it or name another")
        place.clear(git)
        made = (_make_worktree if kind == "worktree" else _make_copy)(place, project_dir, git)
        return place.write(replace(made, is_made=True))
    except (WorkspaceProblem, OSError) as error:
        with suppress(WorkspaceProblem):
            place.discard(git)
        return f"no workspace ({kind}): {error}"


def _make_worktree(place: WorkspacePlace, project_dir: str, git: Git) -> Workspace:
    try:
        top = git.run("rev-parse", "--show-toplevel", at=project_dir)
    except WorkspaceProblem as error:
        advice = "name a folder of a git repository, or use workspace: copy"
        raise WorkspaceProblem(f"project_dir {project_dir!r} is in no work tree of git: {error}; {advice}") from error
    prefix = git.run("rev-parse", "--show-prefix", at=project_dir)
    branch = f"{BRANCHES}{place.folder.name}"
    tip = git.commit_of(f"refs/heads/{branch}", top)
    base = tip or git.commit_of("HEAD", top)
    if not base:
        raise WorkspaceProblem(f"the repository {top} has no commit yet; commit something first")
    tree = place.folder / (Path(top).name or "tree")
    worktree = Workspace("worktree", project_dir, str(tree), str(tree / prefix), top=top, branch=branch)
    place.write(worktree)
    place.folder.mkdir(mode=0o700)
    git.run("worktree", "add", "--detach", "--force", str(tree), base, at=top)
    if not (tree / prefix).is_dir():
        raise WorkspaceProblem(f"the folder {prefix} of {top} is not in its commit {base[:12]}; commit it first")
    git_dir = git.run("rev-parse", "--absolute-git-dir", at=str(tree))
    return replace(worktree, git_dir=git_dir, tip=tip, base=base)


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
    seconds = max(0.1, git.ends_at - time.monotonic())
    ended = run_to_end(["cp", *how, "--", str(source), str(tree)], git.environment, seconds)
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
    git = Git.within(seconds, environ)
    state = place.read()
    if state is None or not state.is_made:
        with suppress(WorkspaceProblem):
            place.discard(git)
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
            index = place.folder / "index"
            settled, changes, is_kept = _settle_worktree(settled, index, git.inside(state, index), message, is_failed)
            record |= changes
            index.unlink(missing_ok=True)
        if not is_kept:
            place.discard(git)
            return {**record, "kept": False}
    except (WorkspaceProblem, OSError, ValueError) as error:
        record["problem"] = str(error)
    with suppress(OSError):  # the next start settles it again
        place.write(settled)
    return {**record, "kept": True, "path": state.project_dir}


def _settle_worktree(
    state: Workspace, index: Path, git: Git, message: str, is_failed: bool
) -> "tuple[Workspace, JsonObject, bool]":
    """Return the state, the changes and whether the worktree is kept. The agent's own index stays as it is."""
    at, base = state.tree, state.base
    with suppress(FileNotFoundError):
        shutil.copy2(Path(state.git_dir) / "index", index)  # with its time, by which git finds quick changes
    head = git.run("rev-parse", "HEAD^{commit}", at=at)
    git.run("add", "--all", at=at)
    tree = git.run("write-tree", at=at)
    raw = git.run("diff-tree", "-r", "-z", "--no-renames", "--raw", base, tree, at=at).split("\0")
    changes = _named([(kind.split()[4], name) for kind, name in zip(raw[::2], raw[1::2], strict=False)])
    changes |= {"base": base, "summary": git.run("diff", "--no-ext-diff", "--shortstat", base, tree, at=at).strip()}
    is_changed = bool(changes["file_count"]) or head != base
    if is_failed:
        return state, changes, is_changed or bool(git.run("status", "--porcelain", "--ignored", at=at))
    if not is_changed:
        return state, changes, False
    commit = _commit(state, tree, head, git, message)
    settled = replace(state, tip=commit, base=commit)
    changes |= {"branch": state.branch, "commit": commit}
    if git.run("diff-files", "--name-only", at=at) or any(f" {_SUBMODULE} " in kind for kind in raw[::2]):
        # Repositories inside of the tree are not in the commit. The next run continues behind it.
        git.run("update-ref", "--no-deref", "HEAD", commit, at=at)
        shutil.copy2(index, Path(state.git_dir) / "index")
        return settled, {**changes, "problem": "the commit does not contain the git repositories in the tree"}, True
    return settled, changes, False


def _commit(state: Workspace, tree: str, head: str, git: Git, message: str) -> str:
    """Move the branch to a commit of the tree, behind everything that is on the branch and that the agent committed."""
    at = state.tree
    try:
        git.run("merge-base", "--is-ancestor", state.base, head, at=at)
        parents = ["-p", head]
    except WorkspaceProblem:
        parents = ["-p", head, "-p", state.base]
    commit = head
    if len(parents) > 2 or tree != git.run("rev-parse", "HEAD^{tree}", at=at):
        commit = git.run("commit-tree", tree, *parents, "-m", message, at=at)
    ref = f"refs/heads/{state.branch}"
    if f"\nbranch {ref}\n" in f"{git.run('worktree', 'list', '--porcelain', at=at)}\n":
        advice = f"check out another one there, then: git branch -f {state.branch} {commit}"
        raise WorkspaceProblem(f"the branch {state.branch} is checked out somewhere, so it was not moved; {advice}")
    git.run("update-ref", ref, commit, state.tip or "0" * len(commit), at=at)
    return commit


def _named(changes: Sequence[tuple[str, str]]) -> "JsonObject":
    files: list[JsonObject] = [
        {"path": os.fsencode(name).decode(errors="replace"), "change": _KINDS.get(kind, "changed")}
        for kind, name in changes[:MOST_NAMED_FILES]
    ]
    return {"file_count": len(changes), "files": [*files]}


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


def forget_workspaces(workspaces: Path, sessions: Sequence[str], seconds: float, environ: Mapping[str, str]) -> None:
    """Remove the workspaces of deleted sessions; their branches stay.

    Raises:
        WorkspaceProblem: Files cannot be removed.
    """
    for place in (WorkspacePlace.of_session(workspaces, session_id) for session_id in sessions):
        if place.file.exists() and (lock := place.take()) is not None:
            try:
                place.discard(Git.within(seconds, environ))
            finally:
                os.close(lock)
