"""What is missing for a run, found without spending anything on a model."""

import os
from importlib.util import find_spec
from pathlib import Path

from ao_executors.claude_code.cli import find_claude
from ao_executors.claude_code.cli_variables import CLOUDS, CREDENTIALS
from ao_executors.core.failures import RunFailed


def find_problems() -> list[str]:
    """Return a sentence for each thing that is missing, with what to do about it."""
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
