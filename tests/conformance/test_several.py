"""Several executors in one call: one table, a report of each, and the step for GitHub Actions that makes both."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.process.executors.driver import installed

ROOT = Path(__file__).parents[2]
AO = installed("ao")
BASH, NODE = ROOT / "executors/examples/bash/ao-bash-exec", ROOT / "executors/examples/node/ao-node-exec"
ACTION: dict[str, Any] = yaml.safe_load((ROOT / ".github/actions/conformance/action.yml").read_text())
WRONG = """#!/bin/sh
[ "$1" = describe ] && {{ echo '{{"schema_versions":["3.0"],"executor":{{"name":"wrong","version":"1"}}}}'; exit 0; }}
exec {bash}
"""


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    """An executor whose name is not that of its program (AOX-124, a SHOULD)."""
    program = tmp_path / "ao-other-exec"
    program.write_text(WRONG.format(bash=BASH))
    program.chmod(0o755)
    return program


def run(*arguments: object) -> "subprocess.CompletedProcess[str]":
    argv = [AO, "conformance", "run", *map(str, arguments)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)


def test_several_executors_have_one_table_and_a_report_each(tmp_path: Path, wrong: Path) -> None:
    chosen = ("--level", "core", "--only", "describe", "--only", "start")
    reports = ("--report", f"table={tmp_path}/table.md", "--report", f"json={tmp_path}/{{name}}.json")

    done = run(*chosen, "--executor", BASH, "--executor", f"sh {wrong}", *reports)

    table = (tmp_path / "table.md").read_text()
    assert done.returncode == 0
    assert done.stdout.endswith(table)
    assert table.startswith("|  | bash 0.1.0 | wrong 1 |\n| --- | --- | --- |\n| level | core | core |\n")
    assert [json.loads((tmp_path / f"{name}.json").read_text())["name"] for name in ("bash", "wrong")] == [
        "bash",
        "wrong",
    ]


def test_one_file_does_not_hold_the_reports_of_several(tmp_path: Path) -> None:
    done = run("--executor", BASH, "--executor", BASH, "--report", f"json={tmp_path}/one.json")

    assert done.returncode == 2
    assert "write {name} in it" in done.stderr


@pytest.mark.requirement("AOX-124")
def test_a_should_fails_where_that_is_asked_for(wrong: Path) -> None:
    chosen = ("--only", "describe", "--level", "core")

    assert run(*chosen, "--", wrong).returncode == 0
    told = run(*chosen, "--level", "should", "--", wrong)

    assert told.returncode == 1
    assert "AOX-124 fail" in told.stdout


def test_the_step_for_github_tests_each_line_and_fills_the_summary(tmp_path: Path) -> None:
    (tmp_path / "ao-conformance/bin").mkdir(parents=True)
    (tmp_path / "ao-conformance/bin/ao").symlink_to(AO)
    step = ACTION["runs"]["steps"][-1]
    inputs = {name: str(told.get("default", "")) for name, told in ACTION["inputs"].items()}
    inputs |= {"executors": f"{BASH}\n\n{NODE}\n", "level": "core", "options": "--only 'start'"}
    inputs |= {"reports": str(tmp_path / "reports")}
    variables = {
        name: inputs[text.removeprefix("${{ inputs.").removesuffix(" }}")] for name, text in step["env"].items()
    }
    variables |= {"RUNNER_TEMP": str(tmp_path), "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")}

    subprocess.run(["/bin/bash", "-e", "-c", step["run"]], env={**os.environ, **variables}, timeout=120, check=True)

    assert "| bash 0.1.0 | node 0.1.0 |" in (tmp_path / "summary.md").read_text()
    assert sorted(path.name for path in (tmp_path / "reports").iterdir()) == [
        "bash.html",
        "bash.json",
        "node.html",
        "node.json",
    ]


def test_our_own_workflow_uses_the_step() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())

    used = [step for job in workflow["jobs"].values() for step in job["steps"] if "conformance" in step.get("uses", "")]

    assert [step["uses"] for step in used] == ["./.github/actions/conformance"]
    assert set(used[0]["with"]) <= set(ACTION["inputs"])
