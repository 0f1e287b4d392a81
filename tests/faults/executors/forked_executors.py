"""Perform many runs of one executor, whose modules are imported once: each run is a process of its own.

usage: forked_executors.py DIALECT FOLDER      each folder in FOLDER has an `invocation.json`, and gets `events.jsonl`

A run that takes longer than `MOST_SECONDS` is killed.
"""

import os
import signal
import sys
import time
from importlib import import_module
from pathlib import Path

MOST_SECONDS = 40.0
AT_ONCE = 4
PROGRAMS = {
    "acp": ("ao_executors.acp.acp_executors", "any_agent", "ao_executors.acp.agent_turn"),
    "claude": ("ao_executors.claude_code.claude_executor", "main", "ao_executors.claude_code.claude_connection"),
    "codex": ("ao_executors.codex.codex_executor", "main", "ao_executors.codex.codex_connection"),
}


def start(dialect: str, folder: Path) -> int:
    """Return the id of a process that performs the run of a folder."""
    child = os.fork()
    if child == 0:
        os.setsid()
        for number, name in enumerate(("invocation.json", "events.jsonl", "stderr.txt")):
            opened = os.open(folder / name, os.O_RDWR | os.O_CREAT)
            os.dup2(opened, number)
        sys.argv = [dialect]
        module, function, _ = PROGRAMS[dialect]
        getattr(import_module(module), function)()
    return child


def main(dialect: str, folders: list[Path]) -> None:
    for module in PROGRAMS[dialect]:
        if "." in module:
            import_module(module)
    running: dict[int, float] = {}
    while folders or running:
        while folders and len(running) < AT_ONCE:
            running[start(dialect, folders.pop())] = time.monotonic()
        ended, _ = os.waitpid(-1, os.WNOHANG)
        running.pop(ended, None)
        for child, since in running.items():
            if time.monotonic() - since > MOST_SECONDS:
                os.killpg(child, signal.SIGKILL)
        if not ended:
            time.sleep(0.005)


if __name__ == "__main__":
    main(sys.argv[1], sorted(Path(sys.argv[2]).iterdir()))
