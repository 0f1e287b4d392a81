"""Finds the `claude` program."""

import os
import shutil
from importlib.util import find_spec
from pathlib import Path

from ao_executors.core.failures import RunFailed
from ao_protocol.errors import ErrorType
from ao_protocol.wire import JsonObject


def find_claude(config: JsonObject) -> Path:
    """Return the configured program, else the one that the SDK's wheel carries, else the one on PATH.

    Raises:
        RunFailed: `dependency_missing`.
    """
    configured = config.get("cli_path")
    if isinstance(configured, str):
        if os.access(configured, os.X_OK):
            return Path(configured)
        raise _missing(f"at {configured}")
    sdk = find_spec("claude_agent_sdk")
    bundled = Path(sdk.origin or "").parent / "_bundled" / "claude" if sdk is not None else None
    if bundled is not None and bundled.is_file():
        return bundled
    on_path = shutil.which("claude")
    if on_path is None:
        raise _missing("in the SDK's wheel or on PATH")
    return Path(on_path)


def _missing(where: str) -> RunFailed:
    message = f"the claude program was not found {where}; pip install 'ao-executor-protocol[claude]'"
    return RunFailed(ErrorType.DEPENDENCY_MISSING, message, origin="environment")
