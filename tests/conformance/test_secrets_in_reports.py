"""What a tester gives with `--env` as a secret is in no report, and no text of the executable is markup in one."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from ao_conformance.reports import REPORT_KINDS
from ao_conformance.reports.pages import fenced, prose

SECRET = "sk-canary/Pw42 äö"
TELLS_ITS_KEY = """#!/usr/bin/env python3
import json, os, sys
key = os.environ.get("SERVICE_TOKEN", "none")
markup = "<img src=x onerror=alert(1)> [a](javascript:1) | `x` <script>alert(2)</script> ::error::"
print(f"Error: the key is {key}, {markup}", file=sys.stderr)
print("x" * 1993 + key + "y" * 4000, file=sys.stderr)
if sys.argv[1:] == ["describe"]:
    executor = {"name": f"<b>{key}</b>", "version": markup}
    print(json.dumps({"schema_versions": ["3.0"], "executor": executor, "agent_types": ["autonomous"],
                      "capabilities": {}, key: [key]}))
else:
    print(json.dumps({"event_type": "run_started", key: f"{key} {markup}"}), flush=True)
    print(f"{key} {markup}", flush=True)
    sys.exit(3)
"""


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The reports on an executable that tells its key, and what the command printed."""
    folder = tmp_path_factory.mktemp("reports")
    executable = folder / "ao-tells-exec"
    executable.write_text(TELLS_ITS_KEY, encoding="utf-8")
    executable.chmod(0o755)
    reports = [part for kind in REPORT_KINDS for part in ("--report", f"{kind}={folder / kind}")]
    only = ["--only", "start", "--only", "describe", "--env", f"SERVICE_TOKEN={SECRET}", "--env", "PLAIN=shown-value"]
    argv = [sys.executable, "-m", "ao_runner", "conformance", "run", "--level", "core", *only, *reports, "--"]
    done = subprocess.run([*argv, str(executable)], capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 1, done.stderr
    return {kind: (folder / kind).read_text() for kind in REPORT_KINDS} | {"terminal": done.stdout + done.stderr}


@pytest.mark.parametrize("kind", [*REPORT_KINDS, "terminal"])
def test_no_report_contains_the_value_of_a_secret(kind: str, outputs: dict[str, str]) -> None:
    for form in (SECRET, json.dumps(SECRET)[1:-1], "canary", "Pw42"):
        assert form not in outputs[kind]
    assert kind in {"badge", "table"} or "***" in outputs[kind]


def test_the_line_to_play_again_names_the_secret_and_shows_the_other_variables(outputs: dict[str, str]) -> None:
    assert "--env 'SERVICE_TOKEN=***' --env PLAIN=shown-value" in outputs["terminal"]


def test_the_markdown_report_has_no_tag_of_the_executable(outputs: dict[str, str]) -> None:
    for tag in ("<img", "<script", "<b>"):
        assert tag not in outputs["markdown"]
    assert r"\x3cimg src=x" in outputs["markdown"]
    assert active_parts(outputs["markdown"]) == []


@given(st.text(st.sampled_from("`<>a!/\\&*_[]()|\n#~ :@\u202e"), max_size=30))
def test_a_text_in_a_markdown_report_is_no_markup(text: str) -> None:
    cell = prose(text, in_table=True)
    page = f"# {prose(text)}\n\n- a: {prose(text)}\n\n| a | b |\n| - | - |\n| {cell} | {cell} |\n\n{fenced(text)}\n"
    assert active_parts(page) == []


def active_parts(page: str) -> list[str]:
    """Return what is an element, a link or an image in a Markdown page."""
    tokens = MarkdownIt("gfm-like", {"html": True, "linkify": False}).parse(page)
    parts = [part for token in tokens for part in (token, *(token.children or ()))]
    return [part.content for part in parts if part.type in {"html_block", "html_inline", "link_open", "image"}]


def test_the_folder_of_the_shell_is_no_secret(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "ao_runner", "conformance", "smoke", "--", str(tmp_path / "none")]
    done = subprocess.run(argv, env={"PWD": str(tmp_path)}, capture_output=True, text=True, check=False, timeout=100)
    assert str(tmp_path / "none") in done.stderr
