"""Find the `codex` program, and the problems that prevent a run."""

import os
import shutil
from importlib.util import find_spec
from pathlib import Path

from ao_executors.codex.config import KEYS
from ao_executors.core import RunFailed
from ao_protocol.errors import ErrorType
from ao_protocol.wire import JsonObject


def find_codex(config: JsonObject) -> Path:
    """Return the configured program, else the one of the wheel `openai-codex-cli-bin`, else the one on PATH.

    Raises:
        RunFailed: The program is missing (`dependency_missing`).
    """
    configured = config.get("codex_path")
    if isinstance(configured, str):
        if os.access(configured, os.X_OK):
            return Path(configured)
        raise _missing(f"at {configured}")
    wheel = find_spec("codex_cli_bin")
    bundled = Path(wheel.origin or "").parent / "bin" / "codex" if wheel is not None else None
    if bundled is not None and bundled.is_file():
        return bundled
    on_path = shutil.which("codex")
    if on_path is None:
        raise _missing("in the wheel openai-codex-cli-bin or on PATH")
    return Path(on_path)


def _missing(where: str) -> RunFailed:
    message = f"the codex program was not found {where}; pip install 'ao-executor-protocol[codex]'"
    return RunFailed(ErrorType.DEPENDENCY_MISSING, message, origin="environment")


def find_problems() -> list[str]:
    """Return one sentence for each missing requirement, with the remedy."""
    problems = []
    try:
        find_codex({})
    except RunFailed as missing:
        problems.append(missing.message)
    home = Path(os.environ.get("CODEX_HOME") or Path(os.environ.get("HOME", "/")) / ".codex")
    if not any(os.environ.get(name) for name in KEYS) and not (home / "auth.json").is_file():
        problems.append(f"no credentials; set {KEYS[0]}, or run `codex login` once")
    return problems
