"""Programs that tests of real CLIs need, and the marks of tests whose program may be missing."""

import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest

_SDK: Final = find_spec("claude_agent_sdk")  # not imported, which takes a second
CLAUDE_CLI: Final = Path(str(_SDK and _SDK.origin)).with_name("_bundled") / "claude"
"""The CLI that the wheel of the Claude SDK contains."""
STRACE: Final = ("strace", "-f", "-qq", "-e", "trace=connect", "-o")
"""Writes the connections of a program and its children to the file that follows."""


def _why_strace_cannot_run() -> str:
    if shutil.which("strace") is None:
        return "strace is not on PATH; .ci/toolchains installs it on Debian, as root"
    tried = subprocess.run([*STRACE, "/dev/null", "true"], capture_output=True, text=True, check=False)
    return "" if tried.returncode == 0 else f"strace exits with {tried.returncode} here: {tried.stderr.strip()}"


_NO_STRACE: Final = _why_strace_cannot_run()


def _needs(program: str) -> pytest.MarkDecorator:
    reason = f"{program} is not on PATH; `.ci/toolchains agents` installs it if npm is there"
    return pytest.mark.skipif(shutil.which(program) is None, reason=reason)


needs_claude_agent = _needs("claude-agent-acp")
needs_gemini = _needs("gemini")
needs_opencode = _needs("opencode")
needs_strace = pytest.mark.skipif(bool(_NO_STRACE), reason=_NO_STRACE or "it can run")
