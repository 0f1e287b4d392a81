"""The runner's side of its keeper: request a program on a lifeline, and hold the line. Linux only.

Nothing here waits for the keeper, which may still be starting: requests queue in its socket.
"""

import errno
import marshal
import os
import select
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, Self

from ao_lifeline import MAX_MESSAGE_BYTES, Message
from ao_lifeline.removal import kill_leaf

END_SECONDS: Final = 2.0
"""How long the end of a `with` block waits for the keeper, which waits for the last lifeline."""

THE_PROGRAM: Final = "the program"
"""The failed step in `ProgramNotStarted` if the program itself is the cause."""
WORKING_FOLDER: Final = "its working folder"
"""The failed step if the working folder cannot be entered."""

_BOOT: Final = "import sys; sys.path.append(sys.argv[1]); from ao_lifeline.keeper import main; main()"
_KEPT_VARIABLES: Final = ("PATH", "LD_LIBRARY_PATH")


class Limit(NamedTuple):
    """A resource limit of a program: its name for people, its number in `resource`, and its two values."""

    name: str
    number: int
    soft: int
    hard: int


class Program(NamedTuple):
    """The program to start. A name without a slash is searched in the PATH of its own environment."""

    argv: Sequence[str]
    environment: Mapping[str, str]
    cwd: Path | None = None
    limits: Sequence[Limit] = ()


class ProgramNotStarted(OSError):
    """A lifeline could not start its program; `errno` is the cause and `doing` the refused step, if known."""

    def __init__(self, number: int, doing: str, program: str) -> None:
        super().__init__(number, os.strerror(number), program)
        self.doing = doing

    def __str__(self) -> str:
        return f"{self.filename} cannot be started: {self.doing}: {self.strerror}"


class Lifelines:
    """The lifelines of one runner, and their keeper. For one thread; a `with` block owns it.

    The block or the first program starts the keeper, which is restarted if it dies; lifelines continue without it.
    When this process ends, in any way, every program ends with all its descendants.

    `leaves` is a cgroup folder in which every program gets its own leaf, if possible.
    """

    def __init__(self, leaves: Path | None = None) -> None:
        self.leaves: Final = leaves
        self._count = 0
        self._keeper: _Keeper | None = None

    def tie(self, program: Program, streams: tuple[int, int, int]) -> "Line":
        """Request a program with the given stdin, stdout and stderr, which stay the caller's, and return its line.

        Raises:
            OSError: No descriptors or no keeper. The line reports a program that cannot be started.
        """
        self._count += 1
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs, os.fdopen(os.memfd_create("program"), "wb", buffering=0) as described:
                arguments = [os.fsencode(argument) for argument in program.argv]
                environment = {os.fsencode(name): os.fsencode(value) for name, value in program.environment.items()}
                cwd = os.fsencode(Path.cwd() if program.cwd is None else program.cwd.absolute())
                limits = [tuple(limit) for limit in program.limits]
                described.write(marshal.dumps((arguments, environment, cwd, limits)))
                leaf = None if self.leaves is None else str(self.leaves / str(self._count))
                order = ("start", self._count, leaf)
                keeper = self._send(order, [*streams, theirs.fileno(), described.fileno()])
        except BaseException:
            ours.close()
            raise
        return Line(ours, keeper, self._count, program.argv[0], leaf)

    def close(self) -> None:
        """Release the keeper and wait for its end, for at most `END_SECONDS`; then kill it."""
        if self._keeper is not None:
            self._keeper.close()
            self._keeper = None

    def _send(self, order: Message, fds: list[int]) -> "_Keeper":
        self._keeper = self._keeper or _Keeper()
        if not self._keeper.send(order, fds):
            # The keeper was killed or no longer reads. Its lifelines have their own lines.
            gone, self._keeper = self._keeper, None
            gone.close(0)
            self._keeper = _Keeper()
            if not self._keeper.send(order, fds):
                raise OSError(errno.EPIPE, "the keeper of lifelines ends as soon as it is started")
        return self._keeper

    def __enter__(self) -> Self:
        """Start the keeper without waiting for it, so that the first program finds it ready.

        If no process or descriptor is available now, the first program tries again, and `tie` reports a failure.
        """
        with suppress(OSError):
            self._keeper = self._keeper or _Keeper()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Line:
    """The line of one program: its descriptor is readable when the program and all its descendants have ended.

    `exit_code` and `was_in_leaf`, whether the program had its own cgroup, are set after `reap`.
    """

    pid: Final = None
    """The process belongs to the lifeline: others must not signal its id, which may be reused at any time."""

    def __init__(self, end: socket.socket, keeper: "_Keeper", number: int, program: str, leaf: str | None) -> None:
        self._socket = end
        self._socket.setblocking(False)
        self._keeper = keeper
        self._number = number
        self._program = program
        self._leaf = leaf
        self.fd = end.fileno()
        self.exit_code: int | None = None
        self.was_in_leaf = False
        self._is_over = False

    def signal(self, number: signal.Signals) -> None:
        """Pass a signal to the program's process group. SIGKILL reaches all its descendants."""
        if not self._is_over:
            # A full line means that the lifeline does not read: `cut` is for that.
            with suppress(BlockingIOError, ConnectionError):
                self._socket.send(bytes([number]))

    def reap(self, timeout_seconds: float = 0.0) -> int | None:
        """Return the exit code, negative for a signal; None if the program has not ended within the timeout.

        A killed lifeline counts as a program killed by SIGKILL, which happens within milliseconds.

        Raises:
            ProgramNotStarted: The program was never started.
        """
        if self._is_over or not _is_readable(self.fd, timeout_seconds):
            return self.exit_code
        word = _receive(self._socket)
        self._is_over = True
        if not word:
            if not self._keeper.has_taken(self._number):
                raise ProgramNotStarted(errno.ECHILD, "its lifeline, whose keeper has ended", self._program)
            if self._leaf is not None:
                # The keeper does this as well, but may have been killed together with the lifeline.
                kill_leaf(self._leaf)
            self.exit_code = -signal.SIGKILL
            return self.exit_code
        match marshal.loads(word):  # noqa: S302  # from a fork of what this process started
            case ("ended", int(status), bool(was_in_leaf)):
                self.exit_code, self.was_in_leaf = os.waitstatus_to_exitcode(status), was_in_leaf
            case ("failed", number, str(doing)):
                raise ProgramNotStarted(number or errno.EPERM, doing, self._program)
        return self.exit_code

    def cut(self) -> None:
        """Kill the lifeline itself, which may be stopped or hang, with everything that it held."""
        if not self._is_over:
            self._keeper.send(("cut", self._number), [])

    def close(self) -> None:
        """Close the line: everything below it is killed."""
        self._socket.close()
        self._is_over = True


