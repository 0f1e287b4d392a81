"""The cgroup of one run: a folder below one that the runner owns. All of it can be killed at once. Linux only."""

import os
import select


def kill(leaf: str) -> None:
    """Kill all that is in it and below, at once: no fork slips through. A leaf that is not there is no error."""
    try:
        with open(f"{leaf}/cgroup.kill", "w") as switch:  # noqa: PTH123  # pathlib would add to every keeper's start
            switch.write("1")
    except OSError:
        return


def await_empty(leaf: str, timeout_milliseconds: int) -> bool:
    """Wait until no process is in it or below; False when the time is up first."""
    with open(f"{leaf}/cgroup.events") as events:  # noqa: PTH123  # as above
        poll = select.poll()
        poll.register(events, select.POLLPRI)
        while "populated 0" not in events.read():
            if not poll.poll(timeout_milliseconds):
                return False
            events.seek(0)
    return True


def remove(leaf: str) -> None:
    """Remove it with all that its processes made below it. One that still holds a process stays."""
    try:
        for entry in os.scandir(leaf):
            if entry.is_dir(follow_symlinks=False):
                remove(entry.path)
        os.rmdir(leaf)  # noqa: PTH106  # as above
    except OSError:
        return
