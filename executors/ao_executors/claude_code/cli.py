"""Finds the `claude` program, and wraps it so that it cannot outlive the executor."""

import os
import shlex
import shutil
from importlib.util import find_spec
from pathlib import Path

from ao_executors.core.failures import RunFailed
from ao_executors.core.leash import IS_LEASHED, leashed
from ao_protocol.errors import ErrorType


def find_claude(configured: str | None) -> Path | None:
    """Return the configured program, else the one that the SDK's wheel carries, else the one on PATH."""
    if configured is not None:
        return Path(configured) if os.access(configured, os.X_OK) else None
    sdk = find_spec("claude_agent_sdk")
    if sdk is not None and sdk.origin is not None:
        bundled = Path(sdk.origin).parent / "_bundled" / "claude"
        if bundled.is_file():
            return bundled
    on_path = shutil.which("claude")
    return Path(on_path) if on_path else None


def wrapped_claude(configured: str | None, private_dir: Path) -> Path:
    """Return a program to start in place of `claude`; it lives in `private_dir`.

    The SDK takes a path and no arguments before its own, so the wrapper is a script.

    Raises:
        RunFailed: `dependency_missing`.
    """
    claude = find_claude(configured)
    if claude is None:
        looked = f"at {configured}" if configured else "in the SDK's wheel or on PATH"
        message = f"the claude program was not found {looked}; pip install 'ao-executor-protocol[claude]'"
        raise RunFailed(ErrorType.DEPENDENCY_MISSING, message, origin="environment")
    if not IS_LEASHED:
        return claude
    script = private_dir / "claude"
    command = shlex.join(leashed([str(claude)]))
    script.write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
    script.chmod(0o700)
    return script
