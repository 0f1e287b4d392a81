"""Git for workspaces: it starts no program that a repository, its configuration or a tree names.

Git starts what its configuration names: filters, drivers, monitors, hooks, helpers, transports. So only `find` and the
listing of the settings read a configuration that somebody else has written; they look at no object and no file. All
other calls use a git directory of the runner's own, in whose configuration nothing is defined:

- `beside` makes one with links to the objects and refs of a repository. It sees no tree in which an agent has worked.
- `store_tree` makes one that contains an index only. It reads the tree inside of the session's sandbox, and its new
  objects come out as a pack. Git accepts them like those of a foreign repository: it computes their names itself.
"""

import os
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

from ao_protocol.addresses import without_credentials
from ao_runner.errors import RunnerError
from ao_runner.processes.spawn import Output, filled_in, run_to_end, search_path

MARGIN_SECONDS: Final = 5.0
"""How long before the deadline of the whole call git is stopped."""

_VARIABLES: Final = ("PATH", "HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR")
_AUTHOR: Final = {
    f"GIT_{role}_{what}": value
    for role in ("AUTHOR", "COMMITTER")
    for what, value in {"NAME": "ao", "EMAIL": "ao@localhost"}.items()
}
_ALWAYS: Final = {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_ALLOW_PROTOCOL": "", "GIT_NO_LAZY_FETCH": "1"}
_NO_CONFIGURATION: Final = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
_SETTINGS: Final = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.logAllRefUpdates=false",
    "core.safecrlf=false",
    "submodule.recurse=false",
    "gc.auto=0",
)
_TAKEN_OVER: Final = frozenset(
    f"core.{name}"
    for name in (
        *("autocrlf", "eol", "filemode", "ignorecase", "symlinks", "precomposeunicode", "sharedrepository"),
        *("excludesfile", "attributesfile", "sparsecheckout", "sparsecheckoutcone"),
    )
)
"""The settings of the user and the repository that apply to workspaces. None of them names a program."""
_FORMATS: Final = ("extensions.objectformat", "extensions.refstorage")
_LINKED: Final = ("objects", "refs", "packed-refs", "reftable", "shallow", "worktrees")


class WorkspaceProblem(RunnerError):
    """A workspace cannot be made or settled; the message says why and what to do."""