class _Keeper:
    """A keeper process and the socket to it."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setblocking(False)
        self._is_open = True
        self._last_taken = 0
        with theirs:
            try:
                self._pid = _spawn(theirs.fileno())
            except OSError:
                self._socket.close()
                raise

    def send(self, message: Message, fds: list[int]) -> bool:
        """Send one message; return False if the keeper does not accept it."""
        if not self._is_open:
            return False
        self._read()
        try:
            socket.send_fds(self._socket, [marshal.dumps(message)], fds)
        except (BlockingIOError, ConnectionError):
            return False
        return True

    def has_taken(self, number: int) -> bool:
        """Return whether an order led to a lifeline."""
        self._read()
        return number <= self._last_taken

    def _read(self) -> None:
        """Read the messages of the keeper, so that it never blocks on writing."""
        with suppress(BlockingIOError):
            while self._is_open and (message := _receive(self._socket)):
                self._last_taken = marshal.loads(message)  # noqa: S302  # as above

    def close(self, timeout_seconds: float = END_SECONDS) -> None:
        """Close the socket, and kill the keeper if it does not end within the timeout."""
        self._read()
        self._is_open = False
        self._socket.close()
        with suppress(ChildProcessError):
            descriptor = os.pidfd_open(self._pid)
            try:
                if not _is_readable(descriptor, timeout_seconds):
                    os.kill(self._pid, signal.SIGKILL)
                os.waitpid(self._pid, 0)
            finally:
                os.close(descriptor)


def _spawn(requests: int) -> int:
    return os.posix_spawn(
        sys.executable,
        [sys.executable, "-I", "-S", "-c", _BOOT, str(Path(__file__).parents[1])],
        {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ},
        file_actions=[
            (os.POSIX_SPAWN_DUP2, requests, 3),
            *((os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_RDWR, 0) for stream in (0, 1, 2)),
        ],
        # A SIGKILL to the runner's group or session must not reach the keeper, nor Ctrl-C.
        setsid=True,
        setsigmask=(),
        setsigdef=(signal.SIGPIPE, signal.SIGXFSZ),
    )


def _receive(end: socket.socket) -> bytes:
    """Return the next message, empty at the end."""
    # If the other side ended with unread data, Linux reports this once, and then returns the data that it had written.
    for _ in range(2):
        with suppress(ConnectionResetError):
            return end.recv(MAX_MESSAGE_BYTES)
    return b""


def _is_readable(fd: int, timeout_seconds: float) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(timeout_seconds * 1000))
