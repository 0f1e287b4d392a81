"""What an executor declares is tested: no capability is declared whose requirements wait for their tests."""

import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.executors.driver import bare_environment, installed

ROOT = Path(__file__).parents[3]
LEVEL = re.compile(r"\*\*(AOX-\d{3})\*\* \(MUST, capability:(\w+)\)")


def untested_capabilities() -> set[str]:
    level_of = dict(LEVEL.findall((ROOT / "protocol" / "SPEC.md").read_text(encoding="utf-8")))
    untested = tomllib.loads((ROOT / "tests" / "protocol" / "untested.toml").read_text(encoding="utf-8"))["untested"]
    return {level_of[name] for name in untested if name in level_of}


@pytest.mark.parametrize("name", ["claude-code", "echo", "procedural", "scripted"])
def test_no_executor_declares_what_nobody_tests(name: str) -> None:
    told = subprocess.run(
        [installed(f"ao-{name}-exec"), "describe"], env=bare_environment(), capture_output=True, timeout=30, check=True
    )
    declared = {capability for capability, has in json.loads(told.stdout)["capabilities"].items() if has}
    assert "streaming" in untested_capabilities()
    assert declared & untested_capabilities() == set()