def git_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables by which git and the program of a sandbox find their files."""
    return {name: environ[name] for name in _VARIABLES if name in environ}


@dataclass(frozen=True, slots=True)
class Git:
    """Runs git until a deadline."""

    environment: Mapping[str, str]
    ends_at: float
    settings: Sequence[str] = _SETTINGS
    prefix: Sequence[str] = ()
    """The command of a sandbox."""

    @classmethod
    def within(cls, seconds: float, environ: Mapping[str, str], *distrusted: str) -> "Git":
        """Return git with `seconds` for all its calls; no program of the `distrusted` folders is started."""
        own = {**_ALWAYS, **_AUTHOR, "PATH": search_path(environ, *distrusted)}
        return cls({**git_variables(environ), **own}, time.monotonic() + max(1.0, seconds - MARGIN_SECONDS))

    def run(self, *arguments: str, at: Path | str, stdin: Path | None = None) -> str:
        """Run git in a folder and return its output without the last line end.

        Raises:
            WorkspaceProblem: It failed, or is not there.
        """
        settings = [part for setting in self.settings for part in ("-c", setting)]
        ended = self.start([*self.prefix, "git", *settings, *arguments], at, stdin)
        if ended.exit_code:
            said = without_credentials(ended.stderr.strip().removeprefix("fatal: "))[-500:]
            place = f"the sandbox ({self.prefix[0]}), which needs git" if self.prefix else at
            raise WorkspaceProblem(f"git {arguments[0]} failed in {place}: {said or f'exit code {ended.exit_code}'}")
        return ended.stdout.removesuffix("\n")

    def start(self, argv: Sequence[str], at: Path | str, stdin: Path | None = None) -> Output:
        """Run a program to its end, with the environment and until the deadline of git.

        Raises:
            WorkspaceProblem: It is not there, cannot be started, or does not end in time.
        """
        seconds = max(0.1, self.ends_at - time.monotonic())
        try:
            return run_to_end(argv, self.environment, seconds, cwd=at, stdin=stdin, errors="surrogateescape")
        except OSError as error:
            is_missing = isinstance(error, FileNotFoundError) and error.filename == argv[0]
            advice = "it is not on PATH outside of the project; install it, or use workspace: copy"
            raise WorkspaceProblem(f"{argv[0]} cannot run: {advice if is_missing else error}") from error

    def with_variables(self, **variables: Path | str) -> "Git":
        """Return git with further variables."""
        return replace(self, environment={**self.environment, **{name: str(path) for name, path in variables.items()}})

    def names(self, *arguments: str, at: Path | str) -> list[str]:
        """Run git and return the parts of its output, of which each ends with a NUL."""
        return self.run(*arguments, at=at).split("\0")[:-1]

    def commit_of(self, name: str, at: Path) -> str:
        """Return the commit that a name refers to; empty if there is none."""
        with suppress(WorkspaceProblem):
            return self.run("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", at=at)
        return ""


class Found(NamedTuple):
    """A folder in a work tree."""

    top: Path
    prefix: str
    """The path of the folder in the work tree."""
    git_dir: Path
    common: Path
    """The git directory of the main work tree, which contains objects and refs."""
    head: str
    """The name that its HEAD has for `beside`."""


def head_of(git_dir: Path) -> str:
    """Return the name that the HEAD of a linked worktree has in its repository."""
    return f"worktrees/{git_dir.name}/HEAD"


def find(folder: str, git: Git) -> Found:
    """Return where the repository of a folder is.

    Raises:
        WorkspaceProblem: The folder is in no work tree.
    """
    asked = ("--show-toplevel", "--show-prefix", "--git-dir", "--git-common-dir")
    try:
        shown = git.run("rev-parse", "--path-format=absolute", *asked, at=folder).split("\n")
    except WorkspaceProblem as error:
        advice = "name a folder of a git repository, or use workspace: copy"
        raise WorkspaceProblem(f"project_dir {folder!r} is in no work tree of git: {error}; {advice}") from error
    if len(shown) != len(asked):
        expected = "expected git 2.32 or newer, and a path without line breaks; or use workspace: copy"
        raise WorkspaceProblem(f"git rev-parse printed {len(shown)} lines for project_dir {folder!r}, {expected}")
    git_dir, common = Path(shown[2]), Path(shown[3])
    return Found(Path(shown[0]), shown[1], git_dir, common, "HEAD" if git_dir == common else head_of(git_dir))


def beside(own: Path, git_dir: Path, common: Path, git: Git) -> Git:
    """Return git for the objects and refs of a repository, with a new git directory and an empty work tree at `own`."""
    git, formats = _configured(git_dir, git)
    (own / "empty").mkdir(parents=True, mode=0o700)
    (own / "info").mkdir()
    for name in _LINKED:
        (own / name).symlink_to(common / name)
    for folder, name in ((common, "exclude"), (common, "attributes"), (git_dir, "sparse-checkout")):
        (own / "info" / name).symlink_to(folder / "info" / name)
    shutil.copyfile(common / "HEAD", own / "HEAD")
    _write_config(own, formats)
    return git.with_variables(GIT_DIR=own, GIT_WORK_TREE=own / "empty")


def _configured(git_dir: Path, git: Git) -> tuple[Git, dict[str, str]]:
    """Return git with harmless settings of the user and the repository and nothing else, and the file formats."""
    listed = git.with_variables(GIT_DIR=git_dir).names("config", "-z", "--list", at=git_dir)
    entries = [entry.partition("\n") for entry in listed]
    taken = [name + ("=" if equals else "") + value for name, equals, value in entries if name in _TAKEN_OVER]
    formats = {name: value for name, _, value in entries if name in _FORMATS and value.isalnum()}
    environment = {**git.environment, **_NO_CONFIGURATION}
    return replace(git, environment=environment, settings=(*taken, *_SETTINGS)), formats


def _write_config(own: Path, formats: Mapping[str, str]) -> None:
    lines = [f"{name.partition('.')[2]} = {value}" for name, value in formats.items()]
    (own / "config").write_text("\n".join(["[core]", "repositoryformatversion = 1", "[extensions]", *lines, ""]))


def check_out(tree: Path, commit: str, found: Found, git: Git) -> Path:
    """Make a detached worktree, and return its git directory. No filter changes the files.

    Raises:
        WorkspaceProblem: Git failed, possibly because the repository lacks objects.
    """
    (found.common / "worktrees").mkdir(exist_ok=True)
    git.run("worktree", "add", "--detach", "--no-checkout", "--force", str(tree), commit, at=tree.parent)
    link = tree / ".git"
    git_dir = found.common / "worktrees" / Path(os.fsdecode(link.read_bytes()).strip()).name
    link.write_bytes(b"gitdir: " + os.fsencode(git_dir) + b"\n")
    inside = git.with_variables(GIT_WORK_TREE=tree, GIT_INDEX_FILE=git_dir / "index")
    try:
        inside.run("read-tree", "-m", "-u", commit, at=tree)
    except WorkspaceProblem as error:
        advice = f"in a partial clone, fetch what is missing: git -C {found.top} archive {commit} > /dev/null"
        raise WorkspaceProblem(f"{error}; {advice}") from error
    for setting in git.settings:
        name, _, value = setting.partition("=")
        if name.startswith("core.sparsecheckout"):
            git.run("config", "--file", str(git_dir / "config.worktree"), name, value or "true", at=tree)
    return git_dir


class StoredTree(NamedTuple):
    """The files of a worktree as git stores them."""

    name: str
    has_repositories: bool
    """Whether it contains git repositories, which are not stored."""
    has_ignored: bool
    pack: Path | None
    """The new objects."""


def store_tree(tree: Path, git_dir: Path, own: Path, sandbox: Sequence[str], git: Git) -> StoredTree:
    """Return the files of a worktree, with an index and new objects in a new folder, which is the TMPDIR of a sandbox.

    Repositories in the tree are not looked into, because git would obey their configuration.
    """
    git, formats = _configured(git_dir, git)
    for name in ("objects", "refs", "info"):
        (own / name).mkdir(parents=True, mode=0o700)
    _write_config(own, {name: value for name, value in formats.items() if name == _FORMATS[0]})  # it has no refs
    (own / "HEAD").write_text("ref: refs/heads/none\n")
    info = git_dir.parents[1] / "info"
    # The index with its time, by which git finds quick changes.
    for path in (git_dir / "index", *git_dir.glob("sharedindex.*"), info / "exclude", info / "attributes"):
        with suppress(FileNotFoundError):
            shutil.copy2(path, own / path.relative_to(info.parent if path.parent == info else git_dir))
    places = {"{project_dir}": str(tree), "{home}": git.environment.get("HOME", "/"), "{tmp}": str(own)}
    inside = git.with_variables(GIT_DIR=own, GIT_WORK_TREE=tree, GIT_INDEX_FILE=own / "index", TMPDIR=own)
    return _store(tree, own, replace(inside, prefix=filled_in(sandbox, places)))


def _store(tree: Path, own: Path, git: Git) -> StoredTree:
    seen = git.names("diff-files", "-z", "--name-status", "--no-renames", "--ignore-submodules=dirty", at=own)
    untracked = git.names("ls-files", "-z", "--others", "--exclude-standard", at=own)
    repositories = [name for name in untracked if name.endswith("/")]
    tracked = list(zip(seen[::2], seen[1::2], strict=True))
    gone = [name for kind, name in tracked if kind == "D"]
    there = [name for kind, name in tracked if kind != "D"] + [name for name in untracked if not name.endswith("/")]
    listed = own.with_name("names")  # out of reach of the sandbox
    for how, names in ((("--force-remove",), gone), (("--add", "--remove"), there)):
        listed.write_bytes(b"".join(os.fsencode(name) + b"\0" for name in names))
        git.run("update-index", "-z", *how, "--stdin", at=own, stdin=listed)
    name = git.run("write-tree", "--missing-ok", at=own)
    staged = [entry.partition("\t") for entry in git.names("ls-files", "-z", "--stage", at=own)]
    repositories += [path for what, _, path in staged if what.startswith("160000") and (tree / path / ".git").exists()]
    others = git.names("ls-files", "-z", "--others", "--directory", "--no-empty-directory", at=own)
    pack, objects = None, git.run("cat-file", "--batch-all-objects", "--batch-check=%(objectname)", at=own)
    if objects:
        listed.write_text(f"{objects}\n")
        made = git.run("pack-objects", "-q", "--window=0", str(own / "new"), at=own, stdin=listed)
        pack = own / f"new-{made}.pack"
    return StoredTree(name, bool(repositories), bool(others), pack)
