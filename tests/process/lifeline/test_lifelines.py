"""A keeper and its lifelines: every end of a run, and of those who watch over it, leaves nothing."""

import errno
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ao_lifeline import IS_THERE
from ao_lifeline.lifelines import Lifelines, ProgramNotStarted
from ao_lifeline.removal import await_empty_leaf, kill_leaf, remove_leaf
from ao_runner.processes.containment import lifelines, probe, sweep
from ao_runner.processes.spawn import Child
from tests.process.lifeline.held_pipe import assert_everybody_is_gone, held_pipe
from tests.process.lifeline.leftovers import ends, processes_in
from tests.process.lifeline.reading import read_until

pytestmark = pytest.mark.skipif(not IS_THERE, reason="only Linux has subreapers")

ENVIRONMENT = {"PATH": os.environ["PATH"]}
MINIATURES = Path(__file__).parents[2] / "miniatures"
SECONDS = 100.0
BEST = probe({}).kind if IS_THERE else "process_group"
NO_CGROUP = pytest.mark.skipif(BEST != "cgroup", reason="this process may divide no cgroup")


@pytest.fixture(scope="module", params=["lifeline", pytest.param("cgroup", marks=NO_CGROUP)])
def held(request: pytest.FixtureRequest) -> Iterator[Lifelines]:
    with lifelines(probe({"AO_CONTAINMENT": request.param})) as ours:
        assert ours is not None
        yield ours


@pytest.fixture
def of_its_own() -> Iterator[Lifelines]:
    with Lifelines() as ours:
        yield ours


@pytest.fixture
def delegated() -> Iterator[Path]:
    """Yield a cgroup for a runner, as a service manager would make it."""
    own = probe({}).folder
    assert own is not None
    folder = own / f"test-{secrets.token_hex(4)}"
    folder.mkdir()
    yield folder
    kill_leaf(str(folder))
    await_empty_leaf(str(folder), 5000)
    remove_leaf(str(folder))


def shell(script: str, folder: Path, ours: Lifelines) -> Child:
    return Child(["sh", "-c", script], ENVIRONMENT, folder, lifeline=ours)


@contextmanager
def miniature(name: str, folder: Path, ours: Lifelines) -> Iterator[Child]:
    """Yield an executor that has said a first word about what it does."""
    with Child([str(MINIATURES / f"{name}.py")], ENVIRONMENT, folder, lifeline=ours) as child:
        child.stdin.send(b'{"run_id": "r", "session_id": "s"}\n')
        read_until(child, b'"log"')
        yield child


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.parametrize(
    ("script", "code"),
    [("exit 0", 0), ("exit 7", 7), ("kill -KILL $$", -9), ("kill -PIPE $$", -13), ("setsid sleep 1000 & exit 3", 3)],
)
def test_a_program_ends_as_it_would_without_a_lifeline_and_nothing_is_left(
    tmp_path: Path, held: Lifelines, script: str, code: int
) -> None:
    with shell(script, tmp_path, held) as child:
        assert child.reap(SECONDS) == code
        assert processes_in(tmp_path, 0) == []


def test_a_signal_that_comes_before_the_program_waits_for_it(tmp_path: Path, held: Lifelines) -> None:
    with shell("sleep 1000", tmp_path, held) as child:
        child.signal_group(signal.SIGTERM)

        assert child.reap(SECONDS) == -signal.SIGTERM


def test_signals_that_came_too_late_to_be_read_hide_no_exit_code(tmp_path: Path, held: Lifelines) -> None:
    with shell("echo $PPID $$; read line; exit 3", tmp_path, held) as child:
        lifeline, program = map(int, read_until(child, b"\n").split())
        os.kill(lifeline, signal.SIGSTOP)
        child.stdin.send(b"go\n")
        assert ends(program, SECONDS)
        for _ in range(5):
            child.signal_group(signal.SIGTERM)
        os.kill(lifeline, signal.SIGCONT)
        assert ends(lifeline, SECONDS)

        assert child.reap(SECONDS) == 3


@pytest.mark.parametrize("name", ["survives_everything", "forks_without_end"])
def test_whoever_resists_is_killed_with_all_that_it_started(tmp_path: Path, held: Lifelines, name: str) -> None:
    with miniature(name, tmp_path, held) as child:
        child.signal_group(signal.SIGTERM)
        child.signal_group(signal.SIGKILL)

        assert child.reap(SECONDS) == -signal.SIGKILL
        assert processes_in(tmp_path, 0) == []


