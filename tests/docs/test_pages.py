"""The pages keep what they promise: links lead somewhere, examples run, tables agree with the code."""

import os
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from ao_protocol.errors import ExitCode
from ao_protocol.output import OutputOptions, Strategy

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "protocol" / "SPEC.md", *(ROOT / "docs").rglob("*.md")]
)
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)?(?:#([^)\s]+))?\)")


def test_links_between_pages_lead_somewhere() -> None:
    broken = []
    for page in PAGES:
        for target, anchor in LINK.findall(page.read_text()):
            if target.startswith(("http:", "https:")):
                continue
            found = (page.parent / target).resolve() if target else page
            if not found.exists() or (anchor and anchor not in anchors_of(found)):
                broken.append(f"{page.relative_to(ROOT)}: {target}#{anchor}")
    assert broken == []


def anchors_of(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", ["README.md", "docs/write-an-executor.md"])
def test_the_executor_on_the_page_runs(page: str, tmp_path: Path) -> None:
    (source,) = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    executor = tmp_path / "ao-parrot-exec"
    executor.write_text(source)
    finished = subprocess.run(
        [sys.executable, str(executor)],
        input=b'{"schema_version":"3.0","mode":"start","parameters":{"prompt":"hello"}}\n',
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        timeout=30,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    assert b'"result_text":"HELLO"' in finished.stdout


def test_the_page_about_commands_names_every_exit_code() -> None:
    section = (ROOT / "docs" / "cli.md").read_text().split("\n### Exit codes\n", 1)[1].split("\n## ", 1)[0]
    rows = re.findall(r"^\| (\d+) \| [^|]+ \|$", section, re.MULTILINE)
    assert [int(code) for code in rows] == [int(code) for code in ExitCode]


def test_the_page_about_contracts_names_every_option_and_strategy() -> None:
    page = (ROOT / "docs" / "contracts.md").read_text()
    options = [field.name for field in fields(OutputOptions)]

    assert re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) == [
        *options,
        *map(str, (Strategy.SYSTEM_PROMPT, Strategy.PROMPT, Strategy.NATIVE, Strategy.AUTO, Strategy.EXTRACT)),
    ]
    assert sorted(Strategy) == sorted(set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) - set(options))
