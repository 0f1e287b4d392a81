"""Executors written for one test: a program on the toolkit whose `perform` does what the test says."""

import sys
from pathlib import Path
from textwrap import dedent, indent
from typing import Final

_HEAD: Final = """\
import asyncio, os, subprocess, sys, threading, time
from contextlib import asynccontextmanager

from ao_executors.core import Answer, Executor, RunFailed, serve
from ao_protocol.errors import ErrorType


def warm_up():
    sys.stderr.write("warm\\n")


async def perform(task):
    from ao_protocol.events import Log, Message, Result, ToolFinished, ToolStarted
    from ao_protocol.message_content import TextBlock

    done = Result(result_text="done", result_data=None, stop_reason="end_turn")
"""
_CONNECT: Final = """


class Connection:
    \"\"\"What stands in the file `diary` of the project is all that happens to it; a file `dead` is its end.\"\"\"

    def __init__(self, folder):
        self.folder = folder

    @property
    def is_alive(self):
        return not (self.folder / "dead").exists()


@asynccontextmanager
async def connect(context):
    if context.system_prompt == "fail":
        raise RunFailed(ErrorType.DEPENDENCY_MISSING, "not this time", origin="environment")
    with (context.project_dir / "diary").open("a", buffering=1) as diary:
        if context.system_prompt == "slow":
            diary.write("begin\\n")
            while not (context.project_dir / "go").exists():
                await asyncio.sleep(0.01)
        (context.project_dir / "dead").unlink(missing_ok=True)
        diary.write(f"open {context.system_prompt}\\n")
        yield Connection(context.project_dir)
        diary.write("close\\n")
"""
_TAIL: Final = """

description = {"capabilities": CAPABILITIES, "secrets": ["HOMEMADE_KEY"]}
serve(Executor("homemade", "1", perform, description, warm_up=warm_up, connect=CONNECT))
"""


def homemade(folder: Path, body: str, *, connects: bool = False, **capabilities: object) -> list[str]:
    """Write an executor into `folder` and return its argv. `body` has `task` and `done`, a result to return."""
    program = folder / "homemade.py"
    tail = _TAIL.replace("CAPABILITIES", repr({"cancel": True, **capabilities}))
    tail = tail.replace("CONNECT", "connect" if connects else "None")
    program.write_text(_HEAD + indent(dedent(body), "    ") + _CONNECT + tail, encoding="utf-8")
    return [sys.executable, str(program)]
