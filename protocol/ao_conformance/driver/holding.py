"""Hold one program for the suite: everything below it ends when the suite ends, in any way. Linux only.

The arguments are two import paths, the descriptor of a socket to the suite, and the command. The program leads a
session of its own. A process that loses its parent becomes a child of this one, so that also a daemon with an
environment of its own is found below it. Lines to the suite: the id of the program, or a negative errno if it cannot
be started; after its end, its wait status and the CPU seconds of it and of the children that it waited for. When the
suite closes the socket, everything below this process is killed.
"""

import os
import select
import signal
import sys
from contextlib import suppress

from ao_lifeline.program import IGNORED_BY_PYTHON, adopt_orphans, end_below

BOOT = "import sys; sys.path += sys.argv[1:3]; from ao_conformance.driver.holding import main; main()"


def main() -> None:
    """Start the program, tell of its start and its end, and end what is below this process."""
    line, command = int(sys.argv[3]), sys.argv[4:]
    adopt_orphans()
    woken, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    os.set_inheritable(line, False)
    try:
        program = os.posix_spawnp(command[0], command, os.environ, setsid=True, setsigdef=IGNORED_BY_PYTHON)
    except OSError as error:
        os.write(line, b"%d\n" % -(error.errno or 1))
        return
    nowhere = os.open(os.devnull, os.O_RDWR)
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208  # pathlib would double the start of this program
        if int(name) not in {line, woken, writer, nowhere}:
            with suppress(OSError):  # the descriptor of the listing itself
                os.dup2(nowhere, int(name)) if int(name) < 3 else os.close(int(name))
    with suppress(OSError):  # the suite has ended, as `poll` shows
        os.write(line, b"%d\n" % program)
        _follow(program, line, woken)
    if program in (statuses := end_below()):
        with suppress(OSError):
            os.write(line, b"%d 0\n" % statuses[program])


def _follow(program: int, line: int, woken: int) -> None:
    """Tell of the end of the program, and return when the suite has closed the socket."""
    poll = select.poll()
    poll.register(line, select.POLLIN)
    poll.register(woken, select.POLLIN)
    while not any(ready == line for ready, _ in poll.poll()):
        os.read(woken, 4096)
        with suppress(ChildProcessError):
            while (ended := os.wait4(-1, os.WNOHANG))[0]:
                if ended[0] == program:
                    os.write(line, b"%d %f\n" % (ended[1], ended[2].ru_utime + ended[2].ru_stime))
