#!/usr/bin/env python3
"""It does to its lifeline, or to the keeper of it, what it is asked to, and starts a daemon before."""

import os
import signal
import subprocess
from pathlib import Path

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def is_watcher(pid: int) -> bool:
    return b"ao_lifeline" in Path(f"/proc/{pid}/cmdline").read_bytes()


speaker = Speaker(cancel=True)
speaker.start()
subprocess.run(["/bin/sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 &"], check=True)
lifeline = os.getppid()
keeper = parent_of(lifeline)
for deed in speaker.invocation["parameters"]["deeds"]:
    number, target = {
        "kill the lifeline": (signal.SIGKILL, lifeline),
        "stop the lifeline": (signal.SIGSTOP, lifeline),
        "kill the keeper": (signal.SIGKILL, keeper),
        "stop the keeper": (signal.SIGSTOP, keeper),
    }[deed]
    if not is_watcher(target):
        raise SystemExit("this is nobody that may be harmed")
    os.kill(target, number)
speaker.say("log", level="info", message="it is done")
if speaker.invocation["parameters"].get("and_leaves"):
    speaker.result()
else:
    while speaker.read_line():
        pass
