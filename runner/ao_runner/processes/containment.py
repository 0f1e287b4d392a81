"""Select how this machine contains the processes of a run, and do the runner's part of it (SPEC 11.3, AOX-248)."""

import errno
import os
import resource
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Literal, NamedTuple, get_args

import ao_lifeline
from ao_lifeline.lifelines import Lifelines, Limit
from ao_lifeline.removal import await_empty_leaf, kill_leaf, remove_leaf
from ao_runner.errors import RunnerError
from ao_runner.home import locked, take_lock

Kind = Literal["cgroup", "lifeline", "process_group"]

SETTING: Final = "AO_CONTAINMENT"
"""The variable that may select a weaker containment than the best one."""

SWEEP_MILLISECONDS: Final = 1000
"""How long the start of a runner waits for the processes of each dead runner to end."""

LIMITS: Final = {
    "memory_bytes": resource.RLIMIT_AS,
    "open_files": resource.RLIMIT_NOFILE,
    "processes": getattr(resource, "RLIMIT_NPROC", -1),
    "file_bytes": resource.RLIMIT_FSIZE,
    "cpu_seconds": resource.RLIMIT_CPU,
}
"""The limits of a profile. Each applies to one process, except `processes`: it counts all processes of the user."""

_CPU_GRACE_SECONDS: Final = 5
_OWNER: Final = "ao-"


class Containment(NamedTuple):
    """The containment of a run's processes, with a description. `folder` is the cgroup that may be divided."""

    kind: Kind
    sentence: str
    folder: Path | None = None


class UnknownContainment(RunnerError):
    """`AO_CONTAINMENT` has an unknown value, so its intended effect is unclear."""


def probe(environ: Mapping[str, str]) -> Containment:
    """Return the best containment of this machine that `AO_CONTAINMENT` does not exclude. Leaves no trace.

    Raises:
        UnknownContainment: The variable has an unknown value. An empty one counts as not set.
    """
    wanted = environ.get(SETTING) or "cgroup"
    if wanted not in get_args(Kind):
        expected = f"expected one of {', '.join(get_args(Kind))}; correct it, or unset it for the best"
        raise UnknownContainment(f"the variable {SETTING} is {wanted!r}, {expected}")
    if not ao_lifeline.IS_THERE or wanted == "process_group":
        asked = f" (limited by {SETTING})" if ao_lifeline.IS_THERE else ""
        return Containment(
            "process_group",
            "process group: a run's processes are killed with it, unless they leave the group; if ao is killed, "
            f"its next start kills them; resource limits are not applied{asked}",
        )
    held = "lifeline: every process of a run is killed with it, also if ao is killed"
    if wanted == "lifeline":
        return Containment("lifeline", f"{held} (limited by {SETTING})")
    try:
        folder = _own_cgroup()
        _try_leaf(folder)
    except OSError as error:
        return Containment("lifeline", f"{held}; no cgroup of its own: {error.strerror}")
    return Containment("cgroup", f"cgroup: every run has its own below {folder}, and a {held}", folder)


@contextmanager
def lifelines(containment: Containment) -> Iterator[Lifelines | None]:
    """Yield the lifelines of this runner, whose keeper is starting; None if there is only the process group.

    First kill the processes of runners that were killed together with their lifelines. If the cgroup cannot be divided
    after all, the lifelines work without it, and `Child.containment` of every run reports that.
    """
    if containment.kind == "process_group":
        yield None
    elif containment.folder is None:
        with Lifelines() as ours:
            yield ours
    else:
        sweep(containment.folder)
        with _owned_folder(containment.folder) as folder, Lifelines(folder) as ours:
            yield ours


def sweep(folder: Path) -> int:
    """Kill and remove the remains of dead runners in a cgroup folder, and return the number of these runners.

    A living runner holds a lock on its folder, so neither process ids nor their namespaces matter.
    """
    swept = 0
    for owner in folder.glob(f"{_OWNER}*/"):
        if not os.access(owner, os.W_OK):
            continue  # it belongs to another user
        with suppress(OSError), locked(owner) as is_ours:
            if is_ours:
                kill_leaf(str(owner))
                await_empty_leaf(str(owner), SWEEP_MILLISECONDS)
                remove_leaf(str(owner))
                swept += 1
    return swept


def limits_of(limits: Mapping[str, int]) -> list[Limit]:
    """Return the limits of a profile in the form for a lifeline; core dumps are always off.

    Raises:
        KeyError: A limit has an unknown name.
    """
    chosen = [Limit("core", resource.RLIMIT_CORE, 0, 0)]
    for name, value in limits.items():
        # The soft limit sends SIGXCPU, which identifies the cause; SIGKILL ends a process that ignores it.
        hard = value + _CPU_GRACE_SECONDS if name == "cpu_seconds" else value
        chosen.append(Limit(name, LIMITS[name], value, hard))
    # Memory comes last: with little memory the other limits could not be applied.
    return sorted(chosen, key=lambda limit: limit.name == "memory_bytes")


def _own_cgroup() -> Path:
    mounted = [
        fields
        for fields in map(str.split, Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines())
        if fields[fields.index("-") + 1] == "cgroup2"
    ]
    if not mounted:
        raise FileNotFoundError(errno.ENOENT, "cgroup v2 is not mounted")
    listing = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    ours = next((line.removeprefix("0::") for line in listing if line.startswith("0::")), "")
    root, mount_point = mounted[0][3], Path(mounted[0][4])
    if ".." in ours or not Path(ours).is_relative_to(root):
        raise FileNotFoundError(errno.ENOENT, f"the own cgroup {ours!r} is outside of what is mounted")
    return mount_point / Path(ours).relative_to(root)


def _try_leaf(folder: Path) -> None:
    """Create a leaf and remove it again.

    Raises:
        OSError: The leaf of a run would not work here.
    """
    if not os.access(folder / "cgroup.procs", os.W_OK):
        raise PermissionError(errno.EACCES, f"{folder} belongs to another user (systemd: set Delegate=yes)")
    # This name does not match the names that a sweep removes.
    tried = folder / f"probe-{_OWNER}{os.urandom(4).hex()}"
    tried.mkdir()
    try:
        if not (tried / "cgroup.kill").exists():
            raise FileNotFoundError(errno.ENOENT, "the kernel has no cgroup.kill (Linux 5.14)")
    finally:
        tried.rmdir()


@contextmanager
def _owned_folder(below: Path) -> Iterator[Path | None]:
    try:
        folder, lock = _locked_folder(below)
    except OSError:
        yield None
        return
    try:
        yield folder
    finally:
        remove_leaf(str(folder))
        os.close(lock)


def _locked_folder(below: Path) -> tuple[Path, int]:
    """Return a new folder and its lock.

    Raises:
        OSError: It cannot be created, or another runner's sweep removed every attempt before it was locked.
    """
    for _ in range(3):
        folder = below / f"{_OWNER}{os.getpid()}-{os.urandom(4).hex()}"
        folder.mkdir()
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        if take_lock(lock) and folder.exists():
            return folder, lock
        os.close(lock)
    raise FileNotFoundError(errno.ENOENT, f"every new folder in {below} was swept away")
