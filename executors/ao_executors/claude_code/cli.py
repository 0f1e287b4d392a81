"""Find the `claude` program, and the problems that prevent a run."""

import os
import shutil
from importlib.util import find_spec
from pathlib import Path

from ao_executors.claude_code.config import CLOUDS, CREDENTIALS
from ao_executors.core import RunFailed
from ao_protocol.errors import ErrorType
from ao_protocol.wire import JsonObject


def find_claude(config: JsonObject) -> Path:
    """Return the configured program, else the one in the SDK's wheel, else the one on PATH.

    Raises:
        RunFailed: The program is missing (`dependency_missing`).
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


def find_problems() -> list[str]:
    """Return one sentence for each missing requirement, with the remedy."""
    problems = []
    if find_spec("claude_agent_sdk") is None:
        problems.append("the Claude Agent SDK is not installed; pip install 'ao-executor-protocol[claude]'")
    else:
        try:
            find_claude({})
        except RunFailed as missing:
            problems.append(missing.message)
    if not any(os.environ.get(name) for name in (*CREDENTIALS, *CLOUDS)) and not _has_login():
        problems.append(f"no credentials; set {CREDENTIALS[0]}, or run `claude` once and log in")
    return problems


def _has_login() -> bool:
    config = os.environ.get("CLAUDE_CONFIG_DIR") or Path(os.environ.get("HOME", "/")) / ".claude"
    return (Path(config) / ".credentials.json").is_file()