def test_a_stopped_program_is_killed_like_any_other(tmp_path: Path, held: Lifelines) -> None:
    with shell("echo up; kill -STOP 0", tmp_path, held) as child:
        read_until(child, b"up")
        child.signal_group(signal.SIGKILL)

        assert child.reap(SECONDS) == -signal.SIGKILL


def test_a_program_that_kills_its_lifeline_ends_with_it(tmp_path: Path, held: Lifelines) -> None:
    with shell("setsid sleep 1000 & kill -KILL $PPID; sleep 1000", tmp_path, held) as child:
        assert child.reap(SECONDS) == -signal.SIGKILL
        assert processes_in(tmp_path) == []


def test_a_program_that_stops_its_lifeline_is_killed_when_its_time_is_up(tmp_path: Path, of_its_own: Lifelines) -> None:
    with shell("setsid sleep 1000 & kill -STOP $PPID; echo up; sleep 1000", tmp_path, of_its_own) as child:
        read_until(child, b"up")

    assert child.exit_code == -signal.SIGKILL
    assert processes_in(tmp_path) == []


WAITS = "echo $PPID; read line; exit 5"


def keeper_of(child: Child) -> int:
    """Return the keeper of a program that tells its lifeline and then waits."""
    return parent_of(int(read_until(child, b"\n")))


def test_runs_go_on_without_their_keeper_and_new_ones_get_another(tmp_path: Path, of_its_own: Lifelines) -> None:
    with shell(WAITS, tmp_path, of_its_own) as first:
        keeper = keeper_of(first)
        os.kill(keeper, signal.SIGKILL)
        assert ends(keeper, SECONDS)
        with shell(WAITS, tmp_path, of_its_own) as second:
            assert keeper_of(second) != keeper
            for child in (second, first):
                child.stdin.send(b"go\n")
                assert child.reap(SECONDS) == 5


def test_what_a_keeper_had_not_begun_when_it_was_killed_has_not_started(tmp_path: Path, of_its_own: Lifelines) -> None:
    with shell(WAITS, tmp_path, of_its_own) as child:
        keeper = keeper_of(child)
    os.kill(keeper, signal.SIGSTOP)
    with shell("touch started", tmp_path, of_its_own) as child:
        os.kill(keeper, signal.SIGKILL)
        with pytest.raises(ProgramNotStarted, match="sh cannot be started: its lifeline, whose keeper has ended"):
            child.reap(SECONDS)
    assert not (tmp_path / "started").exists()


def test_a_hundred_runs_leave_no_process_and_no_descriptor(tmp_path: Path, of_its_own: Lifelines) -> None:
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    with_keeper = set(children.read_text().split())
    with shell("exit 0", tmp_path, of_its_own) as child:
        child.reap(SECONDS)
    before = list(Path("/proc/self/fd").iterdir())
    for _ in range(100):
        with Child(["/bin/true"], ENVIRONMENT, tmp_path, lifeline=of_its_own) as child:
            assert child.reap(SECONDS) == 0
    assert list(Path("/proc/self/fd").iterdir()) == before
    with shell("cat /proc/$(cut -d ' ' -f 4 /proc/$PPID/stat)/task/*/children", tmp_path, of_its_own) as child:
        assert len(read_until(child, b"\n", or_end=True).split()) == 1
        child.reap(SECONDS)
    of_its_own.close()
    assert set(children.read_text().split()) < with_keeper


def test_nobody_holds_what_the_runner_has_open(tmp_path: Path) -> None:
    with held_pipe() as (reading, writing):
        os.set_inheritable(writing, True)
        with Lifelines() as ours, shell("echo up; sleep 1000", tmp_path, ours) as child:
            read_until(child, b"up")
            os.close(writing)
            assert_everybody_is_gone(reading)


@pytest.mark.parametrize(
    ("text", "mode", "code"),
    [(None, 0, errno.ENOENT), ("#!/bin/sh\n", 0o644, errno.EACCES), ("no program", 0o755, errno.ENOEXEC)],
    ids=["absent", "not executable", "not a program"],
)
def test_a_program_that_cannot_be_started_is_told_by_its_error(
    tmp_path: Path, held: Lifelines, text: str | None, mode: int, code: int
) -> None:
    program = tmp_path / "program"
    if text is not None:
        program.write_text(text)
        program.chmod(mode)
    with (
        Child([str(program)], ENVIRONMENT, tmp_path, lifeline=held) as child,
        pytest.raises(ProgramNotStarted, match="program cannot be started: the program: ") as raised,
    ):
        child.reap(SECONDS)
    assert raised.value.errno == code
    assert child.exit_code is None


