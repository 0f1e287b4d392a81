"""Executors written for one test: a program on the toolkit whose `perform` does what the test says."""

import sys
from pathlib import Path
from textwrap import dedent, indent
from typing import Final

_HEAD: Final = """\
import asyncio, os, subprocess, sys, threading, time

from ao_executors.core import Answer, Executor, RunFailed, serve


async def perform(task):
    from ao_protocol.events import Log, Message, Result, TextBlock, ToolFinished, ToolStarted

    done = Result(result_text="done", result_data=None, stop_reason="end_turn")
"""
_TAIL: Final = """

serve(Executor("homemade", "1", perform, {"capabilities": CAPABILITIES}))
"""


def homemade(folder: Path, body: str, **capabilities: object) -> list[str]:
    """Write an executor into `folder` and return its argv. `body` has `task` and `done`, a result to return."""
    program = folder / "homemade.py"
    tail = _TAIL.replace("CAPABILITIES", repr({"cancel": True, **capabilities}))
    program.write_text(_HEAD + indent(dedent(body), "    ") + tail, encoding="utf-8")
    return [sys.executable, str(program)]
