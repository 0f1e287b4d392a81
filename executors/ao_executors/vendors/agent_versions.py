"""The versions of agents: the oldest that an executor works with, the newest that was tried, and the one that is here.

Nothing here starts an agent for a run: a run takes the version from what the agent says when it begins.
"""

import json
import os
import re
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from ao_executors.core import Findings, RunFailed
from ao_executors.core.program import first_line
from ao_protocol.errors import ErrorType

_VERSION: Final = re.compile(r"\d+(?:\.\d+)+")
_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class KnownVersions:
    """The versions of a program that an executor was tried with.

    Args:
        oldest: The oldest one that works.
        newest: The newest one.
        node: The major version of Node that the newest one needs; 0 if it needs none.
    """

    oldest: str
    newest: str
    node: int = 0


KNOWN: Final = {
    "claude": KnownVersions("2.1.197", "2.1.332"),
    "claude-agent-acp": KnownVersions("0.49.0", "0.101.0", node=22),
    "codex": KnownVersions("0.150.0", "0.171.0"),
    "gemini": KnownVersions("0.51.0", "0.61.0", node=20),
    "opencode": KnownVersions("1.15.0", "1.18.33"),
    "qwen": KnownVersions("0.24.0", "0.24.4", node=22),
}
"""By program. docs/agents.md says how they were tried."""


def refuse_too_old(program: str, version: object, install: str) -> None:
    """Raise RunFailed (`dependency_missing`) if an agent says that it is older than the oldest version that works."""
    if _is_older(version, KNOWN[program].oldest):
        message = f"{program} {version} is too old: {_remedy(program, install)}"
        raise RunFailed(ErrorType.DEPENDENCY_MISSING, message, origin="environment")


def examine(program: str, path: Path, install: str) -> Findings:
    """Return path and version of a program, and what is to be said about them. Nothing is written outside of /tmp."""
    package = _npm_package(path)
    version = str(package["version"]) if "version" in package else _told_by(str(path))
    known, problems, remarks = KNOWN[program], [], []
    if version is None:
        remarks.append(f"{path} does not tell its version; {known.oldest} is the oldest that works")
    elif _is_older(version, known.oldest):
        problems.append(f"{program} {version} at {path} is too old; {_remedy(program, install)}")
    elif _is_older(known.newest, version):
        remarks.append(f"{program} {version} is newer than {known.newest}, the newest that was tried")
    wanted = str(package.get("engines", {}).get("node", ""))
    node = _told_by("node") if wanted else None
    if node is not None and _is_older(node, wanted):
        remarks.append(f"{program} {version} asks for Node {wanted}, and `node` on PATH is {node}")
    return Findings(problems, [{"name": program, "path": str(path), "version": version}], remarks)


def _remedy(program: str, install: str) -> str:
    known = KNOWN[program]
    node = _told_by("node") if known.node else None
    remedy = f"{known.oldest} is the oldest that works: {install}"
    if node is None or not _is_older(node, f"{known.node}.0"):
        return remedy
    return f"{remedy}. `node` on PATH is {node}, for which npm installs an old version without a word"


def _is_older(version: object, other: str) -> bool:
    """Return whether a version is lower than another; False if one of the texts has none."""
    one, two = (_VERSION.search(text if "." in text else f"{text}.0") for text in (str(version), other))
    if one is None or two is None:
        return False
    return [int(part) for part in one[0].split(".")] < [int(part) for part in two[0].split(".")]


def _npm_package(program: Path) -> dict[str, Any]:
    """Return the package.json of a program that npm has installed; empty for any other program."""
    for folder in program.resolve().parents:
        with suppress(OSError, ValueError):
            package = json.loads((folder / "package.json").read_text(encoding="utf-8"))
            if isinstance(package, dict) and "bin" in package:
                return package
    return {}


def _told_by(program: str) -> str | None:
    """Return the version that a program prints. Its home is a scratch folder, because some write into it."""
    path = shutil.which(program)
    if path is None:
        return None
    with TemporaryDirectory(prefix="ao-version-", ignore_cleanup_errors=True) as home:
        told = first_line([path, "--version"], {"PATH": os.environ.get("PATH", os.defpath), "HOME": home}, _SECONDS)
    found = _VERSION.search(told)
    return None if found is None else found[0]
