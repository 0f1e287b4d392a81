"""The pages about our own executors: each has the command that repeats it, in anybody's checkout."""

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conformance.pages import BUILT, CLAIMS, ROOT, Claim, index_of, page_of
from tests.conformance.reports.results import small_result
from tests.process.executors.driver import installed

CLAUDE = (
    "ao conformance run --level standard --base docs/conformance/claude-code-base.json --env IS_SANDBOX=1 "
    "--env CLAUDE_CODE_MAX_RETRIES=1 --jobs 4 -- ao-claude-code-exec"
)


def claim_of(name: str, built: Path) -> Claim:
    claims = {claim.name: claim for claim in CLAIMS}
    return claims[name] if name in claims else Claim(name, [str(built / name / f"ao-{name}-exec")], "core")


def command_on_the_page(claim: Claim, built: Path) -> str:
    page = page_of(claim, replace(small_result(), command=tuple(claim.command)), built)
    found: list[str] = re.findall(r"```sh\n(.*?)\n```", page, re.DOTALL)
    return found[0]


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("claude-code", CLAUDE),
        ("echo", "ao conformance run --level standard --jobs 4 -- ao-echo-exec"),
        ("bash", "ao conformance run --level core --jobs 4 -- executors/examples/bash/ao-bash-exec"),
        ("python", "ao conformance run --level core --jobs 4 -- python executors/examples/python/ao-python-exec"),
        ("rust", "ao conformance run --level core --jobs 4 -- executors/examples/rust/ao-rust-exec"),
    ],
    ids=["a configuration", "installed", "an example", "an example with an interpreter", "built"],
)
def test_a_page_has_the_whole_command_without_folders_of_this_machine(name: str, command: str, tmp_path: Path) -> None:
    assert command_on_the_page(claim_of(name, tmp_path), tmp_path) == command


def test_a_variable_with_a_file_of_the_checkout_names_no_folder_of_this_machine(tmp_path: Path) -> None:
    claim = replace(claim_of("echo", tmp_path), environment={"CLI": f"{ROOT}/executors/cli"})
    command = command_on_the_page(claim, tmp_path)
    assert command == 'ao conformance run --level standard --env CLI="$PWD"/executors/cli --jobs 4 -- ao-echo-exec'


def test_the_suite_takes_the_options_that_stand_on_a_page() -> None:
    command = CLAUDE.replace("ao conformance run", f"{installed('ao')} conformance run --list", 1)
    listed = subprocess.run(
        ["/bin/sh", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=100, check=False
    )

    assert listed.returncode == 0, listed.stderr
    assert "cancel-while-a-tool-runs" in listed.stdout


def test_each_example_has_a_line_in_the_index() -> None:
    examples = {path.name for path in (ROOT / "executors" / "examples").iterdir() if path.is_dir()}
    claims = {claim.name: claim for claim in (*CLAIMS, *(Claim(name, ["ao"], "core") for name in BUILT))}

    index = index_of(dict.fromkeys(claims, small_result()), "")

    assert {name for name in examples if f"| [{name}]({name}.md) |" not in index} == set()
