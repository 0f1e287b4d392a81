"""The door to processes, with real ones."""

import os
import selectors
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import ao_lifeline
from ao_lifeline.lifelines import Lifelines
from ao_runner.processes.containment import lifelines, probe
from ao_runner.processes.spawn import Child, Tail, read_available
from tests.process.lifeline.leftovers import processes_in

ENVIRONMENT = {"PATH": os.environ["PATH"]}


@pytest.fixture(scope="module", params=["process_group", "lifeline", "cgroup"])
def held(request: pytest.FixtureRequest) -> Iterator[Lifelines | None]:
    """Yield what holds the children. A machine that cannot do it falls back, and all is as before."""
    with lifelines(probe({"AO_CONTAINMENT": request.param})) as ours:
        yield ours


def wait_for(*descriptors: int) -> list[int]:
    with selectors.DefaultSelector() as selector:
        for descriptor in descriptors:
            selector.register(descriptor, selectors.EVENT_READ)
        return [key.fd for key, _ in selector.select(10)]


def test_the_end_of_a_process_in_its_group_can_be_waited_for_while_others_hold_its_pipes(tmp_path: Path) -> None:
    with Child(["sh", "-c", "tail -f /dev/null & exit 7"], ENVIRONMENT, tmp_path) as child:
        assert wait_for(child.exit_fd) == [child.exit_fd]
        assert read_available(child.stdout_fd) is None
        child.signal_group(signal.SIGKILL)
        assert wait_for(child.stdout_fd) == [child.stdout_fd]
        assert read_available(child.stdout_fd) == b""
        assert child.reap() == 7
    assert processes_in(tmp_path) == []


@pytest.mark.skipif(not ao_lifeline.IS_THERE, reason="only Linux has subreapers")
def test_the_end_of_a_process_on_a_lifeline_is_the_end_of_all(tmp_path: Path) -> None:
    with (
        lifelines(probe({})) as held,
        Child(["sh", "-c", "setsid tail -f /dev/null & exit 7"], ENVIRONMENT, tmp_path, lifeline=held) as child,
    ):
        assert wait_for(child.exit_fd) == [child.exit_fd]
        assert read_available(child.stdout_fd) == b""
        assert child.reap() == 7
        assert child.is_tied


def test_a_with_block_leaves_no_process_behind(tmp_path: Path, held: Lifelines | None) -> None:
    script = "tail -f /dev/null & tail -f /dev/null"
    with Child(["sh", "-c", script], ENVIRONMENT, tmp_path, lifeline=held):
        pass

    assert processes_in(tmp_path) == []


def test_a_signal_to_the_group_after_the_reaping_is_not_sent(held: Lifelines | None) -> None:
    with Child(["true"], ENVIRONMENT, lifeline=held) as child:
        wait_for(child.exit_fd)
        assert child.reap() == 0
        child.signal_group(signal.SIGKILL)


def test_a_child_inherits_no_descriptor_but_its_three(tmp_path: Path, held: Lifelines | None) -> None:
    script = "import os; print(sorted(os.listdir('/proc/self/fd')))"
    with (tmp_path / "open").open("w") as inheritable:
        os.set_inheritable(inheritable.fileno(), True)
        with Child([sys.executable, "-c", script], ENVIRONMENT, lifeline=held) as child:
            wait_for(child.exit_fd)
            # The fourth is the listing's own.
            assert read_available(child.stdout_fd) == b"['0', '1', '2', '3']\n"


def test_what_a_child_does_not_read_waits_and_blocks_nobody(held: Lifelines | None) -> None:
    with Child(["tail", "-f", "/dev/null"], ENVIRONMENT, lifeline=held) as child:
        child.stdin.send(b"x" * 10_000_000)

        assert child.stdin.wants_to_write

        child.stdin.close()
        assert not child.stdin.wants_to_write
        child.stdin.send(b"late")


def test_a_child_that_closed_its_stdin_is_no_error(held: Lifelines | None) -> None:
    with Child(["true"], ENVIRONMENT, lifeline=held) as child:
        wait_for(child.exit_fd)

        child.stdin.send(b"nobody reads this")

        assert not child.stdin.is_open


def test_a_program_that_is_not_there_is_an_os_error_at_once_without_a_lifeline() -> None:
    with pytest.raises(FileNotFoundError):
        Child(["/no/such/program"], ENVIRONMENT)


def test_a_tail_keeps_the_end_and_begins_at_a_line() -> None:
    tail = Tail(20)

    for number in range(100):
        tail.feed(f"line {number}\n".encode())

    assert tail.text() == "line 98\nline 99\n"
    assert tail.total_bytes == 790