def test_what_was_refused_before_the_program_is_named(tmp_path: Path, held: Lifelines) -> None:
    with (
        Child(["true"], ENVIRONMENT, tmp_path / "gone", lifeline=held) as child,
        pytest.raises(ProgramNotStarted, match="true cannot be started: its working folder: No such file"),
    ):
        child.reap(SECONDS)


@pytest.mark.parametrize("value", [2**40, 2**70], ids=["more than the system has", "more than a limit can be"])
def test_a_limit_that_is_refused_is_named(value: int, held: Lifelines) -> None:
    with (
        Child(["true"], ENVIRONMENT, lifeline=held, limits={"open_files": value}) as child,
        pytest.raises(ProgramNotStarted, match="true cannot be started: its limit open_files: Operation not permitted"),
    ):
        child.reap(SECONDS)


def test_a_program_has_the_limits_that_it_was_given(held: Lifelines) -> None:
    limits = {"memory_bytes": 2**33, "open_files": 99, "processes": 1000, "file_bytes": 2**20, "cpu_seconds": 7}
    shown = "RLIMIT_AS", "RLIMIT_NOFILE", "RLIMIT_NPROC", "RLIMIT_FSIZE", "RLIMIT_CPU", "RLIMIT_CORE"
    script = f"import resource; print([resource.getrlimit(getattr(resource, name)) for name in {shown}])"
    with Child([sys.executable, "-c", script], ENVIRONMENT, lifeline=held, limits=limits) as child:
        assert read_until(child, b"\n").decode().strip() == str(
            [(2**33, 2**33), (99, 99), (1000, 1000), (2**20, 2**20), (7, 12), (0, 0)]
        )


def test_a_long_command_line_and_a_large_environment_arrive(held: Lifelines) -> None:
    environment = ENVIRONMENT | {f"VARIABLE_{number}": "x" * 100_000 for number in range(5)} | {"LAST": "\udcff"}
    script = 'printf %s "$VARIABLE_4$1$LAST" | wc -c'
    with Child(["sh", "-c", script, "sh", "y" * 100_000], environment, lifeline=held) as child:
        assert int(read_until(child, b"\n")) == 200_001


RUNNER = """
import os, sys
from pathlib import Path
from ao_runner.processes.containment import lifelines, probe
from ao_runner.processes.spawn import Child
from tests.process.lifeline.reading import read_until

if cgroup := sys.argv[3]:
    Path(cgroup, "cgroup.procs").write_text("0")
with lifelines(probe(os.environ)) as held:
    with Child([sys.argv[1]], {"PATH": os.environ["PATH"]}, Path(sys.argv[2]), lifeline=held) as child:
        child.stdin.send(b'{"run_id": "r", "session_id": "s"}\\n')
        read_until(child, b'"log"')
        print("up", flush=True)
        sys.stdin.read()
"""


@contextmanager
def runner(folder: Path, kind: str, cgroup: str = "") -> Iterator[subprocess.Popen[bytes]]:
    """Yield a process that runs an executor which has started daemons."""
    folder.mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", RUNNER, str(MINIATURES / "survives_everything.py"), str(folder), cgroup],
        cwd=MINIATURES.parents[1],
        env=ENVIRONMENT | {"AO_CONTAINMENT": kind},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        yield process


@pytest.mark.requirement("AOX-248")
@pytest.mark.parametrize("whole_group", [False, True], ids=["the runner", "the runner's whole group"])
@pytest.mark.parametrize("kind", ["lifeline", pytest.param("cgroup", marks=NO_CGROUP)])
def test_a_killed_runner_leaves_nobody_behind(tmp_path: Path, kind: str, whole_group: bool) -> None:
    with runner(tmp_path / "project", kind) as process:
        (os.killpg if whole_group else os.kill)(process.pid, signal.SIGKILL)
        process.wait()

        assert processes_in(tmp_path / "project", 2.0) == []


@NO_CGROUP
def test_what_outlived_a_runner_and_its_lifelines_is_swept_at_the_next_start(tmp_path: Path, delegated: Path) -> None:
    with runner(tmp_path / "project", "cgroup", str(delegated)) as process:
        [keeper] = children_of(process.pid)
        watchers = [process.pid, keeper, *children_of(keeper)]
        assert sweep(delegated) == 0
        for pid in watchers:
            os.kill(pid, signal.SIGSTOP)
        for pid in watchers:
            os.kill(pid, signal.SIGKILL)
        process.wait()

        assert sweep(delegated) == 1
        assert not list(delegated.glob("ao-*"))
        assert processes_in(tmp_path / "project", 0) == []
